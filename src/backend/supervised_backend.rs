//! One configured backend among all: a server for everybody, one for each user, or the built-in one. Knows nothing of
//! the others.

use std::{sync::Arc, time::Duration};

use super::{
    Demo,
    context::BackendContext,
    health,
    running_server::RunningServer,
    user_servers::{PerUserServer, UserServers},
};
use crate::{
    mcp::Server,
    model::{
        BackendId, BackendSpec, Requester,
        status::{BackendState, BackendStatus, OfferCounts},
    },
};

/// One configured backend.
pub(crate) struct SupervisedBackend {
    spec: BackendSpec,
    generation: u64,
    kind: SupervisedKind,
    server: Arc<dyn Server>,
}

/// A backend as a server.
pub struct SupervisedServer {
    /// Its name.
    pub id: BackendId,
    /// Number of the start that made this server: another server of the same name has another one.
    pub generation: u64,
    /// The server itself.
    pub server: Arc<dyn Server>,
}

enum SupervisedKind {
    Shared(RunningServer),
    PerUser(Arc<UserServers>),
    BuiltIn(Arc<Demo>),
}

// === impl SupervisedBackend ===

impl SupervisedBackend {
    /// Starts the backend without waiting for it, with tasks of its own.
    pub(super) fn start(spec: BackendSpec, generation: u64, context: BackendContext) -> Self {
        if spec.is_built_in() {
            let demo = Arc::new(Demo::new(Arc::clone(&context.clock)));
            let server: Arc<dyn Server> = Arc::<Demo>::clone(&demo);
            return Self { spec, generation, kind: SupervisedKind::BuiltIn(demo), server };
        }
        if spec.is_per_user() && spec.auth.fault().is_none() {
            let users = UserServers::start(spec.clone(), context);
            let server: Arc<dyn Server> = Arc::new(PerUserServer(Arc::clone(&users)));
            return Self { spec, generation, kind: SupervisedKind::PerUser(users), server };
        }
        let running = RunningServer::start(with_own_token(&spec, &context), context);
        let server = Arc::clone(running.server());
        Self { spec, generation, kind: SupervisedKind::Shared(running), server }
    }

    /// Its configuration at its start.
    pub(super) const fn spec(&self) -> &BackendSpec {
        &self.spec
    }

    /// Its name.
    pub(super) const fn id(&self) -> &BackendId {
        &self.spec.id
    }

    /// The backend as a server: the same object each time.
    pub(super) fn server(&self) -> SupervisedServer {
        SupervisedServer { id: self.id().clone(), generation: self.generation, server: Arc::clone(&self.server) }
    }

    /// Its status. The catalog fills in the counts.
    pub(super) fn status(&self) -> BackendStatus {
        match &self.kind {
            SupervisedKind::Shared(running) => running.status(),
            SupervisedKind::PerUser(users) => {
                let sessions = users.count();
                let notice = "each user connects it on a page of the gateway, and sees its own lists".to_owned();
                BackendStatus { notices: vec![notice], sessions, ..self.ready() }
            }
            SupervisedKind::BuiltIn(_) => BackendStatus {
                protocol_version: Some(Demo::REVISION.to_string()),
                lacks: health::lacks(Demo::REVISION),
                server: Some(format!("lockkeeper-demo {}", env!("CARGO_PKG_VERSION"))),
                ..self.ready()
            },
        }
    }

    /// The status of a backend that needs no start.
    fn ready(&self) -> BackendStatus {
        BackendStatus {
            id: self.spec.id.to_string(),
            transport: self.spec.transport.name().to_owned(),
            protocol_version: None,
            era: None,
            lacks: Vec::new(),
            notices: Vec::new(),
            server: None,
            state: BackendState::Ready,
            counts: OfferCounts::default(),
            left_out: Vec::new(),
            sessions: 0,
            restarts: 0,
            output: Vec::new(),
            advice: None,
            warnings: Vec::new(),
        }
    }

    /// Waits until its first start has ended, well or not.
    pub(super) async fn settled(&self) {
        if let SupervisedKind::Shared(running) = &self.kind {
            running.settled().await;
        }
    }

    /// Drops the state of a client session, or of a request without one, that is gone.
    pub(super) fn ended(&self, requester: &Requester) {
        match &self.kind {
            SupervisedKind::Shared(running) => running.ended(requester),
            SupervisedKind::PerUser(users) => users.ended(requester),
            SupervisedKind::BuiltIn(demo) => demo.ended(requester),
        }
    }

    /// Ends all connections and processes, and waits for them: a few seconds at most.
    pub(super) async fn end(&self) {
        match &self.kind {
            SupervisedKind::Shared(running) => running.end().await,
            SupervisedKind::PerUser(users) => users.end().await,
            SupervisedKind::BuiltIn(_) => {}
        }
    }

    /// The same once no call runs at it, after `grace` at the latest, or when all backends end. Nobody may call it any
    /// more.
    pub(super) async fn retire(&self, grace: Duration) {
        match &self.kind {
            SupervisedKind::Shared(running) => running.retire(grace).await,
            SupervisedKind::PerUser(users) => users.retire(grace).await,
            SupervisedKind::BuiltIn(_) => {}
        }
    }
}

/// The server with the gateway's own token, if it has client credentials there.
fn with_own_token(spec: &BackendSpec, context: &BackendContext) -> BackendSpec {
    match context.access.of_gateway(spec) {
        Some(bearer) => BackendSpec { transport: spec.transport.clone().with_bearer(bearer), ..spec.clone() },
        None => spec.clone(),
    }
}
