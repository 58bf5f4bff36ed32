//! Transport upgrade (`translation` 6.8): a server on a channel without authorization names an endpoint for clients to
//! use instead.

use std::net::IpAddr;

use url::{Host, Url};

use crate::{
    backend::transport::ServerLocation,
    mcp::{ErrorObject, json::Object},
    model::{HttpSpec, TransportSpec},
};

/// Maximum number of characters of each part of an offer in messages for people.
const SHOWN: usize = 200;

/// The member `upgrade` of a result, or of the data of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportOffer {
    endpoint: String,
    transport: String,
    /// Location of the server that makes the offer.
    from: ServerLocation,
}

// === impl TransportOffer ===

impl TransportOffer {
    /// Reads the offer in an object from a server at this location; `None` if there is none.
    pub(crate) fn of(object: &Object<'_>, from: ServerLocation) -> Option<Self> {
        let offer = Object::parse(object.get("upgrade")?.as_bytes())?;
        let text = |name| offer.string(name).unwrap_or_default();
        Some(Self { endpoint: text("endpoint"), transport: text("transport"), from })
    }

    /// Reads the offer in the data of an error from a server at this location; `None` if there is none.
    pub(crate) fn in_error(error: &ErrorObject, from: ServerLocation) -> Option<Self> {
        let object = Object::parse(error.json())?;
        Self::of(&Object::parse(object.get("data")?.as_bytes())?, from)
    }

    /// The transport for the offered endpoint, without credentials. `permitted` are the URLs that the operator permits,
    /// with everything below their paths. A server on this machine may name a loopback address without permission. A
    /// server elsewhere may not: it could reach services that only this machine can reach.
    ///
    /// # Errors
    ///
    /// Why the gateway does not follow, as the end of a sentence.
    pub(crate) fn accept(&self, current: &TransportSpec, permitted: &[Url]) -> Result<TransportSpec, &'static str> {
        if !matches!(current, TransportSpec::Stdio(_) | TransportSpec::Socket(_)) {
            return Err("and only a program or a socket may offer another transport");
        }
        let transport = match self.transport.as_str() {
            "http+sse" | "sse" => TransportSpec::Sse,
            "streamable-http" | "streamableHttp" | "http" => TransportSpec::Http,
            _ => return Err("which is no transport with authorization: `http+sse` and `streamable-http` are"),
        };
        let url = Url::parse(&self.endpoint).map_err(|_| "which is no URL")?;
        if !matches!(url.scheme(), "http" | "https") || !url.username().is_empty() || url.password().is_some() {
            return Err("which is no HTTP URL without credentials");
        }
        let is_own = self.from == ServerLocation::ThisMachine && is_loopback(&url);
        if !is_own && !permitted.iter().any(|permitted| is_below(&url, permitted)) {
            return Err("which is not permitted: add that URL to `upgrade_to` if you trust it");
        }
        Ok(transport(HttpSpec::new(url)))
    }
}

impl std::fmt::Display for TransportOffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |text: &str| text.chars().take(SHOWN).flat_map(char::escape_debug).collect::<String>();
        write!(f, "`{}` over `{}`", shown(&self.endpoint), shown(&self.transport))
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).is_loopback(),
        None => false,
    }
}

