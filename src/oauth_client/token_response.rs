//! A token response in the form of RFC 6749 5.1, made from what services really send.

use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value};

use super::refusal::{OAuthRefusal, object, text};
use crate::support::{Timestamp, printable};

/// Longest plausible lifetime of a token, in seconds: a hundred years.
const LONGEST_LIFE: f64 = 3_153_600_000.0;

/// Values of `token_type` that mean a bearer token. Slack puts the kind of token there.
const BEARER: [&str; 3] = ["bearer", "user", "bot"];

/// Reason why a token request returned no tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenFailure {
    #[error("{0}")]
    Unreachable(String),
    #[error("{0}")]
    Refused(OAuthRefusal),
    /// The answer cannot be used; names the member.
    #[error("{0}")]
    Unusable(String),
}

/// The members of RFC 6749 5.1 and OpenID Connect Core 3.1.3.3 in an answer, each in its standard form.
///
/// # Errors
///
/// [`TokenFailure`].
pub(super) fn normalised(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Result<Value, TokenFailure> {
    let members = object(body).unwrap_or_default();
    if !status.is_success() || text(&members["access_token"]).is_none() {
        let refusal = OAuthRefusal::read(status.as_u16(), headers, body, now);
        return Err(match &members {
            _ if !status.is_success() || refusal.code.is_some() => TokenFailure::Refused(refusal),
            Value::Null => unusable("is neither JSON nor a form"),
            Value::Object(_) => match members.get("access_token") {
                None | Some(Value::Null) => unusable("has no `access_token`"),
                Some(_) => unusable("has an `access_token` that is not a text"),
            },
            _ => unusable("is not an object"),
        });
    }
    let mut response = Map::new();
    response.insert("token_type".to_owned(), token_type(&members["token_type"])?.into());
    for name in ["access_token", "refresh_token", "id_token"] {
        match &members[name] {
            Value::Null | Value::Bool(false) => {}
            Value::String(value) if value.trim().is_empty() => {}
            Value::String(value) => drop(response.insert(name.to_owned(), value.trim().into())),
            _ => return Err(unusable(&format!("has a `{name}` that is not a text"))),
        }
    }
    // Keycloak states the lifetime of a refresh token; 0 means that it does not expire
    for name in ["expires_in", "refresh_expires_in"] {
        if let Some(life) = life(&members[name]) {
            response.insert(name.to_owned(), life.into());
        }
    }
    if let Some(scope) = scope(&members["scope"])? {
        response.insert("scope".to_owned(), scope.into());
    }
    Ok(Value::Object(response))
}

fn unusable(what: &str) -> TokenFailure {
    TokenFailure::Unusable(format!("the answer of the token endpoint {what}"))
}

/// A token without a type is a bearer token: MCP servers accept no other.
fn token_type(said: &Value) -> Result<&'static str, TokenFailure> {
    match said {
        Value::Null => Ok("bearer"),
        Value::String(named) if named.trim().is_empty() => Ok("bearer"),
        Value::String(named) if BEARER.iter().any(|known| named.trim().eq_ignore_ascii_case(known)) => Ok("bearer"),
        Value::String(named) => {
            let named: String = printable(named).chars().take(40).collect();
            Err(unusable(&format!("has the `token_type` `{named}`, and only bearer tokens are used")))
        }
        _ => Err(unusable("has a `token_type` that is not a text")),
    }
}

