//! Tokens of a login, as they are kept. Knows nothing of the requests for them.

use std::time::Duration;

use oauth2::TokenResponse as _;
use serde::{Deserialize, Serialize};

use super::{kept_secret::KeptSecret, token_endpoint::TokenAnswer};
use crate::support::{Secret, Timestamp};

/// Maximum time between a refresh and the end of the token.
const EARLY: Duration = Duration::from_mins(1);

/// Tokens as they are kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SavedTokens {
    /// Access token.
    pub access: KeptSecret,
    /// Refresh token.
    pub refresh: Option<KeptSecret>,
    /// End of the access token, in milliseconds since the epoch; `None` if the authorization server did not say.
    pub expires: Option<Timestamp>,
    /// Granted scopes, separated by spaces.
    pub scope: Option<String>,
    /// The time of the response.
    pub issued: Timestamp,
    /// Request that gave the access token.
    pub by: TokenGrant,
    /// The reason why they are not refreshed any more; `None` while they can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<RefreshEnd>,
    /// Scopes beyond those of a token that the server asked for, and a person was asked for in turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stepped_up: Option<String>,
}

/// Reason why tokens are not refreshed any more. They stay until others take their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefreshEnd {
    /// The grant is over.
    GrantIsOver,
    /// The authorization server does not know the client any more.
    ClientIsUnknown,
}

/// Tokens of one response.
#[derive(Debug, Clone)]
pub struct IssuedTokens {
    /// Those that are kept.
    pub tokens: SavedTokens,
    /// The statement about the person (OpenID Connect Core 2).
    pub id_token: Option<Secret>,
    /// Life of the refresh token, if the server says it.
    pub refresh_life: Option<Duration>,
}

/// Request that gave an access token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenGrant {
    /// A login by the browser.
    AuthorizationCode,
    /// A refresh.
    RefreshToken,
    /// The client's own credentials.
    ClientCredentials,
}

// === impl SavedTokens ===

impl SavedTokens {
    /// The moment for a refresh: a tenth of the token's life before its end, at most a minute. `None` if the end is
    /// unknown or there is no refresh token.
    pub fn refresh_at(&self) -> Option<Timestamp> {
        let (expires, _) = (self.expires?, self.refreshable()?);
        Some(expires - (expires.since(self.issued) / 10).min(EARLY))
    }

    /// True if the access token has ended.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// The refresh token, unless it is of no use any more.
    pub fn refreshable(&self) -> Option<&KeptSecret> {
        self.refresh.as_ref().filter(|_| self.end.is_none())
    }

    /// True if the access token has ended and cannot be refreshed: a person has to log in again.
    pub fn need_login(&self, now: Timestamp) -> bool {
        self.end.is_some() && self.is_over(now)
    }

    /// The same, which a server rejects: their end is now, if it was not known.
    #[must_use]
    pub fn rejected(&self, now: Timestamp) -> Self {
        let expires =
            if self.end.is_some() { self.expires.map_or(now, |end| end.min(now)) } else { self.expires.unwrap_or(now) };
        Self { expires: Some(expires), ..self.clone() }
    }

    /// The same, which are not refreshed any more.
    #[must_use]
    pub fn ended(&self, end: RefreshEnd) -> Self {
        Self { end: Some(end), ..self.clone() }
    }
}

// === impl IssuedTokens ===

impl IssuedTokens {
    /// The tokens of a login that asked for these scopes: a response that names none grants all (RFC 6749 5.1).
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
