//! The section `[http]`: HTTP access rules.

use super::{keys, section::Section};
use crate::model::{AllowedOrigin, QueryKey, Serves, TrustedProxies, config_key::config_keys, policy::host};

config_keys! {
    /// HTTP access rules.
    pub struct HttpConfig, taken at restart {
        /// Web pages, extensions and apps that may call MCP endpoints, in addition to the gateway's own and loopback
        /// pages: `"https://app.example.com"`, `"https://*.example.com"` for all names below one, or
        /// `"chrome-extension://id"`.
        allowed_origins: Vec<AllowedOrigin> = texts(AllowedOrigin::parse) at reload;
        /// Further names accepted in the `Host` header, without port, such as `"mcp.internal"`.
        allowed_hosts: Vec<String> = texts(host) at reload;
        /// Networks or addresses whose `X-Forwarded-For` is trusted, such as `"10.0.0.0/8"`, or `"private"` for all
        /// networks unreachable from the internet: loopback, RFC 1918, `fc00::/7`, `100.64.0.0/10` and
        /// `169.254.0.0/16`.
        ///
        /// With `"private"`, any machine in a private network can claim any address, so it cannot be combined with keys
        /// with `--network`.
        trusted_proxies: TrustedProxies = text_or_texts(TrustedProxies::add, "[\"10.0.0.0/8\"]");
        /// If the gateway serves clients of the versions with sessions.
        legacy_clients: Serves = flag(true => Serves::BothEras, false => Serves::ModernAlone);
        /// If `/sse` accepts an API key as `?api_key=`.
        query_api_key: QueryKey = flag(true => QueryKey::Accepted, false => QueryKey::Ignored);
    }
}

impl HttpConfig {
    /// Reads the section; reports invalid values and uses their defaults.
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        keys::read(section, Self::KEYS, Self::default()).0
    }

    /// Reads only the trusted proxies.
    pub(super) fn proxies(section: &mut Section<'_>) -> TrustedProxies {
        let one = Self::KEYS.iter().filter(|key| key.name == "trusted_proxies");
        keys::read(section, one, Self::default()).0.trusted_proxies
    }
}
