//! The state that everything shares that serves clients, and the sender of a message, as every binding gives it. Knows
//! nothing of how a client is served.

use std::{collections::BTreeMap, fmt, sync::Arc};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    requests::StatelessRequests,
    sessions::{Deps, Sessions},
    settings::Settings,
};
use crate::{
    mcp::{ClientInfo, Server, translate::Profile},
    model::{BackendId, Endpoint, Target},
    resource::Admission,
    support::{Clock, Timestamp},
};

/// The state of the clients' side. Cheap to clone.
#[derive(Clone)]
pub(crate) struct FrontendState(Arc<Inner>);

/// The sender of a message, and the endpoint that it was sent to.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    /// The caller, and the lifetime of its credential.
    pub(crate) admission: Admission,
    /// The endpoint; that of `/messages` is the session's.
    pub(crate) endpoint: Endpoint,
}

/// The servers at each endpoint.
#[derive(Clone)]
pub struct Routes {
    /// At `/mcp` and `/sse`.
    pub merged: EndpointServers,
    /// At `/mcp/{backend}` and `/sse/{backend}`.
    pub backends: BTreeMap<BackendId, EndpointServers>,
}

/// The server at an endpoint, as each kind of client needs it.
#[derive(Clone)]
pub struct EndpointServers {
    /// For clients with a session.
    pub sessions: Arc<dyn Server>,
    /// For clients without one.
    pub requests: Arc<dyn Server>,
}

struct Inner {
    routes: Routes,
    settings: Settings,
    sessions: Sessions,
    clock: Arc<dyn Clock>,
    requests: StatelessRequests,
    /// Owns everything that continues without a reader: listens, and calls whose client disconnected.
    tracker: TaskTracker,
    /// Cancelled when no stream may stay open.
    drained: CancellationToken,
}

// === impl FrontendState ===

impl FrontendState {
    /// The state of a gateway that has just started.
    pub(crate) fn new(routes: Routes, settings: Settings, deps: Deps) -> Self {
        let tracker = TaskTracker::new();
        Self(Arc::new(Inner {
            routes,
            requests: StatelessRequests::new(&settings, deps.observer.clone()),
            clock: Arc::clone(&deps.clock),
            sessions: Sessions::new(deps, settings.clone(), tracker.clone()),
            settings,
            tracker,
            drained: CancellationToken::new(),
        }))
    }

    /// The servers at an endpoint.
    pub(crate) fn servers(&self, target: &Target) -> Option<&EndpointServers> {
        match target {
            Target::Merged => Some(&self.0.routes.merged),
            Target::Backend(backend) => self.0.routes.backends.get(backend),
        }
    }

    /// The sessions of legacy clients.
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    /// The present moment.
    pub(crate) fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// The requests of clients without sessions.
    pub(crate) fn requests(&self) -> &StatelessRequests {
        &self.0.requests
    }

    /// The bounds.
    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The fate of members that the client's version does not define.
    pub(crate) fn profile(&self, client: &ClientInfo) -> Profile {
        let strict = &self.0.settings.strict_clients;
        let is_strict = !strict.is_empty() && client.name().is_some_and(|name| strict.contains(&name));
        if is_strict { Profile::Strict } else { Profile::Faithful }
    }

    /// The owner of everything that continues without a reader.
    pub(crate) fn tracker(&self) -> &TaskTracker {
        &self.0.tracker
    }

    /// Cancelled when no stream may stay open.
    pub(crate) fn drained(&self) -> &CancellationToken {
        &self.0.drained
    }
}

impl fmt::Debug for FrontendState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrontendState").field("settings", self.settings()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routes").field("backends", &self.backends.keys()).finish_non_exhaustive()
    }
}
