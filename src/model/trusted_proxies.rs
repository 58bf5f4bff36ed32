//! Networks of proxies whose `X-Forwarded-For` is trusted (`OA-138`).

use std::net::IpAddr;

use ipnet::IpNet;

/// The word for [`PRIVATE_NETWORKS`].
const PRIVATE: &str = "private";

/// Networks unreachable from the internet: loopback, RFC 1918, RFC 6598, link-local, and RFC 4193.
const PRIVATE_NETWORKS: [&str; 8] = [
    "127.0.0.0/8",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
    "169.254.0.0/16",
    "::1/128",
    "fc00::/7",
];

/// The networks, and whether they were given as the private ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies {
    networks: Vec<IpNet>,
    trusts_private: bool,
}

// === impl TrustedProxies ===

impl TrustedProxies {
    /// The networks in a list with commas or spaces, as a variable has it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut proxies = Self::default();
        let words = text.split([',', ' ', '\t', '\n']).filter(|word| !word.is_empty());
        words.into_iter().try_for_each(|word| proxies.add(word))?;
        Ok(proxies)
    }

    /// Adds a network, an address, or the private networks.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        if text == PRIVATE {
            self.trusts_private = true;
            self.networks.extend(PRIVATE_NETWORKS.iter().filter_map(|network| network.parse::<IpNet>().ok()));
            return Ok(());
        }
        let address = || text.parse().map(|address: IpAddr| IpNet::from(address));
        let network = text.parse().or_else(|_| address());
        let fault = "this is neither a network such as `10.0.0.0/8`, nor an address, nor `private`";
        network.map(|network| self.networks.push(network)).map_err(|_| fault.to_owned())
    }

    /// The networks.
    pub fn networks(&self) -> &[IpNet] {
        &self.networks
    }

    /// True if the private networks are trusted as a whole: any machine in one can claim any address as its own.
    pub const fn trusts_private(&self) -> bool {
        self.trusts_private
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_means_the_networks_that_the_internet_does_not_reach() {
        let proxies = TrustedProxies::parse("private").unwrap();
        assert!(proxies.trusts_private() && proxies.networks().len() == PRIVATE_NETWORKS.len());
        let is_trusted = |address: &str| {
            let address: IpAddr = address.parse().unwrap();
            proxies.networks().iter().any(|network| network.contains(&address))
        };
        for inside in [
            "127.0.0.1",
            "::1",
            "10.255.0.1",
            "172.16.0.1",
            "172.31.255.254",
            "192.168.1.1",
            "100.64.0.1",
            "100.127.9.9",
            "169.254.1.1",
            "fd00::1",
            "fc00::1",
        ] {
            assert!(is_trusted(inside), "{inside}");
        }
        for outside in ["172.32.0.1", "100.128.0.1", "192.0.2.1", "11.0.0.1", "fe80::1", "2001:db8::1", "8.8.8.8"] {
            assert!(!is_trusted(outside), "{outside}");
        }
    }

    #[test]
    fn a_variable_lists_networks_and_addresses() {
        let proxies = TrustedProxies::parse(" 10.0.0.0/8,192.0.2.7 , ::1").unwrap();
        assert_eq!((proxies.networks().len(), proxies.trusts_private()), (3, false));
        assert_eq!(TrustedProxies::parse("").unwrap(), TrustedProxies::default());
        assert!(TrustedProxies::parse("10.0.0.0/8;::1").unwrap_err().contains("nor `private`"));
        assert!(TrustedProxies::parse("Private").is_err());
    }
}
