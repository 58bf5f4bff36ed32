//! URLs that a server or an authorization server names. Knows nothing of what they are for.

use url::{Host, Url};

use super::error::LoginError;

/// Parses a URL that the login depends on: `https`, or `http` on this machine if `server` is on this machine too
/// (2026-07-28, authorization, *Communication Security*).
pub(super) fn trusted(text: &str, server: &Url, what: &str) -> Result<Url, LoginError> {
    let refuse = |reason: &str| LoginError::Untrusted(format!("{what} of {server} is refused: `{text}` {reason}"));
    let url = Url::parse(text).map_err(|_| refuse("is no URL"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse("has a user or a password"));
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) && is_loopback(server) => Ok(url),
        _ => Err(refuse("is not `https`")),
    }
}

/// True if the host is this machine.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_and_this_machine_are_trusted() {
        let (local, remote) =
            (Url::parse("http://127.0.0.1:1/mcp").unwrap(), Url::parse("https://a.example/").unwrap());
        let is = |text: &str, server: &Url| trusted(text, server, "the endpoint").is_ok();
        assert!(is("https://b.example/token", &local) && is("https://b.example/token", &remote));
        for text in ["http://localhost:2/token", "http://[::1]:2/token", "http://127.8.0.1/token"] {
            assert!(is(text, &local), "{text}");
            assert!(!is(text, &remote), "{text}");
        }
        for text in ["http://10.0.0.1/", "http://localhost.example/", "file:///etc/passwd", "javascript:x", "x", ""] {
            assert!(!is(text, &local), "{text}");
        }
        assert!(!is("https://user@b.example/", &remote));
    }
}
