//! A refusal by an authorization server, in any form, and its meaning for the login (RFC 6749 5.2).

use std::{fmt, time::Duration};

use http::{HeaderMap, header};
use serde_json::Value;
use url::form_urlencoded;

use crate::support::{Timestamp, printable};

/// Maximum time that an answer may keep the client from asking again.
pub(super) const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// Maximum length of a code and of a description, in characters: the service chooses both texts.
const MAX_CODE: usize = 80;
const MAX_DESCRIPTION: usize = 400;

/// Codes that mean that the login is over: from RFC 6749 and OpenID Connect, GitHub, Slack, Supabase and Entra ID.
const GRANT_IS_OVER: [&str; 18] = [
    "invalid_grant",
    "invalid_token",
    "bad_refresh_token",
    "invalid_refresh_token",
    "expired_refresh_token",
    "refresh_token_expired",
    "refresh_token_not_found",
    "refresh_token_already_used",
    "refresh_token_revoked",
    "token_expired",
    "token_revoked",
    "expired_token",
    "session_expired",
    "session_not_found",
    "account_inactive",
    "login_required",
    "consent_required",
    "interaction_required",
];

/// Codes that mean that the client is unknown or failed to authenticate.
const CLIENT_IS_UNKNOWN: [&str; 9] = [
    "invalid_client",
    "unauthorized_client",
    "incorrect_client_credentials",
    "invalid_client_id",
    "invalid_client_secret",
    "bad_client_secret",
    "client_not_found",
    "unknown_client",
    "unregistered_client",
];

/// Codes that mean that the same request may succeed later.
const PASSES: [&str; 11] = [
    "server_error",
    "temporarily_unavailable",
    "slow_down",
    "ratelimited",
    "rate_limited",
    "rate_limit_exceeded",
    "over_request_rate_limit",
    "too_many_requests",
    "internal_error",
    "fatal_error",
    "service_unavailable",
];

/// Words in a description that mean that the client was not found.
const NOT_FOUND: [&str; 6] = ["not found", "not exist", "unknown", "not registered", "no such", "unregistered"];

/// A refusal of an authorization server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OAuthRefusal {
    /// Status of the answer; `None` if it came through the browser.
    pub status: Option<u16>,
    /// `error` or its equivalent; `None` if the answer is not an OAuth error, such as a proxy's.
    pub code: Option<String>,
    /// `error_description` or its equivalent.
    pub description: Option<String>,
    /// The time to wait before asking again, according to the server.
    pub retry_after: Option<Duration>,
}

/// Meaning of a refusal for the login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalMeaning {
    /// The grant is over: only a new login helps.
    GrantIsOver,
    /// The server does not know the client, or its secret is wrong.
    ClientIsUnknown,
    /// The server refuses a scope.
    Scope,
    /// The same request may succeed later.
    Passes,
    Other,
}

// === impl OAuthRefusal ===

impl OAuthRefusal {
    /// A refusal that came through the browser.
    pub fn of_response(code: &str, description: Option<&str>) -> Self {
        let (code, description) = (Some(bounded(code, MAX_CODE)), description.and_then(said));
        Self { code, description, ..Self::default() }
    }

