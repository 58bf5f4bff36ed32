//! The URL of the gateway for clients (OA-137): base of issuer, resources, metadata and cookies.

use std::{fmt, net::SocketAddr};

use url::{Host, Url};

use crate::support::printable;

/// An `https` URL, or an `http` URL of a loopback host; without user, query, fragment and trailing slash, in the normal
/// form of the URL standard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl(String);

impl PublicUrl {
    /// Parses a URL that OA-137 allows; the error says what is wrong and what to write.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::checked(text).map_err(|what| nearly(text).unwrap_or(what))
    }

    fn checked(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("this is not a URL: {error}"))?;
        match url.scheme() {
            "https" => {}
            "http" if is_loopback(&url) => {}
            "http" => return Err("`http` is allowed for loopback addresses only; use `https`".to_owned()),
            _ => return Err("this must be an `https` URL".to_owned()),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("remove user and password from it".to_owned());
        }
        if text.contains(['?', '#']) {
            return Err("remove query and fragment from it".to_owned());
        }
        if text.ends_with('/') {
            return Err("remove the slash at the end: clients compare it byte by byte".to_owned());
        }
        let path = url.path().trim_end_matches('/');
        if !path.is_empty() {
            return Err("remove the path: the gateway needs a host (or a port) of its own, because \
                        clients look for `/.well-known/…` at the root"
                .to_owned());
        }
        Ok(Self(url.origin().ascii_serialization()))
    }

    /// Parses the URL of a running gateway as its users know it, which may include the endpoint `/mcp`.
    pub fn of_gateway(text: &str) -> Result<Self, String> {
        let text = text.trim_end_matches('/');
        Self::parse(text.strip_suffix("/mcp").unwrap_or(text))
    }

    /// The scheme and the listen address; `localhost` and its port if that is not a loopback address.
    pub fn loopback(scheme: &str, bound: SocketAddr) -> Self {
        if bound.ip().is_loopback() {
            Self(format!("{scheme}://{bound}"))
        } else {
            Self(format!("{scheme}://localhost:{}", bound.port()))
        }
    }

    /// The URL, without a slash at the end.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The fault of a URL in quotes or without a scheme, and the right form; `None` for any other text, which is not quoted
/// since it may contain a password.
fn nearly(text: &str) -> Option<String> {
    let bare = text.trim().trim_matches(['"', '\'', '`', '“', '”', '‘', '’']).trim_end_matches('/');
    let is_host = |bare: &str| bare.contains(['.', ':']) || bare == "localhost";
    let meant = match bare.split_once("://") {
        Some(_) if bare.len() < text.len() => PublicUrl::checked(bare).ok()?,
        None if is_host(bare) => {
            let with = |scheme: &str| PublicUrl::checked(&format!("{scheme}://{bare}"));
            // only for a loopback host
            with("http").or_else(|_| with("https")).ok()?
        }
        _ => return None,
    };
    let fault = match (bare.contains("://"), text.trim().starts_with(bare)) {
        (true, true) => return None,
        (true, false) => "in quotes, which are a part of the value here",
        (false, true) => "without a scheme",
        (false, false) => "in quotes, and without a scheme",
    };
    Some(format!("`{}` is {fault}; write `{meant}`", printable(text)))
}

/// True for a loopback address or a name that always is one (RFC 6761 6.3).
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oa_137_usable_public_urls_are_accepted() {
        for (text, normal) in [
            ("https://mcp.example.com", "https://mcp.example.com"),
            ("https://MCP.example.com:443", "https://mcp.example.com"),
            ("https://mcp.example.com:8443", "https://mcp.example.com:8443"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://[::1]:8080", "http://[::1]:8080"),
            ("http://localhost", "http://localhost"),
        ] {
            assert_eq!(PublicUrl::parse(text).map(|url| url.to_string()).as_deref(), Ok(normal), "{text}");
        }
    }

    #[test]
    fn a_running_gateway_is_named_by_its_endpoint_too() {
        for text in ["https://a.example", "https://a.example/", "https://a.example/mcp", "https://a.example/mcp/"] {
            assert_eq!(PublicUrl::of_gateway(text).unwrap().as_str(), "https://a.example", "{text}");
        }
        assert!(PublicUrl::of_gateway("https://a.example/mcp/git").is_err());
    }

    #[test]
    fn a_url_in_quotes_or_without_a_scheme_is_shown_with_the_right_form() {
        for (text, told) in [
            (
                "\"https://mcp.example.com\"",
                "`\"https://mcp.example.com\"` is in quotes, which are a part of the value here; write `https://mcp.example.com`",
            ),
            (
                "'https://mcp.example.com/'",
                "`'https://mcp.example.com/'` is in quotes, which are a part of the value here; write `https://mcp.example.com`",
            ),
            ("mcp.example.com", "`mcp.example.com` is without a scheme; write `https://mcp.example.com`"),
            (
                "mcp.example.com:8443/",
                "`mcp.example.com:8443/` is without a scheme; write `https://mcp.example.com:8443`",
            ),
            ("localhost:8080", "`localhost:8080` is without a scheme; write `http://localhost:8080`"),
            (
                "\"mcp.example.com\"",
                "`\"mcp.example.com\"` is in quotes, and without a scheme; write `https://mcp.example.com`",
            ),
        ] {
            assert_eq!(PublicUrl::parse(text).unwrap_err(), told);
        }
        for hidden in [
            "hunter2",
            "ada:hunter2@mcp.example.com",
            "\"https://ada:hunter2@mcp.example.com\"",
            "https://a.example/hunter2",
        ] {
            let told = PublicUrl::parse(hidden).unwrap_err();
            assert!(!told.contains("hunter2"), "{told}");
        }
        assert!(PublicUrl::parse("https://mcp.example.com/").unwrap_err().contains("the slash at the end"));
    }

    // N-131
    #[test]
    fn n_131_unusable_public_urls_are_refused() {
        for text in [
            "",
            "mcp.example.com",
            "http://gw.example",
            "http://localhost.example",
            "ftp://mcp.example.com",
            "https://mcp.example.com/",
            "https://mcp.example.com#",
            "https://mcp.example.com?x",
            "https://ada@mcp.example.com",
            "https://mcp.example.com/gw",
            "https://mcp.example.com/.well-known",
        ] {
            assert!(PublicUrl::parse(text).is_err(), "{text}");
        }
    }
}