/// True if `url` is `permitted` or below its path.
fn is_below(url: &Url, permitted: &Url) -> bool {
    let path = permitted.path().trim_end_matches('/');
    let rest = url.path().strip_prefix(path);
    url.origin() == permitted.origin() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::{SocketAddress, StdioSpec};

    fn accepted(endpoint: &str, transport: &str) -> Result<String, String> {
        let from = ServerLocation::ThisMachine;
        let offer = TransportOffer { endpoint: endpoint.to_owned(), transport: transport.to_owned(), from };
        let stdio = StdioSpec { command: "x".to_owned(), args: Vec::new(), env: BTreeMap::new(), cwd: None };
        let permitted = ["https://mcp.example.com/a".parse().unwrap()];
        let accepted = offer.accept(&TransportSpec::Stdio(stdio), &permitted);
        accepted.map(|transport| transport.name().to_owned()).map_err(|why| format!("{offer}, {why}"))
    }

    #[test]
    fn an_offer_is_followed_to_loopback_and_to_permitted_endpoints() {
        for endpoint in
            ["http://127.0.0.1:7000/mcp", "http://[::1]/x", "http://localhost/", "https://mcp.example.com/a/sse"]
        {
            assert_eq!(accepted(endpoint, "streamable-http").as_deref(), Ok("streamable-http"), "{endpoint}");
            assert_eq!(accepted(endpoint, "http+sse").as_deref(), Ok("http+sse"), "{endpoint}");
        }
    }

    #[test]
    fn any_other_offer_is_refused_with_the_endpoint_and_the_reason() {
        let cases = [
            ("https://mcp.example.com/ab", "http+sse", "`upgrade_to`"),
            ("https://mcp.example.com.evil.test/a", "http+sse", "`upgrade_to`"),
            ("http://mcp.example.com/a", "http+sse", "`upgrade_to`"),
            ("http://localhost.evil.test/", "http+sse", "`upgrade_to`"),
            ("http://127.0.0.1@evil.test/", "http+sse", "without credentials"),
            ("file:///etc/passwd", "http+sse", "no HTTP URL"),
            ("http://127.0.0.1/", "stdio", "no transport with authorization"),
            ("", "http+sse", "no URL"),
        ];
        for (endpoint, transport, reason) in cases {
            let refusal = accepted(endpoint, transport).unwrap_err();
            assert!(refusal.contains(endpoint) && refusal.contains(reason), "{refusal}");
        }
    }

    #[test]
    fn a_server_elsewhere_needs_permission_for_loopback_endpoints() {
        let socket = TransportSpec::Socket(SocketAddress::Tcp { host: "localhost".to_owned(), port: 1 });
        for endpoint in [
            "http://127.0.0.1:7000/mcp",
            "http://127.1/mcp",
            "http://[::1]/mcp",
            "http://[::ffff:127.0.0.1]/mcp",
            "http://localhost/mcp",
            "http://localhost./mcp",
            "http://a.localhost/mcp",
            "http://0.0.0.0/mcp",
            "http://loopback.example/mcp",
        ] {
            let offer = |peer: &str| TransportOffer {
                endpoint: endpoint.to_owned(),
                transport: "streamable-http".to_owned(),
                from: peer.parse::<IpAddr>().unwrap().into(),
            };
            for peer in ["192.0.2.1", "10.0.0.1", "::ffff:192.0.2.1", "2001:db8::1"] {
                let refusal = offer(peer).accept(&socket, &[]).unwrap_err();
                assert!(refusal.contains("`upgrade_to`"), "{endpoint} from {peer}: {refusal}");
                let permitted = [endpoint.parse().unwrap()];
                assert!(offer(peer).accept(&socket, &permitted).is_ok(), "{endpoint} from {peer}");
            }
        }
        for peer in ["127.0.0.2", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(ServerLocation::from(peer.parse::<IpAddr>().unwrap()), ServerLocation::ThisMachine, "{peer}");
        }
    }

    #[test]
    fn a_server_over_http_may_not_offer_anything() {
        let offer = TransportOffer {
            endpoint: "http://127.0.0.1/mcp".to_owned(),
            transport: "streamable-http".to_owned(),
            from: ServerLocation::ThisMachine,
        };
        let http = HttpSpec::new("http://127.0.0.1/sse".parse().unwrap());
        for current in
            [TransportSpec::Http(http.clone()), TransportSpec::Sse(http.clone()), TransportSpec::WebSocket(http)]
        {
            assert!(offer.accept(&current, &[]).unwrap_err().contains("only a program"));
        }
    }
}
