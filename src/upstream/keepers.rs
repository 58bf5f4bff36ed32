//! The running keepers of users' tokens.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    account_tokens::StoredAccount,
    context::UpstreamContext,
    error::UpstreamError,
    keeper::{Keeper, KeeperState},
    own_tokens,
    servers::ProtectedServer,
};
use crate::model::{AccessEffect, BackendId, BackendSpec, Bearer, UserId};

pub(super) struct Keepers {
    context: UpstreamContext,
    states: Mutex<HashMap<(UserId, BackendId), Weak<KeeperState>>>,
    tracker: TaskTracker,
    cancel: CancellationToken,
}

// === impl Keepers ===

impl Keepers {
    pub(super) fn new(context: UpstreamContext, tracker: TaskTracker, cancel: CancellationToken) -> Self {
        Self { context, states: Mutex::default(), tracker, cancel }
    }

    /// The token of a user at a server, kept fresh while in use; `None` if the user has to log in there first.
    pub(super) async fn open(&self, user: &UserId, spec: &BackendSpec) -> Result<Option<Bearer>, UpstreamError> {
        let Some(server) = ProtectedServer::of(spec) else { return Ok(None) };
        let stored = StoredAccount::load(&self.context, user, &spec.id, &server).await?;
        let Some(stored) = stored.filter(|stored| !stored.need_login(&self.context)) else { return Ok(None) };
        let state = self.state(user, &spec.id);
        let keeper = Keeper { context: self.context.clone(), server, state };
        let (bearer, requests) = Bearer::new();
        requests.set(stored.access());
        let cancel = self.cancel.clone();
        self.tracker.spawn(async move { cancel.run_until_cancelled(keeper.run(stored, requests)).await });
        Ok(Some(bearer))
    }

    /// The gateway's own token at a server, if it has client credentials there.
    pub(super) fn of_gateway(&self, spec: &BackendSpec) -> Option<Bearer> {
        let (bearer, requests) = Bearer::new();
        let keeping = own_tokens::keep(self.context.clone(), spec, requests)?;
        let cancel = self.cancel.clone();
        self.tracker.spawn(async move { cancel.run_until_cancelled(keeping).await });
        Some(bearer)
    }

    /// The scopes for the next login, if the server has asked for more than those of the user's token.
    pub(super) fn wanted(&self, user: &UserId, backend: &BackendId) -> Option<String> {
        self.running(user, backend)?.wanted()
    }

    /// Switches running keepers to the tokens of a new login.
    pub(super) fn logged_in(&self, user: &UserId, backend: &BackendId) {
        if let Some(state) = self.running(user, backend) {
            state.logged_in();
        }
        self.context.announce(user, backend, AccessEffect::Kept);
    }

    fn running(&self, user: &UserId, backend: &BackendId) -> Option<Arc<KeeperState>> {
        self.states.lock().get(&(user.clone(), backend.clone()))?.upgrade()
    }

    /// The state shared by all keepers of these tokens: an earlier one may still be running.
    fn state(&self, user: &UserId, backend: &BackendId) -> Arc<KeeperState> {
        let key = (user.clone(), backend.clone());
        let mut states = self.states.lock();
        if let Some(state) = states.get(&key).and_then(Weak::upgrade) {
            return state;
        }
        states.retain(|_, state| state.strong_count() > 0);
        let state = Arc::new(KeeperState::new(user.clone(), backend.clone()));
        states.insert(key, Arc::downgrade(&state));
        state
    }
}
