//! Access to servers that require something first, from each user or from the gateway: a login, a secret.

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;
use tokio::sync::broadcast;

use super::{BackendId, BackendSpec, Bearer, UserId};

/// Changes that wait for a slow reader, which treats a loss as a change of everything.
const BEHIND: usize = 256;

/// Access to servers. Clones share it.
#[derive(Clone)]
pub struct ServerAccess {
    of_user: Arc<OfUser>,
    of_gateway: Arc<OfGateway>,
    page: Arc<PageOf>,
    changes: AccessChanges,
}

/// Announces changes of access.
pub type AccessChanges = broadcast::Sender<AccessChange>;

type OfUser = dyn Fn(UserId, Arc<BackendSpec>) -> BoxFuture<'static, Result<Option<BackendSpec>, String>> + Send + Sync;
type OfGateway = dyn Fn(&BackendSpec) -> Option<Bearer> + Send + Sync;
type PageOf = dyn Fn(&UserId, &BackendId) -> AccessPage + Send + Sync;

/// The page where a user supplies what a server needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessPage {
    pub url: String,
    /// The reason, for people.
    pub message: String,
}

/// A change of a user's access to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessChange {
    pub user: UserId,
    pub backend: BackendId,
    /// Effect on open connections.
    pub effect: AccessEffect,
}

/// Effect of a change on open connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessEffect {
    Kept,
    Ended,
}

// === impl ServerAccess ===

impl ServerAccess {
    /// Access from these sources. `of_user` returns the server for one user, or `None` if the user has not supplied
    /// what it needs; `of_gateway` the token of the gateway at a server with client credentials; `page` the page for a
    /// user.
    pub fn new(
        of_user: impl Fn(UserId, Arc<BackendSpec>) -> BoxFuture<'static, Result<Option<BackendSpec>, String>>
        + Send
        + Sync
        + 'static,
        of_gateway: impl Fn(&BackendSpec) -> Option<Bearer> + Send + Sync + 'static,
        page: impl Fn(&UserId, &BackendId) -> AccessPage + Send + Sync + 'static,
        changes: AccessChanges,
    ) -> Self {
        Self { of_user: Arc::new(of_user), of_gateway: Arc::new(of_gateway), page: Arc::new(page), changes }
    }

    /// No access to such servers: there are no users and no pages.
    pub fn none() -> Self {
        let refused = "this server needs something of each user: run the gateway as `lockkeeper serve`, or reach the \
                       server by `lockkeeper connect`";
        Self::new(
            move |_, _| Box::pin(async move { Err(refused.to_owned()) }),
            |_| None,
            move |_, _| AccessPage { url: String::new(), message: refused.to_owned() },
            Self::announcer(),
        )
    }

    /// The server for one user; `None` if the user has not supplied what it needs.
    ///
    /// # Errors
    ///
    /// The reason, if that cannot be determined.
    pub async fn of_user(&self, user: &UserId, spec: &Arc<BackendSpec>) -> Result<Option<BackendSpec>, String> {
        (self.of_user)(user.clone(), Arc::clone(spec)).await
    }

    /// The token of the gateway at a server; `None` if the server has no client credentials.
    pub fn of_gateway(&self, spec: &BackendSpec) -> Option<Bearer> {
        (self.of_gateway)(spec)
    }

    /// The page where a user supplies what a server needs.
    pub fn page(&self, user: &UserId, backend: &BackendId) -> AccessPage {
        (self.page)(user, backend)
    }

    /// Announces changes to code that connects to servers.
    pub fn announcer() -> AccessChanges {
        broadcast::Sender::new(BEHIND)
    }

    /// The changes from now on.
    pub fn changes(&self) -> broadcast::Receiver<AccessChange> {
        self.changes.subscribe()
    }
}

impl fmt::Debug for ServerAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerAccess")
    }
}
