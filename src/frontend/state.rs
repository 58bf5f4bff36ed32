//! The state that everything shares that serves clients, and the sender of a message, as every binding gives it. Knows
//! nothing of how a client is served.

use std::{collections::BTreeMap, fmt, sync::Arc};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    frontend_settings::FrontendSettings,
    requests::StatelessRequests,
    sessions::{Deps, Sessions},
};
use crate::{
    mcp::Server,
    model::{BackendId, Endpoint},
    resource::Authorized,
    support::Clock,
};

/// The state of the clients' side.
pub(crate) struct FrontendState {
    /// The servers.
    pub(crate) routes: Routes,
    /// The bounds.
    pub(crate) settings: FrontendSettings,
    /// The sessions of legacy clients.
    pub(crate) sessions: Sessions,
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
    /// The requests of clients without sessions.
    pub(crate) requests: StatelessRequests,
    /// The owner of everything that continues without a reader: listens, and calls whose client disconnected.
    pub(crate) tracker: TaskTracker,
    /// Cancelled when no stream may stay open.
    pub(crate) drained: CancellationToken,
}

/// The sender of a message, and the endpoint that it was sent to.
#[derive(Clone)]
pub(crate) struct Sender {
    /// The caller, and the lifetime of its credential.
    pub(crate) admission: Authorized,
    /// The endpoint; that of `/messages` is the session's.
    pub(crate) endpoint: Endpoint,
    /// The servers at the endpoint.
    pub(crate) servers: Arc<EndpointServers>,
}

/// The servers at each endpoint.
#[derive(Clone)]
pub struct Routes {
    /// At `/mcp` and `/sse`.
    pub merged: Arc<EndpointServers>,
    /// At `/mcp/{backend}` and `/sse/{backend}`.
    pub backends: BTreeMap<BackendId, Arc<EndpointServers>>,
}

/// The server at an endpoint, as each kind of client needs it.
pub struct EndpointServers {
    /// For clients with a session.
    pub sessions: Arc<dyn Server>,
    /// For clients without one.
    pub requests: Arc<dyn Server>,
}

// === impl FrontendState ===

impl FrontendState {
    /// The state of a gateway that has just started.
    pub(crate) fn new(routes: Routes, settings: FrontendSettings, deps: Deps) -> Self {
        let tracker = TaskTracker::new();
        Self {
            routes,
            requests: StatelessRequests::new(&settings, deps.observer.clone()),
            clock: Arc::clone(&deps.clock),
            sessions: Sessions::new(deps, settings.clone(), tracker.clone()),
            settings,
            tracker,
            drained: CancellationToken::new(),
        }
    }
}

impl fmt::Debug for FrontendState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrontendState").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { admission, endpoint, servers: _ } = self;
        f.debug_struct("Sender").field("admission", admission).field("endpoint", endpoint).finish_non_exhaustive()
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routes").field("backends", &self.backends.keys()).finish_non_exhaustive()
    }
}
