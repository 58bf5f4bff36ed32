//! Logins that last as long as their provider says so (`session = "bound"`, `UP-14`): it is asked again and again. Knows
//! nothing of tokens.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio_util::sync::CancellationToken;

use super::state::WebState;
use crate::{oauth::OAuthError, openid::Renewal, storage::BoundLogin};

/// Time between two questions about one login.
pub(super) const INTERVAL: Duration = Duration::from_mins(5);
/// Interval between look-ups of logins that are due.
const ROUND: Duration = Duration::from_secs(15);
/// Maximum number of logins in a round, and of questions at once.
const BATCH: u32 = 64;
const AT_ONCE: usize = 8;

impl WebState {
    /// Asks providers about the logins that are due, until `cancel`. Run it on the app's task tracker.
    pub async fn keep_logins_bound(self, cancel: CancellationToken) {
        let mut timer = tokio::time::interval(ROUND);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while cancel.run_until_cancelled(timer.tick()).await.is_some() {
            let round = cancel.run_until_cancelled(self.renew_logins()).await;
            if let Some(Err(error)) = round {
                tracing::warn!(%error, "bound logins could not be renewed; next try in 15 s");
            }
        }
    }

    /// One round. Returns the number of logins that ended.
    pub async fn renew_logins(&self) -> Result<usize, OAuthError> {
        let now = self.clock.now();
        let due = self.storage.provider_logins().take_due(now, now + INTERVAL, BATCH).await?;
        let questions = stream::iter(due).map(|login| async move { self.renew(&login).await });
        let outcomes: Vec<Result<bool, OAuthError>> = questions.buffer_unordered(AT_ONCE).collect().await;
        let mut ended = 0;
        for outcome in outcomes {
            ended += usize::from(outcome?);
        }
        Ok(ended)
    }

    /// Asks about one login. Returns true if it ended. A provider that cannot be asked ends nothing.
    async fn renew(&self, login: &BoundLogin) -> Result<bool, OAuthError> {
        let logins = self.storage.provider_logins();
        match self.providers.renew(&login.issuer, &login.refresh_token).await {
            Ok(Renewal::Continued(token)) => logins.replace_token(login, &token).await?,
            Ok(Renewal::Ended) if logins.unbind(login).await? => {
                self.oauth.keys().log_out_account(&login.key, &login.issuer).await?;
                return Ok(true);
            }
            // a newer login has taken its place
            Ok(Renewal::Ended) => {}
            Err(error) => {
                tracing::warn!(key = %login.key, issuer = login.issuer, %error, "a bound login could not be renewed; next try in 5 min");
            }
        }
        Ok(false)
    }
}
