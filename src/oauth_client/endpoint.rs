//! URLs named by a server or an authorization server.

use url::{Host, Url};

use super::error::LoginError;

/// Parses a URL that the login depends on: `https`, or `http` on this machine if `server` is on this machine too
/// (2026-07-28, authorization, *Communication Security*).
pub(super) fn trusted(text: &str, server: &Url, what: &str) -> Result<Url, LoginError> {
    let refuse = |reason: &str| LoginError::Untrusted(format!("{what} of {server} is refused: `{text}` {reason}"));
    let url = Url::parse(text).map_err(|_| refuse("is not a URL"))?;
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

/// The well-known URL of `kind` for `url`: inserted between host and path (RFC 8615, RFC 8414 3.1, RFC 9728 3.1).
pub fn well_known(url: &Url, kind: &str) -> Url {
    let mut well_known = at_root(url);
    well_known.set_path(&format!("/.well-known/{kind}{}", url.path().trim_end_matches('/')));
    well_known
}

/// The well-known URL of `kind` for `url`: appended to the path (OpenID Connect Discovery 4).
pub fn appended(url: &Url, kind: &str) -> Url {
    let mut appended = url.clone();
    appended.set_path(&format!("{}/.well-known/{kind}", url.path().trim_end_matches('/')));
    appended
}

/// The root of the URL's origin.
pub fn at_root(url: &Url) -> Url {
    let mut root = url.clone();
    root.set_path("/");
    root.set_query(None);
    root.set_fragment(None);
    root
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

    #[test]
    fn a_well_known_path_stands_between_host_and_path() {
        let at = |text: &str| well_known(&Url::parse(text).unwrap(), "x").to_string();
        assert_eq!(at("https://a.example/mcp/b?q=1"), "https://a.example/.well-known/x/mcp/b");
        assert_eq!(at("https://a.example:8443/"), "https://a.example:8443/.well-known/x");
    }
}
