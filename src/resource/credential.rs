//! Credential of a request (RFC 6750 2; `OA-106`, `OA-120`, `OA-121`). Knows nothing of its validity.

use http::{HeaderMap, HeaderValue, Uri, header};

use super::ticket;
use crate::{
    model::{Binding, Endpoint, QueryKey},
    support::Secret,
};

/// Query parameter for an API key on `/sse` and `/messages`.
const QUERY_PARAMETER: &str = "api_key";

/// Prefix of the entry with the token in the subprotocols that a WebSocket client offers: pages cannot set other headers of
/// its request, and a URL must not have it.
const PROTOCOL_PREFIX: &str = "bearer.";

/// Maximum length of a credential, in bytes.
const LONGEST: usize = 8 * 1024;

/// Credential of a request.
#[derive(Debug)]
pub(super) enum Credential {
    /// None, or a scheme other than `Bearer`.
    Absent,
    /// A bearer token or key in a header.
    Header(Secret),
    /// An API key in the query.
    Query(Secret),
    /// A ticket of an open `/sse` connection, in the query.
    Ticket(Secret),
    /// A header that cannot hold a token (RFC 6750 2.1).
    Malformed,
    /// Two credentials, or two headers.
    Ambiguous,
}

impl Credential {
    /// Finds the credential of a request for `endpoint`.
    pub(super) fn of(headers: &HeaderMap, uri: &Uri, endpoint: &Endpoint, allowed: QueryKey) -> Self {
        let elsewhere = match (endpoint.binding, allowed) {
            (Binding::Sse, QueryKey::Accepted) => query_key(uri).map(Self::Query).or_else(|| ticket(uri)),
            (Binding::WebSocket, _) => from_protocols(headers),
            _ => None,
        };
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let first = values.next();
        let has_two = first.is_some() && !matches!(elsewhere, None | Some(Self::Ticket(_)));
        if values.next().is_some() || has_two {
            return Self::Ambiguous;
        }
        let Some(value) = first else { return elsewhere.unwrap_or(Self::Absent) };
        let Some(token) = bearer(value.as_bytes()) else {
            return if value.to_str().is_ok() { Self::Absent } else { Self::Malformed };
        };
        std::str::from_utf8(token)
            .ok()
            .filter(|token| is_token68(token))
            .map_or(Self::Malformed, |token| Self::Header(Secret::new(token)))
    }
}

/// What follows the scheme; `None` for another scheme.
fn bearer(credentials: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = credentials.split_at_checked("bearer".len())?;
    let is_whole = token.first().is_none_or(|byte| *byte == b' ');
    (is_whole && scheme.eq_ignore_ascii_case(b"bearer")).then(|| token.trim_ascii())
}

/// An API key in the query. A JWT there is ignored: access tokens never travel in URLs (OAuth 2.1 5.1).
fn query_key(uri: &Uri) -> Option<Secret> {
    let key = parameter(uri, QUERY_PARAMETER)?;
    let looks_like_jwt = key.matches('.').count() == 2;
    (!key.is_empty() && key.len() <= LONGEST && !looks_like_jwt).then(|| Secret::new(key))
}

/// The token in the subprotocols.
fn from_protocols(headers: &HeaderMap) -> Option<Credential> {
    let mut tokens = protocols(headers).filter_map(|protocol| protocol.strip_prefix(PROTOCOL_PREFIX));
    let first = tokens.next()?;
    Some(match tokens.next() {
        Some(_) => Credential::Ambiguous,
        None if is_token68(first) => Credential::Header(Secret::new(first)),
        None => Credential::Malformed,
    })
}

fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).map(str::trim)
}

/// Removes the token from the subprotocols.
pub(super) fn remove_from_protocols(headers: &mut HeaderMap) {
    let rest: Vec<&str> = protocols(headers).filter(|protocol| !protocol.starts_with(PROTOCOL_PREFIX)).collect();
    let rest = HeaderValue::try_from(rest.join(", "));
    headers.remove(header::SEC_WEBSOCKET_PROTOCOL);
    if let Ok(rest) = rest {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, rest);
    }
}

