//! The tokens of one user at one server: refreshed before they end and when the server rejects them (`UP-9`). Knows
//! nothing of the requests that use them.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::{
    sync::{Mutex as AsyncMutex, watch},
    time::{Instant, sleep_until},
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
    oauth_client::{BearerChallenge, Discovered, TokenGrant, TokenSource, discover, is_same},
    support::Timestamp,
};

/// Age up to which a rejected token counts as just issued: another of the same kind would be rejected too.
const JUST_ISSUED: Duration = Duration::from_secs(30);
/// Time before a refresh is tried again.
const RETRY: Duration = Duration::from_mins(1);

/// Keeps the tokens.
pub(super) struct Keeper {
    pub(super) context: UpstreamContext,
    pub(super) server: ProtectedServer,
    pub(super) state: std::sync::Arc<KeeperState>,
}

/// State that all keepers of the same tokens share.
pub(super) struct KeeperState {
    user: UserId,
    backend: BackendId,
    /// One refresh at a time.
    refreshing: AsyncMutex<()>,
    /// Counts the logins.
    logins: watch::Sender<u64>,
    wanted: Mutex<Option<String>>,
}

// === impl KeeperState ===

impl KeeperState {
    pub(super) fn new(user: UserId, backend: BackendId) -> Self {
        let (refreshing, logins) = (AsyncMutex::default(), watch::Sender::new(0));
        Self { user, backend, refreshing, logins, wanted: Mutex::default() }
    }

    /// The scopes that the server has asked for beyond those of the token, with those of the token.
    pub(super) fn wanted(&self) -> Option<String> {
        self.wanted.lock().clone()
    }

    /// Notes that the user has logged in again.
    pub(super) fn logged_in(&self) {
        *self.wanted.lock() = None;
        self.logins.send_modify(|logins| *logins += 1);
    }

    fn place(&self) -> (&UserId, &BackendId) {
        (&self.user, &self.backend)
    }
}

// === impl Keeper ===

impl Keeper {
    /// Answers requests for tokens until nobody needs any.
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

    /// A token other than the rejected one: that of a login meanwhile, or a refreshed one.
    async fn renew(&self, stored: &mut StoredAccount, request: &TokenRequest) -> Result<(), RenewalError> {
        let _refreshing = self.state.refreshing.lock().await;
        *stored = self.load().await.map_err(|error| failed(&error))?.ok_or_else(|| self.login_required())?;
        let (challenge, now) = (BearerChallenge::of(&request.challenges), self.context.now());
        let tokens = &stored.account.tokens;
        if !request.is_open(Some(tokens.access.secret())) && !tokens.is_over(now) {
            return Ok(());
        }
        if challenge.asks_for_more() {
            let scope = union(tokens.scope.as_deref(), challenge.scope.as_deref());
            *self.state.wanted.lock() = Some(scope);
            let backend = &self.state.backend;
            return Err(RenewalError::LoginRequired(format!("{backend} asks for further permissions of the user")));
        }
        if tokens.by == TokenGrant::RefreshToken && now.since(tokens.issued) < JUST_ISSUED && !tokens.is_over(now) {
            return Err(self.rejects_new_tokens(stored, now));
        }
        if self.has_moved(stored, &challenge).await {
            return Err(self.end(stored).await);
        }
        self.refresh(stored).await
    }

    /// The server rejects a token that was just refreshed. Another login may help; after a new one it would lead here again,
    /// so the person is told, and decides.
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
        let _refreshing = self.state.refreshing.lock().await;
        let newer = self.load().await.map_err(|error| failed(&error))?.ok_or_else(|| self.login_required())?;
        let is_other = newer.row.version != stored.row.version;
        *stored = newer;
        if is_other { Ok(()) } else { self.refresh(stored).await }
    }

    /// Refreshes the tokens. They are given up only if the authorization server says that they have ended.
    async fn refresh(&self, stored: &mut StoredAccount) -> Result<(), RenewalError> {
        let AccountTokens { source, client, tokens, .. } = stored.account.clone();
        let Some(token) = &tokens.refresh else { return Err(self.login_required()) };
        let proven = assertion::authenticated(&self.context, &client, &source).map_err(|error| failed(&error))?;
        let http = self.server.http(&self.context);
        let refreshed = source.refresh((&http, self.context.now()), proven, (&tokens, token)).await;
        let error = match refreshed.map_err(UpstreamError::from) {
            Ok(refreshed) => {
                let is_kept = stored.replace(&self.context, refreshed).await.map_err(|error| failed(&error))?;
                return if is_kept { Ok(()) } else { Err(self.login_required()) };
            }
            Err(error) => error,
        };
        let (user, backend) = self.state.place();
        match error.refusal() {
            Some("invalid_grant") => {
                tracing::info!(%user, server = %backend, "the tokens of a user have ended at their authorization server");
                let forgotten = self.context.storage.upstream_tokens().forget(&stored.row).await;
                forgotten.map_err(|error| failed(&error.into()))?;
                self.context.announce(self.state.place(), AccessEffect::Ended);
                Err(self.login_required())
            }
            Some("invalid_client" | "unauthorized_client") => {
                identity::forget(&self.context, backend, &source.issuer).await.map_err(|error| failed(&error))?;
                Err(self.login_required())
            }
            _ => Err(failed(&error)),
        }
    }

    /// True if the server now names another authorization server, or another resource. What cannot be fetched proves
    /// nothing.
    async fn has_moved(&self, stored: &StoredAccount, challenge: &BearerChallenge) -> bool {
        let found = discover(&self.server.http(&self.context), self.server.target(), challenge).await;
        let source = &stored.account.source;
        found.is_ok_and(|found| found.server.issuer != source.issuer || !is_same_resource(&found, source))
    }

    /// Ends tokens of an authorization server, or for a resource, that the server has no more.
    async fn end(&self, stored: &StoredAccount) -> RenewalError {
        let (user, backend) = self.state.place();
        tracing::warn!(%user, server = %backend, "a server names another authorization server or resource: the user's tokens end");
        self.context.discoveries.forget(backend);
        let ended = async {
            self.context.storage.upstream_tokens().delete(user, backend).await?;
            identity::forget(&self.context, backend, &stored.row.issuer).await
        };
        match ended.await {
            Ok(()) => self.login_required(),
            Err(error) => failed(&error),
        }
    }

    async fn load(&self) -> Result<Option<StoredAccount>, UpstreamError> {
        let (user, backend) = self.state.place();
        StoredAccount::load(&self.context, (user, backend, &self.server)).await
    }

    fn login_required(&self) -> RenewalError {
        RenewalError::LoginRequired(format!("{} asks for a login of the user", self.state.backend))
    }
}

fn is_same_resource(found: &Discovered, source: &TokenSource) -> bool {
    match (&found.resource, &source.resource) {
        (Some(found), Some(known)) => is_same(found, known),
        (found, known) => found == known,
    }
}

/// The scopes of both, each once.
fn union(granted: Option<&str>, asked: Option<&str>) -> String {
    let mut scopes: Vec<&str> = Vec::new();
    for scope in [granted, asked].into_iter().flatten().flat_map(str::split_ascii_whitespace) {
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    scopes.join(" ")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_003_a_step_up_asks_for_the_scopes_of_the_token_too() {
        assert_eq!(union(Some("a b"), Some("b c")), "a b c");
        assert_eq!(union(None, Some("c")), "c");
    }
}
