//! Tokens of a login, as they are kept.

use std::time::Duration;

use oauth2::TokenResponse as _;
use serde::{Deserialize, Serialize};

use super::{kept_secret::KeptSecret, token_endpoint::TokenAnswer};
use crate::support::{Secret, Timestamp};

/// Maximum time from a refresh to the expiry of the token.
const EARLY: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SavedTokens {
    pub access: KeptSecret,
    pub refresh: Option<KeptSecret>,
    /// Expiry of the access token, in milliseconds since the epoch; `None` if the authorization server did not say.
    pub expires: Option<Timestamp>,
    /// Granted scopes, separated by spaces.
    pub scope: Option<String>,
    pub issued: Timestamp,
    /// The kind of request that returned the access token.
    pub by: TokenGrant,
    /// Reason for no longer refreshing them; `None` while they can be refreshed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<RefreshEnd>,
    /// Additional scopes that the server asked for and that a person was then asked to grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stepped_up: Option<String>,
}

/// Reason for no longer refreshing tokens. They stay until others replace them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefreshEnd {
    GrantIsOver,
    /// The authorization server no longer knows the client.
    ClientIsUnknown,
}

/// Tokens of one response.
#[derive(Debug, Clone)]
pub struct IssuedTokens {
    pub tokens: SavedTokens,
    /// The ID token (OpenID Connect Core 2).
    pub id_token: Option<Secret>,
    /// Lifetime of the refresh token, if the server states it.
    pub refresh_life: Option<Duration>,
}

/// The kind of request that returned an access token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenGrant {
    AuthorizationCode,
    RefreshToken,
    ClientCredentials,
}

// === impl SavedTokens ===

impl SavedTokens {
    /// Time of the next refresh: a tenth of the token's lifetime before it expires, at most a minute. `None` if the
    /// expiry is unknown or there is no refresh token.
    pub fn refresh_at(&self) -> Option<Timestamp> {
        let (expires, _) = (self.expires?, self.refreshable()?);
        Some(expires - (expires.since(self.issued) / 10).min(EARLY))
    }

    /// True if the access token has expired.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// The refresh token, unless it is useless.
    pub fn refreshable(&self) -> Option<&KeptSecret> {
        self.refresh.as_ref().filter(|_| self.end.is_none())
    }

    /// True if the access token has expired and cannot be refreshed: a person has to log in again.
    pub fn need_login(&self, now: Timestamp) -> bool {
        self.end.is_some() && self.is_over(now)
    }

    /// These tokens after a server rejected them: they expire now, if the expiry was unknown.
    #[must_use]
    pub fn rejected(&self, now: Timestamp) -> Self {
        let expires =
            if self.end.is_some() { self.expires.map_or(now, |end| end.min(now)) } else { self.expires.unwrap_or(now) };
        Self { expires: Some(expires), ..self.clone() }
    }

    /// These tokens, which are no longer refreshed.
    #[must_use]
    pub fn ended(&self, end: RefreshEnd) -> Self {
        Self { end: Some(end), ..self.clone() }
    }
}

// === impl IssuedTokens ===

impl IssuedTokens {
    /// The tokens of a login that asked for these scopes: a response without scopes grants all of them (RFC 6749 5.1).
    pub fn asked_for(self, scope: Option<String>) -> SavedTokens {
        let granted = self.tokens.scope.clone().or(scope);
        SavedTokens { scope: granted, ..self.tokens }
    }

    pub(super) fn read(response: &TokenAnswer, by: TokenGrant, now: Timestamp) -> Self {
        let scopes = response.scopes().map(|scopes| scopes.iter().map(|scope| scope.to_string()).collect::<Vec<_>>());
        let tokens = SavedTokens {
            access: KeptSecret::new(response.access_token().secret()),
            refresh: response.refresh_token().map(|token| KeptSecret::new(token.secret())),
            expires: response.expires_in().map(|life| now + life),
            scope: scopes.map(|scopes| scopes.join(" ")),
            issued: now,
            by,
            end: None,
            stepped_up: None,
        };
        let more = response.extra_fields();
        Self { tokens, id_token: more.id_token().map(Secret::new), refresh_life: more.refresh_life() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(life: Option<u64>) -> SavedTokens {
        let issued = Timestamp::from_seconds(1_000_000);
        SavedTokens {
            access: KeptSecret::new("a"),
            refresh: Some(KeptSecret::new("r")),
            expires: life.map(|life| issued + Duration::from_secs(life)),
            scope: None,
            issued,
            by: TokenGrant::AuthorizationCode,
            end: None,
            stepped_up: None,
        }
    }

    #[test]
    fn a_token_is_refreshed_before_it_ends() {
        let after = |life| tokens(Some(life)).refresh_at().unwrap().since(Timestamp::from_seconds(1_000_000)).as_secs();
        assert_eq!((after(3600), after(600), after(60), after(0)), (3540, 540, 54, 0));
        assert_eq!(tokens(None).refresh_at(), None);
        assert_eq!(SavedTokens { refresh: None, ..tokens(Some(60)) }.refresh_at(), None);
        assert_eq!(tokens(Some(60)).ended(RefreshEnd::GrantIsOver).refresh_at(), None);
    }

    #[test]
    fn kept_tokens_are_read_as_they_were_written() {
        let text = serde_json::to_string(&tokens(Some(60))).unwrap();
        let read: SavedTokens = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert_eq!((read.access.expose(), read.refresh.unwrap().expose()), ("a", "r"));
    }

    #[test]
    fn up_021_tokens_that_are_not_refreshed_any_more_are_used_until_they_end() {
        let at = |seconds: i64| Timestamp::from_seconds(1_000_000 + seconds);
        let ended = tokens(Some(60)).ended(RefreshEnd::GrantIsOver);
        assert!(ended.refreshable().is_none() && !ended.need_login(at(59)) && ended.need_login(at(60)));
        assert!(ended.rejected(at(30)).need_login(at(30)), "a server that rejects them ends them");
        let unknown = tokens(None).ended(RefreshEnd::GrantIsOver);
        assert!(!unknown.need_login(at(9999)) && unknown.rejected(at(9999)).need_login(at(9999)));
        assert_eq!(tokens(Some(60)).rejected(at(30)).expires, Some(at(60)), "it may be a mistake of the server");
    }
}
