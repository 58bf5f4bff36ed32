//! How the gateway reaches URLs named by strangers.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use percent_encoding::percent_decode_str;
use url::Url;

use crate::support::Secret;

/// Access to URLs named by clients, login providers and protected servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EgressPolicy {
    /// `egress_proxy`: the proxy; `None`: directly.
    pub proxy: Option<EgressProxy>,
    /// The place to look names up.
    pub names: EgressNames,
}

/// The place to look up names of hosts that strangers choose (`OA-148`). Only the operator can change the default,
/// since the guard then sees no addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EgressNames {
    /// At the gateway: all addresses must be public.
    #[default]
    Resolved,
    /// `egress_proxy_resolves`: at the proxy, which is then the guard.
    ByProxy,
    /// `fake_ip_resolver`: a resolver that gives every name an address of `198.18.0.0/15`, for a proxy in the path.
    Fake,
}

/// A proxy that makes connections for its users (`CONNECT`, RFC 9110 9.3.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressProxy {
    /// Its host: a name or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The value of `Proxy-Authorization`, if it requires a user and a password.
    pub authorization: Option<Secret>,
}

impl EgressProxy {
    /// Reads the URL of a proxy. Messages never quote it, since it may hold a password.
    ///
    /// # Errors
    ///
    /// The required form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "this must be the URL of an HTTP proxy, such as `http://proxy.example.com:3128`".to_owned();
        let url = Url::parse(text).map_err(|_| wrong())?;
        let is_bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
        let port = url.port_or_known_default().filter(|_| url.scheme() == "http" && is_bare).ok_or_else(wrong)?;
        let host = url.host_str().ok_or_else(wrong)?.trim_matches(['[', ']']).to_owned();
        let credentials = |password: &str| {
            let plain = [url.username(), password].map(|part| percent_decode_str(part).collect::<Vec<u8>>());
            Secret::new(format!("Basic {}", STANDARD.encode(plain.join(&b':'))))
        };
        let has_credentials = !url.username().is_empty() || url.password().is_some();
        let authorization = has_credentials.then(|| credentials(url.password().unwrap_or_default()));
        Ok(Self { host, port, authorization })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_an_http_url_with_or_without_credentials() {
        let proxy = EgressProxy::parse("http://proxy.test:3128").unwrap();
        assert_eq!((proxy.host.as_str(), proxy.port, proxy.authorization), ("proxy.test", 3128, None));
        let proxy = EgressProxy::parse("http://a%40b:c%3Ad@[::1]/").unwrap();
        assert_eq!((proxy.host.as_str(), proxy.port), ("::1", 80));
        assert_eq!(proxy.authorization, Some(Secret::new(format!("Basic {}", STANDARD.encode("a@b:c:d")))));
        for wrong in ["", "proxy:3128", "https://proxy", "socks5://proxy:1", "http://proxy/path", "http://proxy?x"] {
            assert!(EgressProxy::parse(wrong).is_err(), "{wrong}");
        }
    }
}
