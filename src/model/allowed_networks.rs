//! Networks from which a key may be used (`OA-126`).

use std::{fmt, net::IpAddr, str::FromStr, sync::Arc};

use ipnet::IpNet;

/// Networks from which a key may be used. By default from anywhere. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedNetworks(Option<Arc<[IpNet]>>);

// === impl AllowedNetworks ===

impl AllowedNetworks {
    /// True if a client at this address may use the key.
    pub fn allow(&self, from: IpAddr) -> bool {
        let Some(networks) = &self.0 else { return true };
        let from = from.to_canonical();
        networks.iter().any(|network| network.contains(&from))
    }

    /// The networks; `None` if the key may be used from anywhere.
    pub fn listed(&self) -> Option<&[IpNet]> {
        self.0.as_deref()
    }
}

/// No networks mean anywhere.
impl FromIterator<IpNet> for AllowedNetworks {
    fn from_iter<I: IntoIterator<Item = IpNet>>(networks: I) -> Self {
        let networks: Arc<[IpNet]> = networks.into_iter().map(|network| network.trunc()).collect();
        Self(Some(networks).filter(|networks| !networks.is_empty()))
    }
}

/// Separated by spaces; empty means anywhere.
impl fmt::Display for AllowedNetworks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, network) in self.listed().unwrap_or_default().iter().enumerate() {
            write!(f, "{}{network}", if number == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

impl FromStr for AllowedNetworks {
    type Err = ipnet::AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.split_ascii_whitespace().map(str::parse::<IpNet>).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_allowed_by_one_of_the_networks_in_either_notation() {
        let networks: AllowedNetworks = "192.0.2.7/24 2001:db8::/32".parse().unwrap();
        assert_eq!(networks.to_string(), "192.0.2.0/24 2001:db8::/32");
        let allowed = |networks: &AllowedNetworks, from: &str| networks.allow(from.parse().unwrap());
        for (from, expected) in [
            ("192.0.2.200", true),
            ("::ffff:192.0.2.1", true),
            ("2001:db8:1::1", true),
            ("192.0.3.1", false),
            ("::1", false),
        ] {
            assert_eq!(allowed(&networks, from), expected, "{from}");
            assert!(allowed(&AllowedNetworks::default(), from), "{from}");
        }
        assert_eq!("".parse(), Ok(AllowedNetworks::default()));
        assert!("nowhere".parse::<AllowedNetworks>().is_err());
    }
}
