//! The section `[http]`: HTTP access rules. Knows nothing of the middleware.

use ipnet::IpNet;
use url::Url;

use super::section::Section;
use crate::model::{QueryKey, Serves};

/// HTTP access rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpConfig {
    /// `allowed_origins`: browser origins that may call `/mcp` and `/sse`, beside the gateway's own and loopback ones
    /// (OA-25), each `scheme://host[:port]` as browsers send it.
    pub allowed_origins: Vec<String>,
    /// `allowed_hosts`: accepted names in the `Host` header, beside that of `public_url` (OA-138), each a name or an
    /// address without port, lower case.
    pub allowed_hosts: Vec<String>,
    /// `trusted_proxies`: networks whose forwarding headers are trusted (OA-138).
    pub trusted_proxies: Vec<IpNet>,
    /// `query_api_key`: API key as `?api_key=` on `/sse` (OA-124).
    pub query_api_key: QueryKey,
    /// `legacy_clients`: clients of the versions with sessions (`translation` 2.6).
    pub serves: Serves,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            trusted_proxies: Vec::new(),
            query_api_key: QueryKey::Accepted,
            serves: Serves::BothEras,
        }
    }
}

impl HttpConfig {
    /// Reads the section; reports invalid values and uses their defaults.
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        Self {
            allowed_origins: section.parsed_list("allowed_origins", origin).unwrap_or_default(),
            allowed_hosts: section.parsed_list("allowed_hosts", host).unwrap_or_default(),
            trusted_proxies: section.parsed_list("trusted_proxies", network).unwrap_or_default(),
            query_api_key: match section.flag("query_api_key") {
                Some(false) => QueryKey::Ignored,
                _ => QueryKey::Accepted,
            },
            serves: match section.flag("legacy_clients") {
                Some(false) => Serves::ModernAlone,
                _ => Serves::BothEras,
            },
        }
    }
}

/// `scheme://host[:port]` as RFC 6454 6.2 serializes it.
fn origin(text: &str) -> Result<String, String> {
    const FORM: &str = "an origin is `https://host` or `https://host:port`, without a path";
    let url = Url::parse(text).map_err(|_| FORM.to_owned())?;
    let bare = url.path().len() <= 1 && url.query().is_none() && url.fragment().is_none();
    let origin = url.origin();
    if bare && !text.ends_with('/') && origin.is_tuple() { Ok(origin.ascii_serialization()) } else { Err(FORM.into()) }
}

/// A name or an address, without port; an IPv6 address in brackets.
pub(super) fn host(text: &str) -> Result<String, String> {
    match url::Host::parse(text) {
        Ok(host) => Ok(host.to_string()),
        Err(_) => Err("a host is a name or an address such as `mcp.internal`, without scheme and port".to_owned()),
    }
}

/// A network in CIDR form, or one address.
fn network(text: &str) -> Result<IpNet, String> {
    text.parse()
        .or_else(|_| text.parse().map(|address: std::net::IpAddr| IpNet::from(address)))
        .map_err(|_| "this is neither a network such as `10.0.0.0/8` nor an address".to_owned())
}
