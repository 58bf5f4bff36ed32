//! Accounts of login providers between logins (`UP-14`, `UP-31`): the gateway asks every provider that issued a refresh
//! token whether it still vouches for the person, and ends accounts that stay unconfirmed for too long.

use std::{collections::BTreeMap, time::Duration};

use futures_util::{StreamExt as _, stream};
use tokio_util::sync::CancellationToken;

use super::state::WebState;
use crate::{
    model::{AssertedRights, KeyAccount, KeyKind, LoginProvider},
    oauth::{ClaimedAddress, OAuthError},
    openid::{Renewal, RenewedClaims},
    storage::BoundLogin,
};

/// Delay before a provider that did not answer is asked again.
const AGAIN: Duration = Duration::from_mins(5);
/// Interval between look-ups of due logins.
const ROUND: Duration = Duration::from_secs(15);
/// Maximum number of logins in a round.
const BATCH: u32 = 64;
/// Maximum number of logins asked about at once.
const AT_ONCE: usize = 8;
/// Period of trust in an issuer that is no longer configured as a provider.
const FORMER_TRUST: Duration = Duration::from_hours(7 * 24);

impl WebState {
    /// Asks providers about due logins, and ends unconfirmed accounts, until `cancel`. Run it on the app's task
    /// tracker.
    pub async fn keep_logins_confirmed(self, cancel: CancellationToken) {
        let mut former: Option<Vec<String>> = None;
        let mut timer = tokio::time::interval(ROUND);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while cancel.run_until_cancelled(timer.tick()).await.is_some() {
            let round = async {
                self.renew_logins().await?;
                if former.is_none() {
                    former = Some(self.storage.provider_logins().issuers().await?);
                }
                self.end_unconfirmed(former.as_deref().unwrap_or_default()).await
            };
            if let Some(Err(error)) = cancel.run_until_cancelled(round).await {
                tracing::warn!(%error, "accounts of login providers could not be checked; next try in 15 s");
            }
        }
    }

    /// Logs out accounts that were not confirmed for as long as their issuer is trusted: the issuers of the providers,
    /// and these others. Returns the number of accounts.
    pub async fn end_unconfirmed(&self, issuers: &[String]) -> Result<usize, OAuthError> {
        let mut trust: BTreeMap<&str, Duration> = issuers.iter().map(|issuer| (&**issuer, FORMER_TRUST)).collect();
        trust.extend(self.providers.specs().map(|spec| (&*spec.issuer, spec.trust)));
        let mut ended = 0;
        for (issuer, trust) in trust {
            ended += self.oauth.keys().end_unconfirmed(issuer, trust).await?;
        }
        Ok(ended)
    }

    /// Asks the providers about the logins that are due, once. Returns the number of logins that ended.
    pub async fn renew_logins(&self) -> Result<usize, OAuthError> {
        let now = self.clock.now();
        let due = self.storage.provider_logins().take_due(now, now + AGAIN, BATCH).await?;
        let questions = stream::iter(due).map(|login| async move { self.renew(&login).await });
        let outcomes: Vec<Result<bool, OAuthError>> = questions.buffer_unordered(AT_ONCE).collect().await;
        let mut ended = 0;
        for outcome in outcomes {
            ended += usize::from(outcome?);
        }
        Ok(ended)
    }

    /// Asks the provider about one login. Returns true if the login ended. It stays if the provider cannot be asked.
    async fn renew(&self, login: &BoundLogin) -> Result<bool, OAuthError> {
        let (logins, keys) = (self.storage.provider_logins(), self.oauth.keys());
        let Some(KeyKind::Account(KeyAccount::Provider { issuer, subject })) =
            keys.find(&login.key).await?.map(|key| key.kind)
        else {
            return Ok(false);
        };
        match self.providers.renew(&issuer, &subject, &login.refresh_token).await {
            Ok(Renewal::Continued { token, claims }) => {
                let every = self.providers.of_issuer(&issuer).map_or(AGAIN, LoginProvider::asked_every);
                logins.replace_token(login, &token, self.clock.now() + every).await?;
                self.confirm(login, &subject, claims).await
            }
            Ok(Renewal::Ended) if logins.unbind(login).await? => {
                keys.log_out_account(&login.key, &issuer).await?;
                Ok(true)
            }
            // a newer login has replaced it
            Ok(Renewal::Ended) => Ok(false),
            Err(error) => {
                tracing::warn!(key = %login.key, issuer, %error, "a provider did not say whether it still knows a person; it is asked again in 5 min");
                Ok(false)
            }
        }
    }

    /// Records that the provider vouches for a person, with the rights from its answer. An answer without a claim that
    /// rights depend on confirms nothing, since the person may have lost them: the account then lasts as long as
    /// `trust` allows. Returns true if no rule lets the person in any more, which logs the account out.
    async fn confirm(
        &self,
        login: &BoundLogin,
        subject: &str,
        claims: Option<RenewedClaims>,
    ) -> Result<bool, OAuthError> {
        let keys = self.oauth.keys();
        let Some(RenewedClaims { email, rights }) = claims else {
            keys.reconfirm(&login.key, None).await?;
            return Ok(false);
        };
        let AssertedRights::Known(by_tables) = rights else { return Ok(false) };
        let address = email.as_deref().map_or(ClaimedAddress::Unsaid, ClaimedAddress::Verified);
        let given = keys.rights_of_person(&login.issuer, subject, address, by_tables).await?;
        match &given {
            Some(_) => keys.reconfirm(&login.key, given.as_ref()).await?,
            None => keys.log_out_account(&login.key, &login.issuer).await?,
        }
        Ok(given.is_none())
    }
}
