//! HTTP headers of MCP (transports pages of all versions), and `Accept` and `Content-Type`, for which it has rules.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{ACCEPT, CONTENT_TYPE},
};

/// The session of 2025-03-26 to 2025-11-25.
pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The protocol version, from 2025-06-18.
pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The method of the body, in 2026-07-28.
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The subject of the request, such as the tool's name, in 2026-07-28.
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// The event after which to resume a stream.
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Asks nginx and similar proxies not to buffer a stream.
pub const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Prefix of headers that mirror parameters of a tool, in 2026-07-28.
pub const PARAM: &str = "mcp-param-";
/// Marks around a value in base64.
const SENTINEL: (&str, &str) = ("=?base64?", "?=");

/// The value of `Accept` for both media types.
pub const JSON_AND_EVENTS: &str = "application/json, text/event-stream";
/// The media type of JSON.
pub const JSON: &str = "application/json";

/// True if the client accepts `media_type` (RFC 9110 12.5.1): it is listed or covered by a wildcard, with a weight
/// above zero. Without `Accept` everything is accepted.
pub fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let mut fields = headers.get_all(ACCEPT).iter();
    match (fields.next(), fields.next()) {
        (None, _) => return true,
        // the value of the official SDKs
        (Some(only), None) if only == JSON_AND_EVENTS && JSON_AND_EVENTS.contains(media_type) => return true,
        (Some(_), _) => {}
    }
    let (main, _) = media_type.split_once('/').unwrap_or((media_type, ""));
    let ranges =
        headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).flat_map(|list| list.split(','));
    // the most specific range that covers the type decides
    let mut best = (0, false);
    for range in ranges {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let specific = match name {
            "*/*" => 1,
            _ if name.eq_ignore_ascii_case(media_type) => 3,
            _ if name.strip_suffix("/*").is_some_and(|range| range.eq_ignore_ascii_case(main)) => 2,
            _ => continue,
        };
        if specific >= best.0 {
            best = (specific, !parts.any(is_zero_weight));
        }
    }
    best.1
}

/// The value of a header that mirrors a part of the body: as it is, or in base64 between marks if a header cannot carry
/// it (2026-07-28, transports, *Request Metadata*).
pub fn mirrored(value: &str) -> HeaderValue {
    let plain = !value.is_empty()
        && value.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && !value.starts_with(' ')
        && !value.ends_with(' ')
        && !value.starts_with(SENTINEL.0);
    let carried = if plain { HeaderValue::from_str(value).ok() } else { None };
    let encoded = || HeaderValue::from_str(&format!("{}{}{}", SENTINEL.0, STANDARD.encode(value), SENTINEL.1));
    carried.or_else(|| encoded().ok()).unwrap_or_else(|| HeaderValue::from_static(""))
}

/// The text of such a header; `None` if the part between the marks is not the base64 of a text.
pub fn unmirrored(value: &str) -> Option<Cow<'_, str>> {
    let Some(inner) = value.strip_prefix(SENTINEL.0).and_then(|rest| rest.strip_suffix(SENTINEL.1)) else {
        return Some(Cow::Borrowed(value));
    };
    String::from_utf8(STANDARD.decode(inner).ok()?).ok().map(Cow::Owned)
}

/// The value of a header that must occur once, trimmed; `None` if it does not, or is not text.
pub fn sole<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    text_of(value).filter(|_| values.next().is_none())
}

/// The text of a value, trimmed; `None` if it is not text.
pub fn text_of(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok().map(str::trim)
}

/// True if the body is declared as JSON; parameters such as a charset are ignored.
pub fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE) else { return false };
    // the usual value
    if value == JSON {
        return true;
    }
    value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(JSON)
}

fn is_zero_weight(parameter: &str) -> bool {
    let Some((name, weight)) = parameter.split_once('=') else { return false };
    name.trim().eq_ignore_ascii_case("q") && weight.trim().parse::<f32>().is_ok_and(|weight| weight <= 0.0)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn accept(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(value))])
    }

    #[test]
    fn the_most_specific_range_decides() {
        for value in [
            "application/json",
            "text/html, Application/JSON;q=0.5",
            "*/*",
            "application/*",
            "*/*;q=0, application/json",
        ] {
            assert!(accepts(&accept(value), JSON), "{value}");
        }
        for value in
            ["text/event-stream", "", "application/json;q=0", "*/*, application/json;q=0.0", "application/jsonx"]
        {
            assert!(!accepts(&accept(value), JSON), "{value}");
        }
        assert!(accepts(&HeaderMap::new(), JSON));
    }

    #[test]
    fn a_value_that_no_header_can_carry_is_encoded_between_marks() {
        for (value, header) in [
            ("git__log", "git__log"),
            ("a b", "a b"),
            ("\u{2713}", "=?base64?4pyT?="),
            (" a", "=?base64?IGE=?="),
            ("", "=?base64??="),
            ("=?base64?x", "=?base64?PT9iYXNlNjQ/eA==?="),
        ] {
            assert_eq!(mirrored(value), header);
            assert_eq!(unmirrored(header).as_deref(), Some(value));
        }
        assert_eq!(unmirrored("=?base64?~?="), None);
        assert_eq!(unmirrored("=?base64?/w==?="), None);
    }

    #[test]
    fn a_charset_does_not_change_the_media_type() {
        let of = |value| HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(value))]);
        assert!(is_json(&of("application/json; charset=utf-8")));
        assert!(!is_json(&of("text/plain")));
        assert!(!is_json(&HeaderMap::new()));
    }
}
