//! Claims of identity assertions (draft-ietf-oauth-identity-assertion-authz-grant; `UP-15`).

use serde_json::Value;

use super::{
    error::TokenProblem,
    token_checks::{SKEW, subject},
};
use crate::support::Timestamp;

/// The type of an identity assertion.
const KIND: &str = "oauth-id-jag+jwt";
/// Maximum life, in seconds.
const LIFE: i64 = 300;
/// Maximum length of its id, in bytes.
const MAX_ID: usize = 256;

/// Expectations of an identity assertion.
#[derive(Debug, Clone, Copy)]
pub(super) struct AssertionContext<'a> {
    pub(super) issuer: &'a str,
    /// The gateway as an issuer.
    pub(super) audience: &'a str,
    /// The client that presents it.
    pub(super) client: &'a str,
    pub(super) now: Timestamp,
}

/// Claims of a valid assertion.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct IdentityClaims<'a> {
    pub(super) subject: &'a str,
    pub(super) id: &'a str,
    pub(super) expires: Timestamp,
    pub(super) resource: Option<&'a str>,
    pub(super) scope: Option<&'a str>,
}

impl AssertionContext<'_> {
    /// Checks the type of an assertion (RFC 8725 3.11): another token of the provider must never pass as one.
    pub(super) fn kind(kind: Option<&str>) -> Result<(), TokenProblem> {
        let is_assertion = kind.is_some_and(|kind| kind.eq_ignore_ascii_case(KIND));
        if is_assertion { Ok(()) } else { Err(TokenProblem::Kind) }
    }

    /// Checks the claims of an assertion.
    pub(super) fn check(self, claims: &Value) -> Result<IdentityClaims<'_>, TokenProblem> {
        if claims["iss"].as_str() != Some(self.issuer) {
            return Err(TokenProblem::Issuer);
        }
        if single(&claims["aud"]) != Some(self.audience) {
            return Err(TokenProblem::Audience);
        }
        if claims["client_id"].as_str() != Some(self.client) {
            return Err(TokenProblem::Client);
        }
        if ["cnf", "authorization_details"].iter().any(|name| claims.get(name).is_some()) {
            return Err(TokenProblem::Demands);
        }
        let expires = self.end(claims)?;
        let id = claims["jti"].as_str().filter(|id| (1..=MAX_ID).contains(&id.len()));
        Ok(IdentityClaims {
            subject: subject(claims)?.ok_or(TokenProblem::Malformed)?,
            id: id.ok_or(TokenProblem::Malformed)?,
            expires,
            resource: optional(claims, "resource", single)?,
            scope: optional(claims, "scope", Value::as_str)?,
        })
    }

    /// Checks the times; returns the moment when the assertion expires.
    fn end(self, claims: &Value) -> Result<Timestamp, TokenProblem> {
        let at = |name: &str| claims[name].as_i64().ok_or(TokenProblem::Malformed);
        let (expires, issued, now) = (at("exp")?, at("iat")?, self.now.as_seconds());
        if expires.saturating_sub(issued) > LIFE {
            return Err(TokenProblem::Lifetime);
        }
        let end = expires.saturating_add(SKEW);
        let starts = optional(claims, "nbf", Value::as_i64)?.map_or(issued, |start| start.max(issued));
        if now >= end || starts > now.saturating_add(SKEW) {
            return Err(TokenProblem::Time);
        }
        Ok(Timestamp::from_seconds(end))
    }
}

/// A text, possibly in an array of one.
fn single(value: &Value) -> Option<&str> {
    match value.as_array().map(Vec::as_slice) {
        None => value.as_str(),
        Some([only]) => only.as_str(),
        Some(_) => None,
    }
}

/// A claim that may be absent, but not malformed.
fn optional<'c, T>(
    claims: &'c Value,
    name: &str,
    read: impl Fn(&'c Value) -> Option<T>,
) -> Result<Option<T>, TokenProblem> {
    claims.get(name).map(|value| read(value).ok_or(TokenProblem::Malformed)).transpose()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_000_000;

    fn check(changes: &[(&str, Value)]) -> Result<(), TokenProblem> {
        let mut claims = json!({
            "iss": "https://id.example", "sub": "ann", "aud": "https://gw.example", "client_id": "c", "jti": "j",
            "iat": NOW, "exp": NOW + 300, "resource": "https://gw.example/mcp", "scope": "mcp:use",
        });
        for (name, value) in changes {
            if value.is_null() {
                claims.as_object_mut().unwrap().remove(*name);
            } else {
                claims[name] = value.clone();
            }
        }
        let now = Timestamp::from_seconds(NOW);
        let context =
            AssertionContext { issuer: "https://id.example", audience: "https://gw.example", client: "c", now };
        context.check(&claims).map(drop)
    }

    #[test]
    fn up_015_an_assertion_is_for_this_gateway_this_client_and_five_minutes() {
        for fine in [
            ("aud", json!(["https://gw.example"])),
            ("resource", Value::Null),
            ("resource", json!(["https://gw.example/mcp"])),
            ("scope", Value::Null),
            ("iat", json!(NOW + 60)),
            ("nbf", json!(NOW + 60)),
            ("act", json!({ "sub": "agent" })),
        ] {
            assert_eq!(check(std::slice::from_ref(&fine)), Ok(()), "{fine:?}");
        }
        assert_eq!(check(&[("iat", json!(NOW - 300)), ("exp", json!(NOW - 59))]), Ok(()));
        for (change, problem) in [
            (("iss", json!("https://id.example/")), TokenProblem::Issuer),
            (("aud", json!(["https://gw.example", "https://b.example"])), TokenProblem::Audience),
            (("aud", json!("https://gw.example/mcp")), TokenProblem::Audience),
            (("aud", Value::Null), TokenProblem::Audience),
            (("client_id", json!("d")), TokenProblem::Client),
            (("client_id", Value::Null), TokenProblem::Client),
            (("exp", json!(NOW + 301)), TokenProblem::Lifetime),
            (("iat", Value::Null), TokenProblem::Malformed),
            (("exp", Value::Null), TokenProblem::Malformed),
            (("exp", json!(NOW - 60)), TokenProblem::Time),
            (("nbf", json!(NOW + 61)), TokenProblem::Time),
            (("nbf", json!("now")), TokenProblem::Malformed),
            (("jti", Value::Null), TokenProblem::Malformed),
            (("jti", json!("")), TokenProblem::Malformed),
            (("jti", json!("x".repeat(257))), TokenProblem::Malformed),
            (("sub", Value::Null), TokenProblem::Malformed),
            (("resource", json!(["a", "b"])), TokenProblem::Malformed),
            (("scope", json!(["mcp:use"])), TokenProblem::Malformed),
            (("cnf", json!({ "jkt": "x" })), TokenProblem::Demands),
            (("authorization_details", json!([])), TokenProblem::Demands),
        ] {
            assert_eq!(check(std::slice::from_ref(&change)), Err(problem), "{change:?}");
        }
        assert_eq!(check(&[("iat", json!(NOW + 61)), ("exp", json!(NOW + 200))]), Err(TokenProblem::Time));
    }

    #[test]
    fn up_015_only_the_type_of_identity_assertions_is_one() {
        assert_eq!(AssertionContext::kind(Some("oauth-id-jag+JWT")), Ok(()));
        for other in [None, Some("JWT"), Some("at+jwt"), Some("oauth-id-jag"), Some("")] {
            assert_eq!(AssertionContext::kind(other), Err(TokenProblem::Kind), "{other:?}");
        }
    }
}
