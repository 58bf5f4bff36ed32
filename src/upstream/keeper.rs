//! The tokens of one user at one server: refreshed before they end and when the server rejects them (`UP-9`).

use std::time::Duration;

use parking_lot::Mutex;
use tokio::{
    sync::{Mutex as AsyncMutex, watch},
    time::{Instant, sleep, sleep_until},
};

use super::{
    account_tokens::{AccountTokens, StoredAccount},
    assertion,
    context::UpstreamContext,
    error::UpstreamError,
    identity,
    servers::ProtectedServer,
    ticket,
};
use crate::{
    model::{AccessEffect, BackendId, RenewalError, TokenRequest, TokenRequests, UserId},
    oauth_client::{
        AuthenticatedClient, BearerChallenge, RefreshAttempts, RefreshEnd, RefreshOutcome, RefreshReason, TokenGrant,
        covers, lists_issuer, union,
    },
    support::Timestamp,
};

/// A rejected token up to this age counts as just issued: another would be rejected too.
const JUST_ISSUED: Duration = Duration::from_secs(30);
/// Delay before a just issued token is sent again after a rejection.
const REPEAT_AFTER: Duration = Duration::from_secs(1);
/// Delay before a refresh is retried.
const RETRY: Duration = Duration::from_mins(1);

pub(super) struct Keeper {
    pub(super) context: UpstreamContext,
    pub(super) server: ProtectedServer,
    pub(super) state: std::sync::Arc<KeeperState>,
}

/// State shared by all keepers of the same tokens.
pub(super) struct KeeperState {
    user: UserId,
    backend: BackendId,
    /// One refresh at a time.
    refreshing: AsyncMutex<RefreshAttempts>,
    logins: watch::Sender<u64>,
    wanted: Mutex<Option<String>>,
    /// Time when a token was last sent again because it was just issued.
    repeated: Mutex<Option<Timestamp>>,
}

// === impl KeeperState ===

impl KeeperState {
    pub(super) fn new(user: UserId, backend: BackendId) -> Self {
        let (refreshing, logins) = (AsyncMutex::default(), watch::Sender::new(0));
        Self { user, backend, refreshing, logins, wanted: Mutex::default(), repeated: Mutex::default() }
    }

    /// The token's scopes and the further ones that the server has asked for; `None` if it has asked for none.
    pub(super) fn wanted(&self) -> Option<String> {
        self.wanted.lock().clone()
    }

    /// Notes that the user has logged in again.
    pub(super) fn logged_in(&self) {
        *self.wanted.lock() = None;
        self.logins.send_modify(|logins| *logins += 1);
    }

    /// True if a just issued token should be sent again: at most once per [`JUST_ISSUED`].
    fn repeats(&self, now: Timestamp) -> bool {
        let mut repeated = self.repeated.lock();
        let is_first = repeated.is_none_or(|at| now.since(at) >= JUST_ISSUED);
        if is_first {
            *repeated = Some(now);
        }
        is_first
    }

    fn place(&self) -> (&UserId, &BackendId) {
        (&self.user, &self.backend)
    }
}

// === impl Keeper ===

impl Keeper {
    /// Answers requests for tokens until nobody needs them any more.
    pub(super) async fn run(self, mut stored: StoredAccount, mut requests: TokenRequests) {
        let mut logins = self.state.logins.subscribe();
        let mut not_before = Instant::now();
        loop {
            requests.set(stored.access());
            let refresh_at = self.refresh_at(&stored).map(|at| at.max(not_before));
            tokio::select! {
                request = requests.recv() => {
                    let Some(request) = request else { return };
                    let outcome = self.renew(&mut stored, &request).await;
                    requests.set(stored.access());
                    request.answer(outcome);
                }
                _ = logins.changed() => {
                    if let Ok(Some(newer)) = self.load().await {
                        stored = newer;
                    }
                }
                () = at(refresh_at) => {
                    not_before = Instant::now() + RETRY;
                    if let Err(error) = self.refresh_early(&mut stored).await {
                        let (user, backend) = self.state.place();
                        tracing::warn!(%user, server = %backend, %error, "a user's token was not refreshed");
                    }
                }
            }
        }
    }

