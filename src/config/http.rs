//! The section `[http]`: HTTP access rules. Knows nothing of the middleware.

use ipnet::IpNet;

use super::{keys, section::Section};
use crate::model::{AllowedOrigin, QueryKey, Serves, config_key::config_keys, policy::host};

config_keys! {
    /// HTTP access rules.
    pub struct HttpConfig, taken at restart {
        /// Web pages, extensions and apps that may call MCP endpoints, such as `"https://app.example.com"`,
        /// `"https://*.example.com"` for all names below one, or `"chrome-extension://id"`, beside the gateway's own and
        /// loopback pages.
        allowed_origins: Vec<AllowedOrigin> = texts(AllowedOrigin::parse) at reload;
        /// Further names in the `Host` header, without port, such as `"mcp.internal"`.
        allowed_hosts: Vec<String> = texts(host) at reload;
        /// Networks or addresses whose `X-Forwarded-For` is believed, such as `"10.0.0.0/8"`.
        trusted_proxies: Vec<IpNet> = texts(network);
        /// If clients of the versions with sessions are served.
        legacy_clients: Serves = flag(true => Serves::BothEras, false => Serves::ModernAlone);
        /// If `/sse` takes an API key as `?api_key=`.
        query_api_key: QueryKey = flag(true => QueryKey::Accepted, false => QueryKey::Ignored);
    }
}

impl HttpConfig {
    /// Reads the section; reports invalid values and uses their defaults.
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        keys::read(section, Self::KEYS, Self::default()).0
    }
}

/// A network in CIDR form, or one address.
fn network(text: &str) -> Result<IpNet, String> {
    text.parse()
        .or_else(|_| text.parse().map(|address: std::net::IpAddr| IpNet::from(address)))
        .map_err(|_| "this is neither a network such as `10.0.0.0/8` nor an address".to_owned())
}
