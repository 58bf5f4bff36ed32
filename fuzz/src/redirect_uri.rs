//! Redirect URIs. Input: one that is registered, a line end, and one that is presented.
//!
//! Oracles: RFC 8252 and the page of authorization, with `url` as the reader that a browser is: an accepted one leads to the
//! host that is shown, matches itself, and only another port of a loopback host beside; parameters that are added come back
//! as the last ones.

use lockkeeper::oauth::redirect_uri::{RedirectTarget, RedirectUri};
use url::Url;

use super::input::Dice;

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut dice = Dice::new(data);
    let (Ok(registered), Ok(presented)) = (std::str::from_utf8(dice.line()), std::str::from_utf8(dice.rest())) else {
        return;
    };
    let schemes = ["myapp".to_owned()];
    let Ok(uri) = RedirectUri::parse(registered, &schemes) else { return };
    let url = Url::parse(registered).expect("a URL");
    assert!(uri.matches(registered));
    assert_eq!(uri.as_str(), registered);
    assert_eq!(RedirectUri::stored(registered), uri);
    assert!(url.fragment().is_none() && url.username().is_empty() && url.password().is_none(), "{registered}");
    match uri.target() {
        RedirectTarget::Web(shown) => {
            assert_eq!(url.scheme(), "https");
            // what is shown to people is where a browser goes
            let host = Url::parse(&format!("https://{shown}/")).expect("an authority");
            assert_eq!((host.host(), host.port()), (url.host(), url.port()), "{registered}");
        }
        RedirectTarget::Loopback(_) => {
            assert_eq!(url.scheme(), "http");
            assert!(matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")), "{registered}");
            assert!(uri.matches(&uri.without_port()), "{registered}");
        }
        RedirectTarget::App(scheme) => {
            assert_eq!(url.scheme(), scheme.to_ascii_lowercase());
            assert!(!matches!(url.scheme(), "http" | "https" | "javascript" | "data" | "file" | "vbscript" | "blob"));
        }
    }
    let with = uri.with(&[("code", presented), ("state", "s&=#")]);
    let read = Url::parse(&with).expect("a URL");
    let pairs: Vec<(String, String)> = read.query_pairs().into_owned().collect();
    let added: Vec<(&str, &str)> =
        pairs.iter().rev().take(2).map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(added, [("state", "s&=#"), ("code", presented)], "{with}");
    assert_eq!(
        (read.scheme(), read.host(), read.port(), read.path()),
        (url.scheme(), url.host(), url.port(), url.path())
    );
    if uri.matches(presented) && presented != registered {
        let other = Url::parse(presented).expect("a URL");
        assert!(matches!(uri.target(), RedirectTarget::Loopback(_)), "{registered} for {presented}");
        assert_eq!(
            (other.scheme(), other.host(), other.path(), other.query()),
            (url.scheme(), url.host(), url.path(), url.query())
        );
        assert!(other.username().is_empty() && other.password().is_none(), "{presented}");
    }
}

/// URIs like these.
pub fn seeds() -> Vec<Vec<u8>> {
    let uris = [
        "http://127.0.0.1:33418/cb?x=y\nhttp://127.0.0.1:1/cb?x=y",
        "https://claude.ai/api/mcp/auth_callback\nhttps://claude.ai/api/mcp/auth_callback/",
        "cursor://anysphere.cursor-mcp/oauth/callback\nx",
        "http://[::1]:9?a=b\nhttp://[::1]/?a=b",
        "com.example.app:/oauth\nmyapp:x",
    ];
    uris.into_iter().map(|uri| uri.as_bytes().to_vec()).collect()
}