    fn refresh_at(&self, stored: &StoredAccount) -> Option<Instant> {
        Some(Instant::now() + stored.account.tokens.refresh_at()?.since(self.context.now()))
    }

    /// Replaces the rejected token: by a newer login's, or by a refresh. A just issued token is first sent again.
    async fn renew(&self, stored: &mut StoredAccount, request: &TokenRequest) -> Result<(), RenewalError> {
        let mut attempts = self.state.refreshing.lock().await;
        *stored = self.load().await.map_err(|error| failed(&error))?.ok_or_else(|| self.login_required())?;
        let (challenge, now) = (BearerChallenge::of(&request.challenges), self.context.now());
        let tokens = &stored.account.tokens;
        if !request.is_open(Some(tokens.access.secret())) && !tokens.is_over(now) {
            return Ok(());
        }
        if challenge.asks_for_more() {
            return Err(self.step_up(stored, challenge.wanted()));
        }
        let is_just_issued = now.since(tokens.issued) < JUST_ISSUED && !tokens.is_over(now);
        if is_just_issued && self.state.repeats(now) {
            // the server may not know it yet
            sleep(REPEAT_AFTER).await;
            return Ok(());
        }
        if tokens.by == TokenGrant::RefreshToken && is_just_issued {
            return Err(self.rejects_new_tokens(stored, now));
        }
        if self.has_left(stored, &challenge).await {
            return Err(self.login_required());
        }
        self.refresh(stored, &mut attempts, RefreshReason::Rejected).await
    }

    /// Handles a server's request for scopes beyond the token's. If a login has requested the scope and did not get it,
    /// the user gets an explanation, since another login would lead here again.
    fn step_up(&self, stored: &StoredAccount, wanted: &str) -> RenewalError {
        let (tokens, (user, backend)) = (&stored.account.tokens, self.state.place());
        let scope = union(tokens.scope.as_deref(), Some(wanted));
        let named = if wanted.is_empty() { "further scopes".to_owned() } else { format!("the scope `{wanted:.200}`") };
        if tokens.stepped_up.is_some() && covers(tokens.stepped_up.as_deref(), wanted) {
            let page = ticket::address(&self.context, user, backend, Some(scope));
            return RenewalError::Failed(format!(
                "{backend} asks for {named}, which {} did not grant when your account was connected again for it. To ask \
                 again, open {page}",
                stored.account.source.issuer
            ));
        }
        *self.state.wanted.lock() = Some(scope);
        RenewalError::LoginRequired(format!("{backend} asks for {named} of the user"))
    }

    /// True if the server no longer names the authorization server of the login, unless the operator has configured it.
    /// A failed fetch proves nothing. The tokens stay, since the server may return to it.
    async fn has_left(&self, stored: &StoredAccount, challenge: &BearerChallenge) -> bool {
        let (issuer, server) = (&stored.account.source.issuer, self.server.target());
        if server.settings.issuer.is_some() {
            return false;
        }
        let Ok(http) = self.server.http(&self.context) else { return false };
        let is_listed = lists_issuer(&http, server, challenge, issuer).await;
        if is_listed != Some(false) {
            return false;
        }
        let (user, backend) = self.state.place();
        tracing::warn!(%user, server = %backend, issuer, "a server no longer names the authorization server of a user's login");
        self.context.discoveries.forget(backend);
        true
    }

