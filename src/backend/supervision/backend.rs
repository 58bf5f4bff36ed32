//! One configured backend: a server for all users, one for each user, or the built-in one. Its whole lifecycle is here:
//! status, start, restart, clients that leave, end.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;

use super::health;
use crate::{
    backend::{
        Demo,
        context::BackendContext,
        error::StartError,
        server::{
            BackendServer,
            external_backend::ExternalBackend,
            user_servers::{PerUserServer, UserServers},
        },
        supervision,
    },
    mcp::{Server, hearers::Announcer},
    model::{
        BackendSpec, Requester, UserId,
        status::{BackendState, BackendStatus},
    },
};

pub(crate) enum Backend {
    /// One server for all users.
    Shared(Arc<ExternalBackend>),
    /// One server for each user.
    PerUser(Arc<UserServers>),
    /// The demonstration server in this process.
    BuiltIn(Arc<Demo>),
}

// === impl Backend ===

impl Backend {
    /// Starts the backend in a task group of its own, and returns at once.
    pub(crate) fn start(spec: &BackendSpec, context: BackendContext) -> Self {
        if spec.is_built_in() {
            return Self::BuiltIn(Arc::new(Demo::new(context.clock)));
        }
        if spec.is_per_user() && spec.auth.fault().is_none() {
            return Self::PerUser(UserServers::start(spec.clone(), context));
        }
        Self::Shared(supervision::start(with_own_token(spec, &context), context))
    }

    /// The backend as the gateway calls it.
    pub(crate) fn server(&self) -> Arc<dyn Server> {
        match self {
            Self::Shared(one) => Arc::new(BackendServer(Arc::clone(one))),
            Self::PerUser(users) => Arc::new(PerUserServer(Arc::clone(users))),
            Self::BuiltIn(demo) => Arc::<Demo>::clone(demo),
        }
    }

    /// How the backend notifies clients that follow all servers; `None` if each client needs a listen at the backend.
    pub(crate) fn announcer(&self) -> Option<Arc<dyn Announcer>> {
        match self {
            Self::Shared(one) => Some(Arc::<ExternalBackend>::clone(one)),
            Self::PerUser(users) => Some(Arc::new(Arc::clone(users))),
            Self::BuiltIn(_) => None,
        }
    }

    /// The status. `spec` is the configuration in use; the catalog adds the counts of lists.
    pub(crate) fn status(&self, spec: &BackendSpec) -> BackendStatus {
        match self {
            Self::Shared(one) => one.reported(),
            Self::PerUser(users) => BackendStatus { sessions: users.running().len(), ..ready(spec) },
            Self::BuiltIn(_) => BackendStatus {
                protocol_version: Some(Demo::REVISION.to_string()),
                lacks: health::lacks(Demo::REVISION),
                server: Some(format!("lockkeeper-demo {}", env!("CARGO_PKG_VERSION"))),
                ..ready(spec)
            },
        }
    }

    /// True if the server can be called, or any of the users' servers; `None` if it runs at another replica.
    pub(crate) fn is_up(&self) -> Option<bool> {
        match self {
            Self::Shared(one) => one.health.is_up(),
            Self::PerUser(users) => {
                let running = users.running();
                // with none running, a call starts one
                Some(running.is_empty() || running.iter().any(|one| one.health.is_up() != Some(false)))
            }
            Self::BuiltIn(_) => Some(true),
        }
    }

    /// Number of calls that run or wait. Calls to the built-in server do not count.
    pub(crate) fn running_calls(&self) -> usize {
        self.running().iter().map(|server| server.meters.running()).sum()
    }

    /// Probes once if the server also speaks the other era.
    pub(crate) async fn ask_for_other_era(&self) {
        if let Self::Shared(one) = self {
            one.ask_for_other_era().await;
        }
    }

    /// Ends all connections and processes, and starts them anew.
    pub(crate) async fn restart(&self) {
        join_all(self.running().iter().map(|server| server.restart())).await;
    }

    /// True if the server runs at another replica.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self, Self::Shared(one) if one.trouble() == Some(StartError::Elsewhere))
    }

    /// Waits until the first start has succeeded or failed. Servers of users start later, with a call.
    pub(crate) async fn settled(&self) {
        if let Self::Shared(one) = self {
            one.health.first_start().await;
        }
    }

    /// Drops the state of a client session that has ended, or of a client without a session that has left.
    pub(crate) fn ended(&self, requester: &Requester) {
        if let Self::BuiltIn(demo) = self {
            demo.forget(requester);
        }
        for server in self.running() {
            server.forget(requester);
        }
    }

    /// Ends the connections and servers of a user who has left, except shared ones.
    pub(crate) fn user_gone(&self, user: &UserId) {
        match self {
            Self::PerUser(users) => users.end_user(user),
            Self::Shared(server) => server.end_user(user),
            Self::BuiltIn(_) => {}
        }
    }

    /// Ends all connections and processes, and waits for a few seconds at most.
    pub(crate) async fn end(&self) {
        if let Self::PerUser(users) = self {
            users.close().await;
        }
        join_all(self.running().iter().map(|server| server.context.tasks.finish())).await;
    }

    /// Ends everything once no call runs, after `grace` at the latest, or when all backends end. New calls must no
    /// longer reach it.
    pub(crate) async fn retire(&self, grace: Duration) {
        let running = self.running();
        join_all(running.iter().map(|server| server.finish_unused(grace))).await;
        self.end().await;
    }

    /// Running servers outside the gateway.
    fn running(&self) -> Vec<Arc<ExternalBackend>> {
        match self {
            Self::Shared(one) => vec![Arc::clone(one)],
            Self::PerUser(users) => users.running(),
            Self::BuiltIn(_) => Vec::new(),
        }
    }
}

/// The status of a backend that is always ready.
fn ready(spec: &BackendSpec) -> BackendStatus {
    BackendStatus::new(spec.id.to_string(), spec.transport.name(), BackendState::Ready)
}

/// Adds the gateway's own token to the transport, if it has client credentials for this server.
fn with_own_token(spec: &BackendSpec, context: &BackendContext) -> BackendSpec {
    match context.access.of_gateway(spec) {
        Some(bearer) => BackendSpec { transport: spec.transport.clone().with_bearer(bearer), ..spec.clone() },
        None => spec.clone(),
    }
}
