//! Where a request may go: scheme, host, port and addresses (`OA-47`). Knows nothing of connections.

use std::net::IpAddr;

use url::{Host, Origin, Url};

use super::{address::is_public, error::RefusedUrl};

/// Permitted destinations; by default https at port 443 of public addresses alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// Ports at public addresses.
    pub ports: Ports,
    /// Destinations beside public addresses.
    pub exceptions: Vec<Exception>,
}

/// Ports at public addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ports {
    /// Port 443.
    #[default]
    Https,
    /// Any port; still with https.
    Any,
}

/// A destination beside public addresses, over http too and at any port. Only the operator makes exceptions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exception {
    /// `localhost` and the loopback addresses: while the gateway itself is reached there, so in development.
    Loopback,
    /// This scheme, host and port, wherever it is: what the operator configured by name.
    Origin(Origin),
}

/// A URL that may be requested, if its addresses are allowed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FetchDestination {
    pub(super) host: Host<String>,
    pub(super) port: u16,
    pub(super) encryption: Encryption,
    addresses: AllowedAddresses,
}

/// Encryption of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encryption {
    Tls,
    /// Only for exceptions.
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AllowedAddresses {
    Public,
    Loopback,
    Any,
}

// === impl FetchDestination ===

impl FetchDestination {
    /// Checks everything that can be checked before the name is resolved.
    pub(super) fn of(url: &Url, reach: &Reach) -> Result<Self, RefusedUrl> {
        let encryption = match url.scheme() {
            "https" => Encryption::Tls,
            "http" => Encryption::None,
            _ => return Err(RefusedUrl::Scheme),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(RefusedUrl::Credentials);
        }
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else { return Err(RefusedUrl::Host) };
        let addresses = if reach.exceptions.contains(&Exception::Origin(url.origin())) {
            AllowedAddresses::Any
        } else if reach.exceptions.contains(&Exception::Loopback) && is_loopback(&host) {
            AllowedAddresses::Loopback
        } else {
            AllowedAddresses::Public
        };
        if addresses == AllowedAddresses::Public && encryption == Encryption::None {
            return Err(RefusedUrl::Scheme);
        }
        if addresses == AllowedAddresses::Public && reach.ports == Ports::Https && port != 443 {
            return Err(RefusedUrl::Port(port));
        }
        Ok(Self { host: host.to_owned(), port, encryption, addresses })
    }

    /// Checks the addresses that the name has. One that is not allowed refuses all: such a name is not answered by
    /// accident.
    pub(super) fn check(&self, found: &[IpAddr]) -> Result<(), RefusedUrl> {
        let is_allowed = |address: &IpAddr| match self.addresses {
            AllowedAddresses::Public => is_public(*address),
            AllowedAddresses::Loopback => address.is_loopback(),
            AllowedAddresses::Any => true,
        };
        if found.iter().all(is_allowed) { Ok(()) } else { Err(RefusedUrl::Address) }
    }
}

fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, reach: &Reach) -> Result<(), RefusedUrl> {
        let destination = FetchDestination::of(&Url::parse(url).unwrap(), reach)?;
        match destination.host {
            Host::Domain(_) => Ok(()),
            Host::Ipv4(address) => destination.check(&[address.into()]),
            Host::Ipv6(address) => destination.check(&[address.into()]),
        }
    }

    #[test]
    fn strangers_reach_https_at_public_addresses_alone() {
        let reach = Reach::default();
        assert_eq!(check("https://a.example/x", &reach), Ok(()));
        for (url, refusal) in [
            ("http://a.example/", RefusedUrl::Scheme),
            ("ftp://a.example/", RefusedUrl::Scheme),
            ("https://a.example:8443/", RefusedUrl::Port(8443)),
            ("https://a.example:22/", RefusedUrl::Port(22)),
            ("https://u@a.example/", RefusedUrl::Credentials),
            ("https://:p@a.example/", RefusedUrl::Credentials),
            ("http://localhost/", RefusedUrl::Scheme),
        ] {
            assert_eq!(check(url, &reach), Err(refusal), "{url}");
        }
    }

    #[test]
    fn oa_047_odd_spellings_of_addresses_are_the_addresses_that_they_mean() {
        for host in ["0x7f.1", "2130706433", "0177.0.0.1", "127.1", "0xa9fea9fe", "[::ffff:7f00:1]", "①②⑦.1", "0"]
        {
            assert_eq!(check(&format!("https://{host}/"), &Reach::default()), Err(RefusedUrl::Address), "{host}");
        }
    }

    #[test]
    fn exceptions_reach_no_further_than_they_say() {
        let loopback = Reach { exceptions: vec![Exception::Loopback], ..Reach::default() };
        for url in ["http://localhost:8080/", "http://127.0.0.1:1/", "https://[::1]:2/"] {
            assert_eq!(check(url, &loopback), Ok(()), "{url}");
        }
        assert_eq!(check("http://10.0.0.1/", &loopback), Err(RefusedUrl::Scheme));
        assert_eq!(check("https://10.0.0.1/", &loopback), Err(RefusedUrl::Address));
        let localhost = FetchDestination::of(&Url::parse("http://localhost/").unwrap(), &loopback).unwrap();
        assert_eq!(localhost.check(&["10.0.0.1".parse().unwrap()]), Err(RefusedUrl::Address));

        let own = Url::parse("http://10.0.0.1:9000").unwrap().origin();
        let own = Reach { exceptions: vec![Exception::Origin(own)], ..Reach::default() };
        assert_eq!(check("http://10.0.0.1:9000/x", &own), Ok(()));
        assert_eq!(check("http://10.0.0.1:9001/x", &own), Err(RefusedUrl::Scheme));
        assert_eq!(check("https://10.0.0.1/x", &own), Err(RefusedUrl::Address));
        let any_port = Reach { ports: Ports::Any, ..Reach::default() };
        assert_eq!(check("https://1.1.1.1:8443/", &any_port), Ok(()));
        assert_eq!(check("http://1.1.1.1:8443/", &any_port), Err(RefusedUrl::Scheme));
    }
}
