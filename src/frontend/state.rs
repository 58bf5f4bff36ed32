//! The state that all transports share, and the sender of a message.

use std::{collections::BTreeMap, fmt, sync::Arc};

use arc_swap::ArcSwap;
use bytes::Bytes;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    frontend_settings::FrontendSettings,
    request_limits::StatelessRequests,
    sessions::{Deps, Sessions},
};
use crate::{
    mcp::Server,
    model::{BackendId, Endpoint, ReplicaNumber, Target},
    resource::Authorized,
    support::{Clock, Fence},
};

/// State of the client side.
pub(crate) struct FrontendState {
    /// Servers at the endpoints.
    pub(crate) routes: ArcSwap<Routes>,
    pub(crate) settings: FrontendSettings,
    /// Sessions of legacy clients.
    pub(crate) sessions: Sessions,
    pub(crate) clock: Arc<dyn Clock>,
    /// Requests of clients outside of sessions.
    pub(crate) requests: StatelessRequests,
    /// Owns the tasks that continue without a reader: listens, and calls whose client disconnected.
    pub(crate) tracker: TaskTracker,
    /// Cancelled when all streams must end.
    pub(crate) drained: CancellationToken,
    pub(crate) replica: ReplicaNumber,
    /// Open while this replica owns its sessions. Checked for messages that the listener does not take for answers.
    pub(crate) fence: Fence,
}

/// The sender of a message, and the endpoint it was sent to.
#[derive(Clone)]
pub(crate) struct Sender {
    /// The caller, and the lifetime of the credential.
    pub(crate) admission: Authorized,
    /// The endpoint. For `/messages`, the one of the session.
    pub(crate) endpoint: Endpoint,
    /// The servers at the endpoint.
    pub(crate) servers: Arc<EndpointServers>,
}

/// The servers at each endpoint.
#[derive(Clone)]
pub struct Routes {
    /// The servers at `/mcp` and `/sse`.
    pub merged: Arc<EndpointServers>,
    /// The servers at `/mcp/{backend}` and `/sse/{backend}`, and at the endpoints of groups.
    pub backends: BTreeMap<BackendId, Arc<EndpointServers>>,
}

/// The server of an endpoint, for each kind of client.
pub struct EndpointServers {
    /// Serves clients with a session.
    pub sessions: Arc<dyn Server>,
    /// Serves clients without a session.
    pub requests: Arc<dyn Server>,
    /// The backends behind it.
    pub behind: BehindEndpoint,
}

/// The number of backends behind an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BehindEndpoint {
    /// One, which keeps its own names.
    One,
    Many,
}

// === impl FrontendState ===

impl FrontendState {
    /// Creates the state of a gateway that has just started.
    pub(crate) fn new(routes: Routes, settings: FrontendSettings, deps: Deps) -> Self {
        let tracker = TaskTracker::new();
        let requests = StatelessRequests::new(&settings, deps.budget.clone(), deps.observer.clone());
        let users = requests.users();
        Self {
            routes: ArcSwap::from_pointee(routes),
            requests,
            clock: Arc::clone(&deps.clock),
            replica: deps.replica,
            fence: deps.fence.clone(),
            sessions: Sessions::new(deps, settings.clone(), users, tracker.clone()),
            settings,
            tracker,
            drained: CancellationToken::new(),
        }
    }
}

impl FrontendState {
    /// A copy of a request's body, in case another replica must answer it; `None` if there are no other replicas.
    pub(crate) fn kept(&self, body: &Bytes) -> Option<Bytes> {
        self.has_others().then(|| body.clone())
    }

    /// True if there are other replicas.
    pub(crate) fn has_others(&self) -> bool {
        self.replica != ReplicaNumber::SOLE
    }

    /// The servers at an endpoint; `None` if there is no such endpoint.
    pub(crate) fn servers_at(&self, target: &Target) -> Option<Arc<EndpointServers>> {
        self.routes.load().at(target).map(Arc::clone)
    }
}

// === impl Routes ===

impl Routes {
    /// The servers at an endpoint.
    pub fn at(&self, target: &Target) -> Option<&Arc<EndpointServers>> {
        match target {
            Target::Merged => Some(&self.merged),
            Target::Backend(backend) => self.backends.get(backend),
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