/// The lifetime of the token in seconds, sent as a number or as text. `None` if its expiry is unknown.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is above 0 and below 2^53")]
fn life(said: &Value) -> Option<u64> {
    let seconds = match said {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    (seconds.is_finite() && seconds >= 1.0).then(|| seconds.min(LONGEST_LIFE) as u64)
}

/// The granted scopes, separated by spaces; services also separate them by commas, or send an array.
fn scope(said: &Value) -> Result<Option<String>, TokenFailure> {
    let wrong = || unusable("has a `scope` that is neither a text nor a list of texts");
    let listed = match said {
        Value::Null => return Ok(None),
        Value::String(text) => text.clone(),
        Value::Array(all) => {
            let texts: Option<Vec<&str>> = all.iter().map(Value::as_str).collect();
            texts.ok_or_else(wrong)?.join(" ")
        }
        _ => return Err(wrong()),
    };
    let scopes: Vec<&str> = listed.split([' ', ',', '\t', '\n', '\r']).filter(|scope| !scope.is_empty()).collect();
    // GitHub Apps send an empty text in place of nothing
    Ok((!scopes.is_empty()).then(|| scopes.join(" ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(status: u16, body: &str) -> Result<Value, TokenFailure> {
        let status = StatusCode::from_u16(status).unwrap();
        normalised(status, &HeaderMap::new(), body.as_bytes(), Timestamp::from_seconds(0))
    }

    fn with(member: &str, value: Value) -> Result<Value, TokenFailure> {
        let mut body = json!({ "access_token": "a", "token_type": "Bearer" });
        body[member] = value;
        read(200, &body.to_string())
    }

    #[test]
    fn up_022_a_response_is_read_in_every_form_in_which_services_send_it() {
        let plain = json!({ "access_token": "a", "token_type": "bearer" });
        for (body, expected) in [
            (r#"{"access_token":"a","token_type":"Bearer"}"#, plain.clone()),
            (r#"{"access_token":"a"}"#, plain.clone()),
            (r#"{"access_token":"a","token_type":null,"refresh_token":null,"id_token":""}"#, plain.clone()),
            ("access_token=a&scope=repo%2Cgist&token_type=bearer", {
                json!({ "access_token": "a", "token_type": "bearer", "scope": "repo gist" })
            }),
            (r#"{"ok":true,"access_token":"a","token_type":"user","team":{"id":"T"}}"#, plain),
        ] {
            assert_eq!(read(200, body), Ok(expected.clone()), "{body}");
            assert_eq!(read(201, body), Ok(expected), "{body}");
        }
    }

    #[test]
    fn up_022_a_life_is_read_as_it_is_meant_or_not_known() {
        for (said, seconds) in [
            (json!(3600), Some(3600)),
            (json!("3600"), Some(3600)),
            (json!(" 3600 "), Some(3600)),
            (json!(3600.0), Some(3600)),
            (json!(3599.5), Some(3599)),
            (json!("3599.5"), Some(3599)),
            (json!(1e300), Some(3_153_600_000)),
            (json!(0), None),
            (json!(-1), None),
            (json!("soon"), None),
            (json!("NaN"), None),
            (json!([3600]), None),
            (Value::Null, None),
        ] {
            let read = with("expires_in", said.clone()).unwrap();
            assert_eq!(read.get("expires_in").and_then(Value::as_u64), seconds, "{said}");
        }
    }

    #[test]
    fn up_022_scopes_are_separated_in_every_way() {
        for said in [json!("a b"), json!("a,b"), json!("a, b"), json!(["a", "b"]), json!(" a  b ")] {
            assert_eq!(with("scope", said.clone()).unwrap()["scope"], "a b", "{said}");
        }
        assert_eq!(with("scope", Value::Null).unwrap().get("scope"), None);
        assert_eq!(with("scope", json!("")).unwrap().get("scope"), None);
    }

    #[test]
    fn up_022_what_cannot_be_used_is_named() {
        for (body, named) in [
            (r#"{"access_token":"a","token_type":"mac"}"#, "`token_type` `mac`"),
            (r#"{"access_token":"a","token_type":7}"#, "`token_type` that is not a text"),
            (r#"{"access_token":"a","token_type":"DPoP"}"#, "`DPoP`"),
            (r#"{"access_token":"a","refresh_token":7}"#, "`refresh_token`"),
            (r#"{"access_token":"a","scope":{"a":1}}"#, "`scope`"),
            (r#"{"access_token":["a"]}"#, "`access_token` that is not a text"),
            (r#"{"token":"a"}"#, "no `access_token`"),
            ("<html>", "neither JSON nor a form"),
            ("", "neither JSON nor a form"),
        ] {
            let failure = read(200, body).unwrap_err();
            assert!(matches!(&failure, TokenFailure::Unusable(text) if text.contains(named)), "{body}: {failure}");
        }
        for (status, body) in [(400, r#"{"access_token":"a"}"#), (200, r#"{"error":"e"}"#), (502, "<html>")] {
            assert!(matches!(read(status, body), Err(TokenFailure::Refused(_))), "{status} {body}");
        }
    }
}
