//! Same-origin check of requests that change something, by headers that browsers set (`OA-72`). It complements the
//! tokens in the forms.

use http::{HeaderMap, header};
use url::Url;

/// True if the request may change something. Both `Sec-Fetch-Site` and `Origin` must allow it, if present. An `Origin`
/// of `null` passes, because browsers send it from pages with `Referrer-Policy: no-referrer`, like these (`OA-27`).
pub(super) fn may_act(headers: &HeaderMap, public_url: &Url) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return matches!(site.as_bytes(), b"same-origin" | b"none") && own_origin(headers, public_url);
    }
    own_origin(headers, public_url)
}

fn own_origin(headers: &HeaderMap, public_url: &Url) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let Ok(origin) = origin.to_str() else { return false };
    origin == "null" || Url::parse(origin).is_ok_and(|origin| same_site(&origin, public_url))
}

/// True for the same origin and, if the public URL is a loopback address, for other loopback names with the same scheme
/// and port.
fn same_site(origin: &Url, public_url: &Url) -> bool {
    let loopback = |url: &Url| matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    let port = |url: &Url| (url.scheme().to_owned(), url.port_or_known_default());
    origin.origin() == public_url.origin()
        || (loopback(origin) && loopback(public_url) && port(origin) == port(public_url))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn acts(site: Option<&'static str>, origin: Option<&'static str>) -> bool {
        let mut headers = HeaderMap::new();
        if let Some(site) = site {
            headers.insert("sec-fetch-site", HeaderValue::from_static(site));
        }
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
        }
        may_act(&headers, &Url::parse("https://mcp.example.com").unwrap())
    }

    #[test]
    fn requests_from_own_pages_are_accepted() {
        assert!(acts(Some("same-origin"), Some("null")));
        assert!(acts(Some("same-origin"), Some("https://mcp.example.com")));
        assert!(acts(None, Some("https://mcp.example.com")));
        assert!(acts(None, None));
    }

    #[test]
    fn requests_from_other_sites_are_refused() {
        assert!(!acts(Some("cross-site"), Some("null")));
        assert!(!acts(Some("same-site"), None));
        assert!(!acts(None, Some("https://evil.example")));
        assert!(!acts(Some("same-origin"), Some("https://evil.example")));
    }
}
