//! Credential of a request (RFC 6750 2; `OA-106`, `OA-120`, `OA-121`).

use std::{borrow::Cow, fmt};

use http::{HeaderMap, HeaderValue, Uri, header};

use super::ticket;
use crate::{
    model::{Binding, Endpoint, QueryKey},
    support::{Secret, pasted},
};

/// Query parameter for an API key on `/sse` and `/messages`.
const QUERY_PARAMETER: &str = "api_key";

/// Prefix of the entry with the token among a WebSocket client's subprotocols: pages cannot set other headers of its
/// request, and the token must not be in a URL.
const PROTOCOL_PREFIX: &str = "bearer.";

/// Maximum length of a credential, in bytes.
const LONGEST: usize = 8 * 1024;

/// Headers that carry keys at other services, and that the gateway ignores.
const UNREAD_HEADERS: [&str; 7] =
    ["X-API-Key", "Api-Key", "ApiKey", "X-Auth-Token", "X-Access-Token", "Authentication", "Proxy-Authorization"];

/// Parameters that carry keys at other services, and that the gateway ignores.
const UNREAD_PARAMETERS: [&str; 6] = ["apiKey", "apikey", "api-key", "key", "token", "access_token"];

/// Schemes that clients send in place of `Bearer`.
const OTHER_SCHEMES: [&str; 6] = ["Basic", "Token", "DPoP", "ApiKey", "Digest", "Negotiate"];

/// The part of a request that came in place of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrived {
    Nothing,
    /// A header that is not read.
    Header(&'static str),
    /// A parameter that is not read, or not at this endpoint.
    Parameter(&'static str),
    /// `Authorization` with another scheme.
    Scheme(&'static str),
    /// `Authorization` without a scheme.
    NoScheme,
    /// `Authorization` with an unknown scheme.
    UnknownScheme,
}

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
    /// Two credentials that differ.
    Ambiguous,
}

impl Credential {
    /// Finds the credential of a request for `endpoint`. The same credential twice counts as one: some clients set
    /// their header both for the stream and for messages, and the two get joined.
    pub(super) fn of(headers: &HeaderMap, uri: &Uri, endpoint: &Endpoint, allowed: QueryKey) -> Self {
        let elsewhere = match (endpoint.binding, allowed) {
            (Binding::Sse, QueryKey::Accepted) => query_key(uri).or_else(|| ticket(uri)),
            (Binding::WebSocket, _) => from_protocols(headers),
            _ => None,
        };
        match (from_header(headers), elsewhere) {
            (None, elsewhere) => elsewhere.unwrap_or(Self::Absent),
            // the ticket in the address is for clients that send no header
            (Some(header), None | Some(Self::Ticket(_))) => header,
            (Some(Self::Header(token)), Some(same @ (Self::Query(_) | Self::Header(_)))) if same.is(&token) => same,
            (Some(_), Some(_)) => Self::Ambiguous,
        }
    }

    /// The part that came in its place, if it is absent.
    pub(super) fn place_taker(&self, headers: &HeaderMap, uri: &Uri) -> Arrived {
        if matches!(self, Self::Absent) { Arrived::of(headers, uri) } else { Arrived::Nothing }
    }

    /// True for a credential with this text.
    fn is(&self, text: &Secret) -> bool {
        matches!(self, Self::Header(own) | Self::Query(own) if own.expose() == text.expose())
    }
}

// === impl Arrived ===

impl Arrived {
    /// Finds what came in place of a credential.
    fn of(headers: &HeaderMap, uri: &Uri) -> Self {
        if let Some(value) = headers.get(header::AUTHORIZATION) {
            let text = value.to_str().unwrap_or_default().trim();
            let Some((scheme, _)) = text.split_once(' ') else { return Self::NoScheme };
            let known = OTHER_SCHEMES.into_iter().find(|known| known.eq_ignore_ascii_case(scheme));
            return known.map_or(Self::UnknownScheme, Self::Scheme);
        }
        if let Some(name) = UNREAD_HEADERS.into_iter().find(|name| headers.contains_key(*name)) {
            return Self::Header(name);
        }
        let named = UNREAD_PARAMETERS.into_iter().chain([QUERY_PARAMETER]);
        let named = { named }.find(|name| parameters(uri, name).next().is_some());
        named.map_or(Self::Nothing, Self::Parameter)
    }
}

impl fmt::Display for Arrived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("No credential came"),
            Self::Header(name) => {
                write!(f, "The header {name} came, which is not read: send Authorization: Bearer KEY")
            }
            Self::Parameter(QUERY_PARAMETER) => {
                write!(
                    f,
                    "The parameter {QUERY_PARAMETER} came without a key that is read here: send Authorization: Bearer KEY"
                )
            }
            Self::Parameter(name) => {
                write!(f, "The parameter {name} came, which is not read: send Authorization: Bearer KEY")
            }
            Self::Scheme(name) => {
                write!(f, "An Authorization header with the scheme {name} came: the scheme is Bearer")
            }
            Self::NoScheme => f.write_str("An Authorization header without a scheme came: write Bearer before the key"),
            Self::UnknownScheme => {
                f.write_str("An Authorization header with another scheme came: the scheme is Bearer")
            }
        }
    }
}

