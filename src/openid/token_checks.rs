//! Claims of id tokens and logout tokens (OpenID Connect Core 3.1.3.7, Back-Channel Logout 2.6).

use serde_json::Value;

use super::{error::TokenProblem, pending_login::ProviderPrompt};
use crate::support::Timestamp;

/// Clock skew between provider and gateway, in seconds.
pub(super) const SKEW: i64 = 60;

/// The event of a logout token.
const LOGOUT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// Maximum length of a subject (Core 2), in bytes.
const MAX_SUBJECT: usize = 255;

/// Expectations of a provider's tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct TokenContext<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) now: Timestamp,
}

/// The login that an id token must belong to.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoginContext<'a> {
    pub(super) nonce: &'a str,
    pub(super) begun: Timestamp,
    pub(super) prompt: ProviderPrompt,
}

/// Person and login named by a valid id token.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LoginClaims<'a> {
    pub(super) subject: &'a str,
    /// Time of the login, if the provider states it.
    pub(super) logged_in: Option<Timestamp>,
}

/// Subject or session named by a valid logout token.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LogoutClaims<'a> {
    pub(super) id: &'a str,
    pub(super) subject: Option<&'a str>,
    pub(super) session: Option<&'a str>,
    pub(super) expires: Timestamp,
}

impl TokenContext<'_> {
    /// Checks the claims of an id token.
    pub(super) fn id_token<'c>(
        self,
        claims: &'c Value,
        login: LoginContext<'_>,
    ) -> Result<LoginClaims<'c>, TokenProblem> {
        self.common(claims)?;
        let issued = claims["iat"].as_f64().map_or(i64::MIN, seconds);
        if issued < login.begun.as_seconds() - SKEW {
            return Err(TokenProblem::Time);
        }
        if claims["nonce"].as_str() != Some(login.nonce) {
            return Err(TokenProblem::Nonce);
        }
        let logged_in = self.logged_in(claims, login)?;
        Ok(LoginClaims { subject: subject(claims)?.ok_or(TokenProblem::Malformed)?, logged_in })
    }

    /// The time of the login, not from before a request for a fresh one. Some providers never state it.
    fn logged_in(self, claims: &Value, login: LoginContext<'_>) -> Result<Option<Timestamp>, TokenProblem> {
        let said = claims.get("auth_time").filter(|said| !said.is_null());
        let at = said.and_then(Value::as_f64).map(seconds);
        if login.prompt == ProviderPrompt::Fresh {
            if said.is_some() && at.is_none() {
                return Err(TokenProblem::Malformed);
            }
            if at.is_some_and(|at| at < login.begun.as_seconds() - SKEW) {
                return Err(TokenProblem::Stale);
            }
        }
        Ok(at.map(|at| Timestamp::from_seconds(at).min(self.now)))
    }

    /// Checks the claims of an id token that came with a refresh (Core 12.2). Its nonce, if any, belongs to a login
    /// long forgotten, so it is not checked.
    pub(super) fn renewed_id_token(self, claims: &Value, of: &str) -> Result<(), TokenProblem> {
        self.common(claims)?;
        if subject(claims)? == Some(of) { Ok(()) } else { Err(TokenProblem::Subject) }
    }

    /// Checks the claims of a logout token.
    pub(super) fn logout_token(self, claims: &Value) -> Result<LogoutClaims<'_>, TokenProblem> {
        let expires = self.common(claims)?;
        // without a nonce, so that an id token never passes as one
        if !claims["events"][LOGOUT].is_object() || claims.get("nonce").is_some() {
            return Err(TokenProblem::Logout);
        }
        let id = claims["jti"].as_str().filter(|id| !id.is_empty()).ok_or(TokenProblem::Malformed)?;
        let (subject, session) = (subject(claims)?, claims["sid"].as_str());
        if subject.is_none() && session.is_none() {
            return Err(TokenProblem::Logout);
        }
        Ok(LogoutClaims { id, subject, session, expires })
    }

    /// Checks issuer, audience and times; returns the end.
    fn common(self, claims: &Value) -> Result<Timestamp, TokenProblem> {
        if claims["iss"].as_str() != Some(self.issuer) {
            return Err(TokenProblem::Issuer);
        }
        if !self.is_addressed(claims) {
            return Err(TokenProblem::Audience);
        }
        let seconds = |name: &str| claims[name].as_f64().filter(|at| at.is_finite()).map(seconds);
        let (expires, issued) = seconds("exp").zip(seconds("iat")).ok_or(TokenProblem::Malformed)?;
        let now = self.now.as_seconds();
        if now >= expires.saturating_add(SKEW) || issued > now + SKEW {
            return Err(TokenProblem::Time);
        }
        Ok(Timestamp::from_seconds(expires.saturating_add(SKEW)))
    }

    /// True if the token is for this client: as its only audience, or as the party it was issued to (`azp`).
    fn is_addressed(self, claims: &Value) -> bool {
        let authorized = claims.get("azp");
        let others_allow = |required: bool| match authorized {
            Some(party) => party.as_str() == Some(self.client_id),
            None => !required,
        };
        match &claims["aud"] {
            Value::String(audience) => audience == self.client_id && others_allow(false),
            Value::Array(all) => {
                all.iter().any(|audience| audience.as_str() == Some(self.client_id)) && others_allow(all.len() > 1)
            }
            _ => false,
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
const fn seconds(at: f64) -> i64 {
    at as i64
}

pub(super) fn subject(claims: &Value) -> Result<Option<&str>, TokenProblem> {
    match claims.get("sub") {
        None => Ok(None),
        Some(Value::String(subject)) if (1..=MAX_SUBJECT).contains(&subject.len()) => Ok(Some(subject)),
        Some(_) => Err(TokenProblem::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp::from_seconds(1_000_000);

    fn claims(changes: &[(&str, Value)]) -> Value {
        let mut claims = json!({
            "iss": "https://id.example", "sub": "ann", "aud": "gateway", "nonce": "n",
            "iat": 1_000_000, "exp": 1_000_300,
        });
        for (name, value) in changes {
            if value.is_null() {
                claims.as_object_mut().unwrap().remove(*name);
            } else {
                claims[name] = value.clone();
            }
        }
        claims
    }

    fn context() -> TokenContext<'static> {
        TokenContext { issuer: "https://id.example", client_id: "gateway", now: NOW }
    }

    #[test]
    fn up_012_an_id_token_is_for_this_client_this_login_and_this_time() {
        let check = |changes: &[(&str, Value)]| {
            let claims = claims(changes);
            let login = LoginContext { nonce: "n", begun: NOW, prompt: ProviderPrompt::IfNeeded };
            context().id_token(&claims, login).map(|found| found.subject.to_owned())
        };
        for fine in [
            vec![],
            vec![("aud", json!(["gateway"]))],
            vec![("aud", json!(["gateway", "other"])), ("azp", json!("gateway"))],
            vec![("azp", json!("gateway"))],
            vec![("exp", json!(999_941))],
            vec![("iat", json!(1_000_060))],
            vec![("iat", json!(999_940))],
            vec![("iat", json!(1_000_000.7))],
        ] {
            assert_eq!(check(&fine).as_deref(), Ok("ann"), "{fine:?}");
        }
        for (change, problem) in [
            (("iss", json!("https://id.example/")), TokenProblem::Issuer),
            (("iss", Value::Null), TokenProblem::Issuer),
            (("aud", json!("other")), TokenProblem::Audience),
            (("aud", json!(["other"])), TokenProblem::Audience),
            (("aud", json!(["gateway", "other"])), TokenProblem::Audience),
            (("aud", Value::Null), TokenProblem::Audience),
            (("azp", json!("other")), TokenProblem::Audience),
            (("azp", json!(1)), TokenProblem::Audience),
            (("exp", json!(999_940)), TokenProblem::Time),
            (("exp", json!("1000300")), TokenProblem::Malformed),
            (("exp", Value::Null), TokenProblem::Malformed),
            (("iat", json!(1_000_061)), TokenProblem::Time),
            (("iat", json!(999_939)), TokenProblem::Time),
            (("iat", Value::Null), TokenProblem::Malformed),
            (("nonce", json!("m")), TokenProblem::Nonce),
            (("nonce", Value::Null), TokenProblem::Nonce),
            (("sub", Value::Null), TokenProblem::Malformed),
            (("sub", json!("")), TokenProblem::Malformed),
            (("sub", json!(7)), TokenProblem::Malformed),
            (("sub", json!("x".repeat(256))), TokenProblem::Malformed),
        ] {
            assert_eq!(check(std::slice::from_ref(&change)), Err(problem), "{change:?}");
        }
    }

    #[test]
    fn up_012_a_fresh_login_is_not_from_before_its_request() {
        let check = |auth_time: Value, prompt| {
            let claims = claims(&[("auth_time", auth_time)]);
            context().id_token(&claims, LoginContext { nonce: "n", begun: NOW, prompt }).map(|found| found.logged_in)
        };
        let at = |seconds| Ok(Some(Timestamp::from_seconds(seconds)));
        for (auth_time, fresh, any) in [
            (json!(1_000_000), at(1_000_000), at(1_000_000)),
            (json!(999_940), at(999_940), at(999_940)),
            (json!(999_939), Err(TokenProblem::Stale), at(999_939)),
            (json!(999_939.9), Err(TokenProblem::Stale), at(999_939)),
            (json!(0), Err(TokenProblem::Stale), at(0)),
            // it cannot be later than now
            (json!(2_000_000), at(1_000_000), at(1_000_000)),
            (json!("999939"), Err(TokenProblem::Malformed), Ok(None)),
            (json!([999_939]), Err(TokenProblem::Malformed), Ok(None)),
            (Value::Null, Ok(None), Ok(None)),
        ] {
            assert_eq!(check(auth_time.clone(), ProviderPrompt::Fresh), fresh, "{auth_time}");
            assert_eq!(check(auth_time.clone(), ProviderPrompt::IfNeeded), any, "{auth_time}");
        }
    }

    #[test]
    fn up_014_a_logout_token_reports_a_logout_and_is_no_id_token() {
        let event = json!({ LOGOUT: {} });
        let base = [("nonce", Value::Null), ("events", event), ("jti", json!("j"))];
        let check = |changes: &[(&str, Value)]| {
            let claims = claims(&[&base[..], changes].concat());
            context()
                .logout_token(&claims)
                .map(|found| (found.id.to_owned(), found.subject.map(str::to_owned), found.session.map(str::to_owned)))
        };
        let named = |subject: Option<&str>, session: Option<&str>| {
            Ok(("j".to_owned(), subject.map(str::to_owned), session.map(str::to_owned)))
        };
        assert_eq!(check(&[]), named(Some("ann"), None));
        assert_eq!(check(&[("sid", json!("s"))]), named(Some("ann"), Some("s")));
        assert_eq!(check(&[("sub", Value::Null), ("sid", json!("s"))]), named(None, Some("s")));
        for (change, problem) in [
            (("sub", Value::Null), TokenProblem::Logout),
            (("events", Value::Null), TokenProblem::Logout),
            (("events", json!({})), TokenProblem::Logout),
            (("events", json!({ LOGOUT: true })), TokenProblem::Logout),
            (("nonce", json!("n")), TokenProblem::Logout),
            (("jti", Value::Null), TokenProblem::Malformed),
            (("jti", json!("")), TokenProblem::Malformed),
            (("aud", json!("other")), TokenProblem::Audience),
            (("iss", json!("https://evil.example")), TokenProblem::Issuer),
            (("exp", json!(999_000)), TokenProblem::Time),
            (("exp", Value::Null), TokenProblem::Malformed),
        ] {
            assert_eq!(check(std::slice::from_ref(&change)), Err(problem), "{change:?}");
        }
    }
}