/// The ticket that the gateway put into the URL of `/messages`.
fn ticket(uri: &Uri) -> Option<Credential> {
    let named = uri.path().starts_with("/messages").then(|| parameter(uri, ticket::QUERY_PARAMETER));
    named.flatten().map(|ticket| Credential::Ticket(Secret::new(ticket)))
}

fn parameter(uri: &Uri, name: &str) -> Option<String> {
    let mut pairs = url::form_urlencoded::parse(uri.query()?.as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// The URI without credentials, for handlers (`OA-123`).
pub(super) fn without_key(uri: &Uri) -> Option<Uri> {
    let query = uri.query()?;
    // by its decoded name: `api%5Fkey` is removed too
    let name = |pair: &str| url::form_urlencoded::parse(pair.as_bytes()).next().map(|(name, _)| name.into_owned());
    let is_key =
        |pair: &&str| name(pair).is_some_and(|name| [QUERY_PARAMETER, ticket::QUERY_PARAMETER].contains(&&*name));
    if !query.split('&').any(|pair| is_key(&pair)) {
        return None;
    }
    let rest: Vec<&str> = query.split('&').filter(|pair| !is_key(pair)).collect();
    let path = uri.path();
    let path_and_query = if rest.is_empty() { path.to_owned() } else { format!("{path}?{}", rest.join("&")) };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = path_and_query.parse().ok();
    Uri::from_parts(parts).ok()
}

fn is_token68(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    !body.is_empty() && text.len() <= LONGEST && body.bytes().all(|byte| FITS_TOKEN68[usize::from(byte)])
}

/// The bytes of a token68 (RFC 9110 11.2): tokens are long, and come with every request.
static FITS_TOKEN68: [bool; 256] = {
    let mut fits = [false; 256];
    let mut byte = 0_u8;
    while byte.is_ascii() {
        fits[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/');
        byte += 1;
    }
    fits
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_web_page_gives_its_token_among_the_subprotocols() {
        let read = |path: &str, protocols: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for protocol in protocols {
                headers.append(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
            }
            let endpoint = Endpoint::from_path(path).unwrap();
            let credential = Credential::of(&headers, &path.parse().unwrap(), &endpoint, QueryKey::Accepted);
            remove_from_protocols(&mut headers);
            let rest = headers.get(header::SEC_WEBSOCKET_PROTOCOL).map(|rest| rest.to_str().unwrap().to_owned());
            (credential, rest.unwrap_or_default())
        };
        let (credential, rest) = read("/ws", &["mcp, bearer.lkk_a_b", "other"]);
        assert!(matches!(credential, Credential::Header(token) if token.expose() == "lkk_a_b"));
        assert_eq!(rest, "mcp, other");
        assert!(matches!(read("/ws/git", &["bearer.a", "bearer.b"]).0, Credential::Ambiguous));
        assert!(matches!(read("/ws", &["mcp, bearer."]).0, Credential::Malformed));
        assert!(matches!(read("/mcp", &["mcp, bearer.a"]).0, Credential::Absent));
        assert!(matches!(read("/ws", &["mcp"]).0, Credential::Absent));
    }

    #[test]
    fn the_key_is_taken_out_of_the_uri_and_the_rest_stays() {
        let without = |text: &str| without_key(&text.parse().unwrap()).map(|uri| uri.to_string());
        assert_eq!(without("/sse?api_key=lkk_x").as_deref(), Some("/sse"));
        assert_eq!(without("/messages?session_id=1&api_key=lkk_x&y=2").as_deref(), Some("/messages?session_id=1&y=2"));
        assert_eq!(without("/sse?api%5Fkey=lkk_x").as_deref(), Some("/sse"));
        assert_eq!(without("/messages?session_id=1"), None);
    }
}
