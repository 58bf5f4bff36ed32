//! Where a request may go: scheme, host, port and addresses (`OA-47`).

use std::net::IpAddr;

use url::{Host, Origin, Url};

use super::{
    address::{is_fake, is_public},
    error::RefusedUrl,
};
use crate::model::EgressNames;

/// Top-level domains that are not part of the internet (RFC 6761, RFC 7686, RFC 6762, ICANN's `.internal`).
const SPECIAL_DOMAINS: [&str; 5] = ["arpa", "onion", "local", "internal", "localhost"];

/// Permitted destinations; by default only https at port 443 of public addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// Ports at public addresses.
    pub ports: Ports,
    /// Destinations other than public addresses.
    pub exceptions: Vec<Exception>,
}

/// Ports at public addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ports {
    #[default]
    Https,
    /// Any port; still with https.
    Any,
}

/// A destination other than a public address, over http too and at any port. Only the operator makes exceptions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exception {
    /// `localhost` and the loopback addresses: while the gateway itself is reachable there, as in development.
    Loopback,
    /// This scheme, host and port, at any address: configured by name by the operator.
    Origin(Origin),
}

/// A URL that may be requested, if its addresses are allowed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FetchDestination {
    pub(super) host: Host<String>,
    pub(super) port: u16,
    pub(super) encryption: Encryption,
    /// The place to look the name up.
    pub(super) lookup: NameLookup,
    addresses: AllowedAddresses,
}

/// The place to look up the name of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameLookup {
    Gateway,
    Proxy,
    /// At the gateway, and at the proxy for an operator's name that the gateway does not find.
    GatewayThenProxy,
}

/// Encryption of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encryption {
    Tls,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AllowedAddresses {
    Public,
    /// Also the addresses of a fake-IP resolver.
    PublicOrFake,
    Loopback,
    Any,
}

// === impl FetchDestination ===

impl FetchDestination {
    /// Checks everything possible before the name is resolved.
    pub(super) fn of(url: &Url, reach: &Reach, names: EgressNames) -> Result<Self, RefusedUrl> {
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
        let (lookup, addresses) = match (names, addresses) {
            (EgressNames::Resolved, addresses) => (NameLookup::Gateway, addresses),
            (EgressNames::ByProxy, AllowedAddresses::Any) => (NameLookup::GatewayThenProxy, addresses),
            (_, AllowedAddresses::Any | AllowedAddresses::Loopback) => (NameLookup::Gateway, addresses),
            // the guard sees no addresses, so the name has to rule out internal hosts
            _ if port != 443 => return Err(RefusedUrl::Port(port)),
            _ if !is_public_name(&host) => return Err(RefusedUrl::Name),
            (EgressNames::ByProxy, _) => (NameLookup::Proxy, addresses),
            (EgressNames::Fake, _) => (NameLookup::Gateway, AllowedAddresses::PublicOrFake),
        };
        Ok(Self { host: host.to_owned(), port, encryption, lookup, addresses })
    }

    /// Checks the addresses of a name. A forbidden address refuses all of them: it is not there by accident.
    pub(super) fn check(&self, found: &[IpAddr]) -> Result<(), RefusedUrl> {
        let is_allowed = |address: &IpAddr| match self.addresses {
            AllowedAddresses::Public => is_public(*address),
            AllowedAddresses::PublicOrFake => is_public(*address) || is_fake(*address),
            AllowedAddresses::Loopback => address.is_loopback(),
            AllowedAddresses::Any => true,
        };
        if found.iter().all(is_allowed) { Ok(()) } else { Err(RefusedUrl::Address) }
    }
}

/// True for a name below a known public suffix, outside of [`SPECIAL_DOMAINS`].
fn is_public_name(host: &Host<&str>) -> bool {
    let Host::Domain(name) = host else { return false };
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_special = name.rsplit('.').next().is_some_and(|top| SPECIAL_DOMAINS.contains(&top));
    let suffix = psl::suffix(name.as_bytes()).filter(psl::Suffix::is_known);
    !is_special && suffix.is_some_and(|suffix| suffix != name) && !name.split('.').any(str::is_empty)
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
        let destination = FetchDestination::of(&Url::parse(url).unwrap(), reach, EgressNames::Resolved)?;
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
    fn oa_148_without_addresses_only_names_below_a_known_public_suffix_pass() {
        for names in [EgressNames::ByProxy, EgressNames::Fake] {
            let any_port = Reach { ports: Ports::Any, ..Reach::default() };
            let refusal = |url: &str| FetchDestination::of(&Url::parse(url).unwrap(), &any_port, names).err();
            for host in ["claude.ai", "a.b.example.co.uk", "x.github.io", "claude.ai."] {
                assert_eq!(refusal(&format!("https://{host}/")), None, "{host}");
            }
            for host in [
                "intranet",
                "com",
                "co.uk",
                "github.io",
                "a.corp",
                "a.lan",
                "router.home.arpa",
                "1.0.0.10.in-addr.arpa",
                "a.onion",
                "printer.local",
                "metadata.google.internal",
                "a.localhost",
                "localhost",
                "printer.local.",
                "8.8.8.8",
                "198.18.0.1",
                "[2606:4700::1111]",
                "10.0.0.1",
            ] {
                assert_eq!(refusal(&format!("https://{host}/")), Some(RefusedUrl::Name), "{host}");
            }
            assert_eq!(refusal("https://claude.ai:8443/"), Some(RefusedUrl::Port(8443)));
            assert_eq!(refusal("http://claude.ai/"), Some(RefusedUrl::Scheme));
        }
        let url = Url::parse("https://claude.ai/").unwrap();
        let fake = FetchDestination::of(&url, &Reach::default(), EgressNames::Fake).unwrap();
        assert_eq!(fake.check(&["198.19.255.1".parse().unwrap()]), Ok(()));
        for private in ["10.0.0.1", "169.254.169.254", "fc00::1", "::ffff:198.18.0.1"] {
            assert_eq!(fake.check(&[private.parse().unwrap()]), Err(RefusedUrl::Address), "{private}");
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
        let localhost = Url::parse("http://localhost/").unwrap();
        let localhost = FetchDestination::of(&localhost, &loopback, EgressNames::Resolved).unwrap();
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