    /// Reads an unsuccessful answer: JSON, a form, or anything else.
    pub fn read(status: u16, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Self {
        let body = object(body).unwrap_or_default();
        let nested = &body["error"];
        let code = ["error", "error_code", "code"].iter().find_map(|name| text(&body[*name]));
        let code = code.or_else(|| ["code", "type", "error"].iter().find_map(|name| text(&nested[*name])));
        let names = ["error_description", "message", "msg", "error_message", "detail"];
        let description = names.iter().find_map(|name| text(&body[*name]));
        let description = description.or_else(|| names.iter().find_map(|name| text(&nested[*name])));
        Self {
            status: Some(status),
            code: code.map(|code| bounded(code, MAX_CODE)),
            description: description.and_then(said),
            retry_after: retry_after(headers, now),
        }
    }

    /// Its meaning. Codes win over the status, since services send any status.
    pub fn meaning(&self) -> RefusalMeaning {
        let status = self.status.unwrap_or(400);
        let is_busy = status >= 500 || matches!(status, 408 | 425 | 429);
        let Some(code) = self.code.as_deref() else { return RefusalMeaning::Passes };
        let description = self.description.as_deref().unwrap_or_default().to_ascii_lowercase();
        let names_refresh_token = description.contains("refresh token") || description.contains("refresh_token");
        let misses_client = description.contains("client") && NOT_FOUND.iter().any(|word| description.contains(word));
        match code {
            code if GRANT_IS_OVER.contains(&code) => RefusalMeaning::GrantIsOver,
            code if CLIENT_IS_UNKNOWN.contains(&code) => RefusalMeaning::ClientIsUnknown,
            "invalid_scope" => RefusalMeaning::Scope,
            code if is_busy || PASSES.contains(&code) => RefusalMeaning::Passes,
            "invalid_request" if names_refresh_token => RefusalMeaning::GrantIsOver,
            _ if misses_client => RefusalMeaning::ClientIsUnknown,
            _ => RefusalMeaning::Other,
        }
    }

    /// True if the code is this one.
    pub fn is(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }
}

impl fmt::Display for OAuthRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.code, self.status) {
            (Some(code), Some(status)) => write!(f, "the authorization server refused ({status} {code})")?,
            (Some(code), None) => write!(f, "the authorization server refused ({code})")?,
            (None, Some(status)) => write!(f, "the authorization server answered {status}, without an OAuth error")?,
            (None, None) => f.write_str("the authorization server refused")?,
        }
        match &self.description {
            Some(description) => write!(f, ": {}", description.trim_end_matches('.')),
            None => Ok(()),
        }
    }
}

/// The members of a body, which is a JSON object or a form.
pub(super) fn object(body: &[u8]) -> Option<Value> {
    if let Ok(json) = serde_json::from_slice::<Value>(body) {
        return Some(json).filter(Value::is_object);
    }
    let body = std::str::from_utf8(body).ok()?.trim();
    // an HTML page is not a form
    let is_form = body.contains('=') && !body.starts_with('<') && !body.contains(['\n', '{']);
    let pairs = form_urlencoded::parse(body.as_bytes()).into_owned();
    is_form.then(|| Value::Object(pairs.map(|(name, value)| (name, Value::String(value))).collect()))
}

/// The text, if it is not empty.
pub(super) fn text(value: &Value) -> Option<&str> {
    value.as_str().map(str::trim).filter(|text| !text.is_empty())
}

fn said(text: &str) -> Option<String> {
    Some(bounded(text, MAX_DESCRIPTION)).filter(|text| !text.is_empty())
}

fn bounded(text: &str, max: usize) -> String {
    printable(text).trim().chars().take(max).collect()
}