    /// Handles a server that rejects a just refreshed token. Another login may help. Right after a login it would lead
    /// here again, so the person gets an explanation and decides.
    fn rejects_new_tokens(&self, stored: &StoredAccount, now: Timestamp) -> RenewalError {
        let (user, backend) = self.state.place();
        if now.since(stored.row.connected) >= JUST_ISSUED {
            return RenewalError::LoginRequired(format!("{backend} rejects a token that was just refreshed"));
        }
        let page = ticket::address(&self.context, user, backend, None);
        RenewalError::Failed(format!(
            "{backend} rejects the token of your new login there, and the one that a refresh gave: it does not accept what \
             {} issues for this account. Check that the account has access to {backend}, or connect another one: {page}",
            stored.account.source.issuer
        ))
    }

    async fn refresh_early(&self, stored: &mut StoredAccount) -> Result<(), RenewalError> {
        let mut attempts = self.state.refreshing.lock().await;
        let newer = self.load().await.map_err(|error| failed(&error))?.ok_or_else(|| self.login_required())?;
        let is_other = newer.row.version != stored.row.version;
        *stored = newer;
        if is_other { Ok(()) } else { self.refresh(stored, &mut attempts, RefreshReason::Ends).await }
    }

    /// Refreshes the tokens. The old ones stay until new ones replace them, even if the authorization server fails.
    async fn refresh(
        &self,
        stored: &mut StoredAccount,
        attempts: &mut RefreshAttempts,
        reason: RefreshReason,
    ) -> Result<(), RenewalError> {
        let AccountTokens { source, client, tokens, .. } = stored.account.clone();
        let identity = identity::configured(&self.server.client).map_err(|error| failed(&error))?;
        let is_given = identity.as_ref().is_some_and(|identity| identity.is(&identity.current(&client)));
        let client = identity.map_or_else(|| client.clone(), |identity| identity.current(&client));
        let proven = assertion::authenticated(&self.context, &client, &source).map_err(|error| failed(&error))?;
        let proven = AuthenticatedClient { is_given, ..proven };
        let http = self.server.http(&self.context).map_err(|error| failed(&error.into()))?;
        let now = self.context.now();
        match attempts.refresh(&source, &tokens, reason, proven, &http, now).await {
            RefreshOutcome::Tokens(refreshed) => {
                let is_kept = stored.replace(&self.context, refreshed).await.map_err(|error| failed(&error))?;
                if is_kept { Ok(()) } else { Err(self.login_required()) }
            }
            RefreshOutcome::Over(marked) => {
                let end = marked.end;
                stored.mark(&self.context, marked).await.map_err(|error| failed(&error))?;
                if end == Some(RefreshEnd::ClientIsUnknown) {
                    let forgotten = identity::forget(&self.context, &self.state.backend, &source.issuer).await;
                    forgotten.map_err(|error| failed(&error))?;
                }
                if stored.need_login(&self.context) {
                    self.context.announce(&self.state.user, &self.state.backend, AccessEffect::Ended);
                }
                Err(self.login_required())
            }
            RefreshOutcome::Kept(error, rejected) => {
                let (user, backend) = self.state.place();
                tracing::warn!(%user, server = %backend, %error, "a user's tokens are kept, and cannot be refreshed now");
                let offers_login = error.offers_login(&rejected, now);
                stored.mark(&self.context, rejected).await.map_err(|error| failed(&error))?;
                let text = if offers_login {
                    let page = ticket::address(&self.context, user, backend, None);
                    format!("{error}. If that stays so, connect your account at {backend} again: {page}")
                } else {
                    error.to_string()
                };
                Err(RenewalError::Failed(text))
            }
        }
    }

    async fn load(&self) -> Result<Option<StoredAccount>, UpstreamError> {
        let (user, backend) = self.state.place();
        StoredAccount::load(&self.context, user, backend, &self.server).await
    }

    fn login_required(&self) -> RenewalError {
        RenewalError::LoginRequired(format!("{} asks for a login of the user", self.state.backend))
    }
}

fn failed(error: &UpstreamError) -> RenewalError {
    RenewalError::Failed(error.to_string())
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