/// The credential in `Authorization`; `None` without the header. Several lines form one list (RFC 9110 5.3).
fn from_header(headers: &HeaderMap) -> Option<Credential> {
    let mut lines = headers.get_all(header::AUTHORIZATION).iter().peekable();
    let first = lines.next()?;
    let is_sole = lines.peek().is_none();
    match bearer(first.as_bytes()).map(|token| std::str::from_utf8(token).map(pasted)) {
        // the common case, without a search for commas
        Some(Ok(token)) if is_sole && is_token68(token) => return Some(Credential::Header(Secret::new(token))),
        Some(_) => {}
        None => {
            return Some(match first.to_str() {
                Ok(_) if is_sole => Credential::Absent,
                Ok(_) => Credential::Ambiguous,
                Err(_) => Credential::Malformed,
            });
        }
    }
    // tokens have no commas
    let parts = [first].into_iter().chain(lines).flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let tokens =
        parts.map(|part| bearer(part.trim_ascii()).and_then(|token| std::str::from_utf8(token).ok()).map(pasted));
    let mut tokens = tokens.map(|token| token.filter(|token| is_token68(token)));
    let Some(Some(token)) = tokens.next() else { return Some(Credential::Malformed) };
    for other in tokens {
        match other {
            Some(other) if other == token => {}
            None if is_sole => return Some(Credential::Malformed),
            _ => return Some(Credential::Ambiguous),
        }
    }
    Some(Credential::Header(Secret::new(token)))
}

/// The part after the scheme; `None` for another scheme.
fn bearer(credentials: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = credentials.split_at_checked("bearer".len())?;
    let is_whole = token.first().is_none_or(|byte| *byte == b' ');
    (is_whole && scheme.eq_ignore_ascii_case(b"bearer")).then(|| token.trim_ascii())
}

/// An API key in the query. A JWT there is ignored: access tokens never travel in URLs (OAuth 2.1 5.1).
fn query_key(uri: &Uri) -> Option<Credential> {
    let looks_like_jwt = |key: &str| key.matches('.').count() == 2;
    let keys = parameters(uri, QUERY_PARAMETER).map(|key| pasted(&key).to_owned());
    let keys = keys.filter(|key| !key.is_empty() && key.len() <= LONGEST && !looks_like_jwt(key));
    sole(keys, |key| Credential::Query(Secret::new(key)))
}

/// The token in the subprotocols.
fn from_protocols(headers: &HeaderMap) -> Option<Credential> {
    let tokens = protocols(headers).filter_map(|protocol| protocol.strip_prefix(PROTOCOL_PREFIX));
    sole(tokens, |token| if is_token68(token) { Credential::Header(Secret::new(token)) } else { Credential::Malformed })
}

