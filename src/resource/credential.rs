//! Credential of a request (RFC 6750 2; `OA-106`, `OA-120`, `OA-121`). Knows nothing of its validity.

use http::{HeaderMap, Uri, header};

use super::ticket;
use crate::{
    model::{Binding, Endpoint, QueryKey},
    support::Secret,
};

/// Query parameter for an API key on `/sse` and `/messages`.
const QUERY_PARAMETER: &str = "api_key";

/// Maximum length of a credential, in bytes.
const LONGEST: usize = 8 * 1024;

/// Credential of a request.
#[derive(Debug)]
pub(super) enum Credential {
    /// None, or a scheme other than `Bearer`.
    Absent,
    /// A bearer token or key in the header.
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
        let from_query = match (endpoint.binding, allowed) {
            (Binding::Sse, QueryKey::Accepted) => query_key(uri).map(Self::Query).or_else(|| ticket(uri)),
            _ => None,
        };
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let first = values.next();
        if values.next().is_some() || (first.is_some() && matches!(from_query, Some(Self::Query(_)))) {
            return Self::Ambiguous;
        }
        let Some(value) = first else { return from_query.unwrap_or(Self::Absent) };
        let Ok(text) = value.to_str() else { return Self::Malformed };
        let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Self::Absent;
        }
        let token = token.trim();
        if is_token68(token) { Self::Header(Secret::new(token)) } else { Self::Malformed }
    }
}

/// An API key in the query. A JWT there is ignored: access tokens never travel in URLs (OAuth 2.1 5.1).
fn query_key(uri: &Uri) -> Option<Secret> {
    let key = parameter(uri, QUERY_PARAMETER)?;
    let looks_like_jwt = key.matches('.').count() == 2;
    (!key.is_empty() && key.len() <= LONGEST && !looks_like_jwt).then(|| Secret::new(key))
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
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/');
    !body.is_empty() && text.len() <= LONGEST && body.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_taken_out_of_the_uri_and_the_rest_stays() {
        let without = |text: &str| without_key(&text.parse().unwrap()).map(|uri| uri.to_string());
        assert_eq!(without("/sse?api_key=lkk_x").as_deref(), Some("/sse"));
        assert_eq!(without("/messages?session_id=1&api_key=lkk_x&y=2").as_deref(), Some("/messages?session_id=1&y=2"));
        assert_eq!(without("/sse?api%5Fkey=lkk_x").as_deref(), Some("/sse"));
        assert_eq!(without("/messages?session_id=1"), None);
    }
}
