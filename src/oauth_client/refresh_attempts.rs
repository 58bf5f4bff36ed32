//! The refresh policy, shared by all code that keeps tokens: how to treat each answer, and when to try next. Tokens are
//! discarded only once their successors are stored.

use std::time::Duration;

use super::{
    error::LoginError,
    http::OAuthHttp,
    refusal::{LONGEST_WAIT, RefusalMeaning},
    saved_tokens::{RefreshEnd, SavedTokens},
    tokens::{AuthenticatedClient, TokenSource},
};
use crate::support::Timestamp;

/// The pause after the second failure in a row; it doubles with each further failure. The first may be an accident.
const PAUSE: Duration = Duration::from_secs(1);
const MAX_DOUBLINGS: u32 = 6;

/// Attempts to refresh the tokens of one login.
#[derive(Debug, Default)]
pub struct RefreshAttempts {
    /// Failures in a row.
    failures: u32,
    /// The last failure, and the time of the next attempt.
    last: Option<(LoginError, Timestamp)>,
}

/// Outcome of a refresh.
#[derive(Debug)]
pub enum RefreshOutcome {
    /// New tokens, to be stored in place of the old ones.
    Tokens(SavedTokens),
    /// A person has to log in: the old tokens, marked as such, to be stored again.
    Over(SavedTokens),
    /// The old tokens stay; the refresh is tried again.
    Kept(LoginError, SavedTokens),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefreshReason {
    /// The token has expired, or will soon.
    Ends,
    /// The server rejected the token.
    Rejected,
}

// === impl RefreshAttempts ===

impl RefreshAttempts {
    /// Refreshes tokens, unless an attempt has just failed.
    pub async fn refresh(
        &mut self,
        source: &TokenSource,
        old: &SavedTokens,
        reason: RefreshReason,
        client: AuthenticatedClient<'_>,
        http: &OAuthHttp,
        now: Timestamp,
    ) -> RefreshOutcome {
        let stale = |tokens: &SavedTokens| match reason {
            RefreshReason::Ends => tokens.clone(),
            RefreshReason::Rejected => tokens.rejected(now),
        };
        let Some(token) = old.refreshable() else { return RefreshOutcome::Over(stale(old)) };
        if let Some((error, _)) = self.last.as_ref().filter(|(_, next)| now < *next) {
            return RefreshOutcome::Kept(error.clone(), stale(old));
        }
        let (id, is_given) = (client.client.id.clone(), client.is_given);
        if !is_given && client.client.is_over(now) {
            return RefreshOutcome::Over(stale(&old.ended(RefreshEnd::ClientIsUnknown)));
        }
        let error = match source.refresh(old, token, client, http, now).await {
            Ok(issued) => {
                *self = Self::default();
                return RefreshOutcome::Tokens(issued.tokens);
            }
            Err(error) => error,
        };
        let issuer = &source.issuer;
        let end = match &error {
            LoginError::Refused(refusal) => match refusal.meaning() {
                RefusalMeaning::GrantIsOver => Some(RefreshEnd::GrantIsOver),
                RefusalMeaning::ClientIsUnknown if !is_given => Some(RefreshEnd::ClientIsUnknown),
                _ => None,
            },
            _ => None,
        };
        if let Some(end) = end {
            tracing::info!(issuer, %error, "a login has ended at its authorization server");
            *self = Self::default();
            return RefreshOutcome::Over(stale(&old.ended(end)));
        }
        let error = match error {
            LoginError::Refused(refusal) if refusal.meaning() == RefusalMeaning::ClientIsUnknown => {
                let error = LoginError::GivenClient { issuer: issuer.clone(), id, refusal };
                tracing::error!(%error, "tokens cannot be refreshed");
                error
            }
            error => error,
        };
        self.note(error.clone(), now);
        RefreshOutcome::Kept(error, stale(old))
    }

    fn note(&mut self, error: LoginError, now: Timestamp) {
        let backoff = match self.failures {
            0 => Duration::ZERO,
            failures => PAUSE * 2_u32.pow((failures - 1).min(MAX_DOUBLINGS)),
        };
        let pause = match error.refusal() {
            Some(refusal) if refusal.meaning() != RefusalMeaning::Passes => LONGEST_WAIT,
            Some(refusal) => refusal.retry_after.unwrap_or(backoff),
            None => backoff,
        };
        self.failures = self.failures.saturating_add(1);
        self.last = Some((error, now + pause));
    }
}

// === impl LoginError ===

impl LoginError {
    /// True if tokens that are kept after this error may be useless and a new login may help: the refusal is of no
    /// known kind, or the access token expired more than an hour ago.
    pub fn offers_login(&self, tokens: &SavedTokens, now: Timestamp) -> bool {
        if matches!(self, Self::GivenClient { .. }) {
            return false;
        }
        let is_strange = self.refusal().is_some_and(|refusal| refusal.meaning() != RefusalMeaning::Passes);
        is_strange || tokens.expires.is_some_and(|end| end + LONGEST_WAIT <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oauth_client::{kept_secret::KeptSecret, refusal::OAuthRefusal, saved_tokens::TokenGrant};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    fn refused(status: u16, code: &str, retry_after: Option<u64>) -> LoginError {
        let retry_after = retry_after.map(Duration::from_secs);
        LoginError::Refused(OAuthRefusal { status: Some(status), retry_after, ..OAuthRefusal::of_response(code, None) })
    }

    fn pauses(error: &LoginError, times: usize) -> Vec<u64> {
        let mut attempts = RefreshAttempts::default();
        let mut pause = || {
            attempts.note(error.clone(), at(0));
            attempts.last.as_ref().unwrap().1.since(at(0)).as_secs()
        };
        (0..times).map(|_| pause()).collect()
    }

    #[test]
    fn up_021_attempts_that_fail_are_made_less_and_less_often_or_as_the_server_says() {
        let down = LoginError::Unavailable("down".to_owned());
        assert_eq!(pauses(&down, 10), [0, 1, 2, 4, 8, 16, 32, 64, 64, 64]);
        assert_eq!(pauses(&refused(503, "server_error", None), 3), [0, 1, 2]);
        assert_eq!(pauses(&refused(429, "slow_down", Some(30)), 2), [30, 30]);
        assert_eq!(pauses(&refused(400, "invalid_target", None), 2), [3600, 3600]);
    }

    #[test]
    fn up_021_a_login_is_offered_where_it_may_help() {
        let tokens = SavedTokens {
            access: KeptSecret::new("a"),
            refresh: Some(KeptSecret::new("r")),
            expires: Some(at(0)),
            scope: None,
            issued: at(0),
            by: TokenGrant::RefreshToken,
            end: None,
            stepped_up: None,
        };
        let down = LoginError::Unavailable("down".to_owned());
        assert!(!down.offers_login(&tokens, at(3599)) && down.offers_login(&tokens, at(3600)));
        assert!(refused(400, "invalid_target", None).offers_login(&tokens, at(0)));
        assert!(!refused(503, "boom", None).offers_login(&tokens, at(0)));
        let refusal = OAuthRefusal::of_response("invalid_client", None);
        let given = LoginError::GivenClient { issuer: "i".to_owned(), id: "c".to_owned(), refusal };
        assert!(!given.offers_login(&tokens, at(99999)), "it cannot succeed");
    }
}