/// `Retry-After` in seconds or as a date (RFC 9110 10.2.3).
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let said = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if let Ok(seconds) = said.parse::<f64>() {
        Duration::try_from_secs_f64(seconds).ok()?
    } else {
        let date = httpdate::parse_http_date(said).ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Timestamp::from_seconds(i64::try_from(date.as_secs()).ok()?).since(now)
    };
    Some(wait.min(LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(status: u16, body: &str) -> OAuthRefusal {
        OAuthRefusal::read(status, &HeaderMap::new(), body.as_bytes(), Timestamp::from_seconds(0))
    }

    #[test]
    fn up_021_a_refusal_means_the_same_in_the_words_of_every_service() {
        for (service, status, body, meaning, told) in [
            ("RFC 6749", 400, r#"{"error":"invalid_grant"}"#, RefusalMeaning::GrantIsOver, "400 invalid_grant"),
            ("GitHub", 200, r#"{"error":"bad_refresh_token"}"#, RefusalMeaning::GrantIsOver, "200 bad_refresh_token"),
            ("GitHub, a form", 200, "error=bad_refresh_token&error_description=x", RefusalMeaning::GrantIsOver, "x"),
            ("GitHub", 200, r#"{"error":"incorrect_client_credentials"}"#, RefusalMeaning::ClientIsUnknown, "200"),
            ("Slack", 200, r#"{"ok":false,"error":"invalid_refresh_token"}"#, RefusalMeaning::GrantIsOver, "200"),
            ("Slack", 200, r#"{"ok":false,"error":"ratelimited"}"#, RefusalMeaning::Passes, "ratelimited"),
            (
                "Supabase",
                400,
                r#"{"code":400,"error_code":"refresh_token_not_found","msg":"Invalid Refresh Token"}"#,
                RefusalMeaning::GrantIsOver,
                "400 refresh_token_not_found): Invalid Refresh Token",
            ),
            (
                "Entra ID",
                400,
                r#"{"error":"interaction_required","error_description":"AADSTS50076: use multi-factor."}"#,
                RefusalMeaning::GrantIsOver,
                "AADSTS50076",
            ),
            ("Cognito", 400, r#"{"error":"invalid_client"}"#, RefusalMeaning::ClientIsUnknown, "invalid_client"),
            (
                "Notion",
                400,
                r#"{"error":"invalid_request","error_description":"Invalid refresh token"}"#,
                RefusalMeaning::GrantIsOver,
                "Invalid refresh token",
            ),
            (
                "a server that words it itself",
                400,
                r#"{"error":"invalid_request","error_description":"Client not found"}"#,
                RefusalMeaning::ClientIsUnknown,
                "Client not found",
            ),
            (
                "nested",
                401,
                r#"{"error":{"type":"invalid_client","message":"m"}}"#,
                RefusalMeaning::ClientIsUnknown,
                "m",
            ),
            ("scopes", 400, r#"{"error":"invalid_scope"}"#, RefusalMeaning::Scope, "invalid_scope"),
            ("busy", 503, r#"{"error":"temporarily_unavailable"}"#, RefusalMeaning::Passes, "503"),
            ("busy in its own words", 500, r#"{"error":"boom"}"#, RefusalMeaning::Passes, "500 boom"),
            ("too many", 429, r#"{"error":"whatever"}"#, RefusalMeaning::Passes, "429"),
            ("a proxy", 403, "<html><p a=b>Forbidden", RefusalMeaning::Passes, "answered 403"),
            ("a router", 404, "", RefusalMeaning::Passes, "answered 404"),
            ("numbers are no codes", 400, r#"{"code":7}"#, RefusalMeaning::Passes, "answered 400"),
            ("anything else", 400, r#"{"error":"invalid_target"}"#, RefusalMeaning::Other, "invalid_target"),
            ("anything else", 400, r#"{"error":"invalid_request"}"#, RefusalMeaning::Other, "invalid_request"),
        ] {
            let refusal = read(status, body);
            assert_eq!(refusal.meaning(), meaning, "{service}: {body}");
            assert!(refusal.to_string().contains(told), "{service}: {refusal}");
        }
    }

    #[test]
    fn a_server_keeps_the_client_away_for_an_hour_at_most() {
        let wait = |said: &'static str| {
            let headers = HeaderMap::from_iter([(header::RETRY_AFTER, HeaderValue::from_static(said))]);
            OAuthRefusal::read(503, &headers, b"", Timestamp::from_seconds(0)).retry_after.map(|wait| wait.as_secs())
        };
        assert_eq!((wait("2"), wait("86400"), wait("Thu, 01 Jan 1970 00:00:30 GMT")), (Some(2), Some(3600), Some(30)));
        assert_eq!((wait("-1"), wait("soon"), wait("NaN")), (None, None, None));
    }

    #[test]
    fn the_text_of_a_service_is_bounded_and_shows_nothing_hidden() {
        let refusal = OAuthRefusal::of_response(&"x".repeat(1000), Some("a\u{202e}b\u{1b}[31m"));
        assert!(refusal.to_string().len() < 200 && !refusal.to_string().contains(['\u{202e}', '\u{1b}']), "{refusal}");
        let long = read(400, &format!(r#"{{"error":"e","error_description":"{}"}}"#, "y".repeat(5000)));
        assert!(long.to_string().len() < 600);
    }
}