/// The credential shared by all of these; [`Credential::Ambiguous`] if they differ.
fn sole<T: PartialEq>(
    mut texts: impl Iterator<Item = T>,
    credential: impl FnOnce(T) -> Credential,
) -> Option<Credential> {
    let first = texts.next()?;
    Some(if texts.all(|other| other == first) { credential(first) } else { Credential::Ambiguous })
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

/// True for a URL with the ticket of a stream.
pub(super) fn has_ticket(uri: &Uri) -> bool {
    uri.query().is_some() && parameters(uri, ticket::QUERY_PARAMETER).next().is_some()
}

/// The ticket that the gateway put into the URL of `/messages`.
fn ticket(uri: &Uri) -> Option<Credential> {
    let named = (uri.path() == "/messages").then(|| parameters(uri, ticket::QUERY_PARAMETER).next());
    named.flatten().map(|ticket| Credential::Ticket(Secret::new(ticket)))
}

fn parameters<'u>(uri: &'u Uri, name: &'static str) -> impl Iterator<Item = Cow<'u, str>> {
    let pairs = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    pairs.filter(move |(key, _)| key == name).map(|(_, value)| value)
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

/// The bytes of a token68 (RFC 9110 11.2), as a table: tokens are long, and come with every request.
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
        assert!(matches!(read("/ws/git", &["bearer.a", "bearer.a"]).0, Credential::Header(_)));
        assert!(matches!(read("/ws", &["mcp, bearer."]).0, Credential::Malformed));
        assert!(matches!(read("/mcp", &["mcp, bearer.a"]).0, Credential::Absent));
        assert!(matches!(read("/ws", &["mcp"]).0, Credential::Absent));
    }

    #[test]
    fn the_same_credential_twice_is_one() {
        let read = |uri: &str, lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::AUTHORIZATION, HeaderValue::from_static(line));
            }
            let uri: Uri = uri.parse().unwrap();
            let endpoint = Endpoint::from_path(uri.path()).unwrap();
            Credential::of(&headers, &uri, &endpoint, QueryKey::Accepted)
        };
        for lines in [&["Bearer a, Bearer a"][..], &["bearer a", "Bearer a"], &["Bearer a,Bearer a", "BEARER  a"]] {
            assert!(matches!(read("/mcp", lines), Credential::Header(token) if token.expose() == "a"), "{lines:?}");
        }
        for lines in
            [&["Bearer a, Bearer b"][..], &["Bearer a", "Bearer b"], &["Bearer a", "Basic a"], &["Basic a", "Bearer a"]]
        {
            assert!(matches!(read("/mcp", lines), Credential::Ambiguous), "{lines:?}");
        }
        for line in ["Bearer \"a\"", "Bearer  a ", "Bearer 'a'", "bearer \" a \"", "Bearer `a`"] {
            assert!(matches!(read("/mcp", &[line]), Credential::Header(token) if token.expose() == "a"), "{line}");
        }
        assert!(matches!(read("/sse?api_key=%22a%22%20", &[]), Credential::Query(token) if token.expose() == "a"));
        for line in ["Bearer a, a", "Bearer a,", "Bearer a, Basic a", "Bearer a b", "Bearer a\"b"] {
            assert!(matches!(read("/mcp", &[line]), Credential::Malformed), "{line}");
        }
        assert!(matches!(read("/mcp", &["Basic a, Bearer a"]), Credential::Absent));
        assert!(matches!(read("/sse?api_key=a&api_key=a", &["Bearer a, Bearer a"]), Credential::Query(_)));
        assert!(matches!(read("/sse?api_key=a", &["Bearer b"]), Credential::Ambiguous));
        assert!(matches!(read("/sse?api_key=a&api_key=b", &[]), Credential::Ambiguous));
        assert!(matches!(read("/sse?api_key=a", &["Basic a"]), Credential::Ambiguous));
    }

    #[test]
    fn what_came_in_place_of_a_credential_is_told_and_never_repeated() {
        let arrived = |uri: &str, name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            if !name.is_empty() {
                headers.insert(name, HeaderValue::from_static(value));
            }
            Arrived::of(&headers, &uri.parse().unwrap())
        };
        for (uri, name, value, expected) in [
            ("/mcp", "", "", Arrived::Nothing),
            ("/mcp?x=1", "accept", "*/*", Arrived::Nothing),
            ("/mcp", "x-api-key", "s3cret", Arrived::Header("X-API-Key")),
            ("/mcp?apiKey=s3cret", "", "", Arrived::Parameter("apiKey")),
            ("/mcp?api_key=s3cret", "", "", Arrived::Parameter("api_key")),
            ("/mcp", "authorization", "s3cret", Arrived::NoScheme),
            ("/mcp", "authorization", "basic s3cret", Arrived::Scheme("Basic")),
            ("/mcp", "authorization", "s3cret s3cret", Arrived::UnknownScheme),
        ] {
            let found = arrived(uri, name, value);
            assert_eq!(found, expected, "{uri} {name}");
            assert!(!found.to_string().contains("s3cret"));
        }
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
