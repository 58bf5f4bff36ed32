//! One configured backend: a server for everybody, one for each user, or the built-in one. Its life is here, and nowhere else:
//! status, start, the end of clients, its own end.

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

/// One configured backend.
pub(crate) enum Backend {
    /// A server for everybody.
    Shared(Arc<ExternalBackend>),
    /// A server for each user.
    PerUser(Arc<UserServers>),
    /// The built-in server.
    BuiltIn(Arc<Demo>),
}

// === impl Backend ===

impl Backend {
    /// Starts the backend without waiting for it, with tasks of its own.
    pub(crate) fn start(spec: &BackendSpec, context: BackendContext) -> Self {
        if spec.is_built_in() {
            return Self::BuiltIn(Arc::new(Demo::new(context.clock)));
        }
        if spec.is_per_user() && spec.auth.fault().is_none() {
            return Self::PerUser(UserServers::start(spec.clone(), context));
        }
        Self::Shared(supervision::start(with_own_token(spec, &context), context))
    }

    /// The backend as a server.
    pub(crate) fn server(&self) -> Arc<dyn Server> {
        match self {
            Self::Shared(one) => Arc::new(BackendServer(Arc::clone(one))),
            Self::PerUser(users) => Arc::new(PerUserServer(Arc::clone(users))),
            Self::BuiltIn(demo) => Arc::<Demo>::clone(demo),
        }
    }

    /// The way in which it tells clients; `None` if each has to listen at it.
    pub(crate) fn announcer(&self) -> Option<Arc<dyn Announcer>> {
        match self {
            Self::Shared(one) => Some(Arc::<ExternalBackend>::clone(one)),
            Self::PerUser(users) => Some(Arc::new(Arc::clone(users))),
            Self::BuiltIn(_) => None,
        }
    }

    /// Its status, with this configuration. The catalog fills in the counts.
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

    /// True if its server can be called, or one of those of its users; `None` if it runs at another replica.
    pub(crate) fn is_up(&self) -> Option<bool> {
        match self {
            Self::Shared(one) => one.health.is_up(),
            Self::PerUser(users) => {
                let running = users.running();
                // they start when they are called
                Some(running.is_empty() || running.iter().any(|one| one.health.is_up() != Some(false)))
            }
            Self::BuiltIn(_) => Some(true),
        }
    }

    /// The number of calls that run at its servers or wait for them. Those at the built-in one are not counted.
    pub(crate) fn running_calls(&self) -> usize {
        self.running().iter().map(|server| server.meters.running()).sum()
    }

    /// Asks its server once whether it speaks the other era too.
    pub(crate) async fn ask_for_other_era(&self) {
        if let Self::Shared(one) = self {
            one.ask_for_other_era().await;
        }
    }

    /// Ends its connections and processes, and starts them anew.
    pub(crate) async fn restart(&self) {
        join_all(self.running().iter().map(|server| server.restart())).await;
    }

    /// True if it runs at another replica.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self, Self::Shared(one) if one.trouble() == Some(StartError::Elsewhere))
    }

    /// Waits until its first start has ended, well or not. The servers of users start when they are called.
    pub(crate) async fn settled(&self) {
        if let Self::Shared(one) = self {
            one.health.first_start().await;
        }
    }

    /// Drops the state of a client session, or of a request without one, that is gone.
    pub(crate) fn ended(&self, requester: &Requester) {
        if let Self::BuiltIn(demo) = self {
            demo.forget(requester);
        }
        for server in self.running() {
            server.forget(requester);
        }
    }

    /// Ends what runs for a user who is gone, and for nobody else.
    pub(crate) fn user_gone(&self, user: &UserId) {
        match self {
            Self::PerUser(users) => users.end_user(user),
            Self::Shared(server) => server.end_user(user),
            Self::BuiltIn(_) => {}
        }
    }

    /// Ends all connections and processes, and waits for them: a few seconds at most.
    pub(crate) async fn end(&self) {
        if let Self::PerUser(users) = self {
            users.close().await;
        }
        join_all(self.running().iter().map(|server| server.context.tasks.finish())).await;
    }

    /// The same once no call runs at it, after `grace` at the latest, or when all backends end. Nobody may call it any
    /// more.
    pub(crate) async fn retire(&self, grace: Duration) {
        let running = self.running();
        join_all(running.iter().map(|server| server.finish_unused(grace))).await;
        self.end().await;
    }

    /// The servers outside the gateway that run for it.
    fn running(&self) -> Vec<Arc<ExternalBackend>> {
        match self {
            Self::Shared(one) => vec![Arc::clone(one)],
            Self::PerUser(users) => users.running(),
            Self::BuiltIn(_) => Vec::new(),
        }
    }
}

/// The status of a backend that needs no start.
fn ready(spec: &BackendSpec) -> BackendStatus {
    BackendStatus::new(spec.id.to_string(), spec.transport.name(), BackendState::Ready)
}

/// The server with the gateway's own token, if it has client credentials there.
fn with_own_token(spec: &BackendSpec, context: &BackendContext) -> BackendSpec {
    match context.access.of_gateway(spec) {
        Some(bearer) => BackendSpec { transport: spec.transport.clone().with_bearer(bearer), ..spec.clone() },
        None => spec.clone(),
    }
}
