//! One configured backend among all: an external server or the built-in one. Knows nothing of the others.

use std::{sync::Arc, time::Duration};

use futures_util::future;
use tokio::time::{sleep, timeout};

use super::{
    Demo, context::BackendContext, external_backend::ExternalBackend, health, server::BackendServer,
    supervision::Supervision, task_group::TaskGroup,
};
use crate::{
    mcp::Server,
    model::{
        BackendId, BackendSpec, Requester,
        status::{BackendState, BackendStatus, OfferCounts},
    },
};

/// Interval between two looks at the calls of a backend that is being ended.
const LOOK: Duration = Duration::from_millis(100);

/// One configured backend.
pub(crate) struct SupervisedBackend {
    spec: BackendSpec,
    kind: SupervisedKind,
    server: Arc<dyn Server>,
}

enum SupervisedKind {
    External(Arc<ExternalBackend>),
    BuiltIn(Arc<Demo>),
}

// === impl SupervisedBackend ===

impl SupervisedBackend {
    /// Starts the backend without waiting for it, with tasks of its own.
    pub(super) fn start(spec: BackendSpec, context: BackendContext) -> Self {
        if spec.is_built_in() {
            let demo = Arc::new(Demo::new(Arc::clone(&context.clock)));
            let server: Arc<dyn Server> = Arc::<Demo>::clone(&demo);
            return Self { spec, kind: SupervisedKind::BuiltIn(demo), server };
        }
        let tasks = TaskGroup::new(context.tasks.end().child_token());
        let backend = Arc::new(ExternalBackend::new(spec.clone(), BackendContext { tasks: tasks.clone(), ..context }));
        tasks.spawn(Supervision(Arc::clone(&backend)).supervise());
        tasks.spawn(Supervision(Arc::clone(&backend)).sweep());
        let server: Arc<dyn Server> = Arc::new(BackendServer(Arc::clone(&backend)));
        Self { spec, kind: SupervisedKind::External(backend), server }
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
    pub(super) const fn server(&self) -> &Arc<dyn Server> {
        &self.server
    }

    /// Its status. The catalog fills in the counts.
    pub(super) fn status(&self) -> BackendStatus {
        match &self.kind {
            SupervisedKind::External(backend) => {
                let server = (&backend.spec.id, backend.opener.transport.name());
                let printed = &backend.opener.output;
                let mut status = backend.health.status(server, backend.era.status(), (backend.pool.count(), printed));
                status.warnings.extend(backend.pool.warning());
                status
            }
            SupervisedKind::BuiltIn(_) => BackendStatus {
                id: self.spec.id.to_string(),
                transport: self.spec.transport.name().to_owned(),
                protocol_version: Some(Demo::REVISION.to_string()),
                era: None,
                lacks: health::lacks(Demo::REVISION),
                notices: Vec::new(),
                server: Some(format!("lockkeeper-demo {}", env!("CARGO_PKG_VERSION"))),
                state: BackendState::Ready,
                counts: OfferCounts::default(),
                left_out: Vec::new(),
                sessions: 0,
                restarts: 0,
                output: Vec::new(),
                advice: None,
                warnings: Vec::new(),
            },
        }
    }

    /// Waits until its first start has ended, well or not.
    pub(super) async fn settled(&self) {
        match &self.kind {
            SupervisedKind::External(backend) => backend.health.settled().await,
            SupervisedKind::BuiltIn(_) => {}
        }
    }

    /// Drops the state of a client session, or of a request without one, that is gone.
    pub(super) fn ended(&self, requester: &Requester) {
        match &self.kind {
            SupervisedKind::External(backend) => backend.ended(requester),
            SupervisedKind::BuiltIn(demo) => demo.ended(requester),
        }
    }

    /// Ends all connections and processes, and waits for them: a few seconds at most.
    pub(super) async fn end(&self) {
        match &self.kind {
            SupervisedKind::External(backend) => backend.context.tasks.finish().await,
            SupervisedKind::BuiltIn(_) => future::ready(()).await,
        }
    }

    /// The same once no call runs at it, after `grace` at the latest, or when all backends end. Nobody may call it any
    /// more.
    pub(super) async fn retire(&self, grace: Duration) {
        if let SupervisedKind::External(backend) = &self.kind {
            let finished = async {
                while backend.pool.is_in_use() {
                    sleep(LOOK).await;
                }
            };
            let end = backend.context.tasks.end();
            let _ = end.run_until_cancelled(timeout(grace, finished)).await;
        }
        self.end().await;
    }
}
