//! One running server outside the gateway: its parts and the tasks that supervise it, started and ended together. Knows
//! nothing of who uses it.

use std::{sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};

use super::{
    context::BackendContext, external_backend::ExternalBackend, server::BackendServer, supervision::Supervision,
    task_group::TaskGroup,
};
use crate::{
    mcp::Server,
    model::{BackendSpec, Requester, status::BackendStatus},
};

/// Interval between two looks at the calls of a server that is being ended.
const LOOK: Duration = Duration::from_millis(100);

/// One running server.
pub(crate) struct RunningServer {
    backend: Arc<ExternalBackend>,
    server: Arc<dyn Server>,
}

// === impl RunningServer ===

impl RunningServer {
    /// Starts the server without waiting for it, with tasks of its own.
    pub(super) fn start(spec: BackendSpec, context: BackendContext) -> Self {
        let tasks = TaskGroup::new(context.tasks.end().child_token());
        let backend = Arc::new(ExternalBackend::new(spec, BackendContext { tasks: tasks.clone(), ..context }));
        tasks.spawn(Supervision(Arc::clone(&backend)).supervise());
        tasks.spawn(Supervision(Arc::clone(&backend)).sweep());
        let server: Arc<dyn Server> = Arc::new(BackendServer(Arc::clone(&backend)));
        Self { backend, server }
    }

    /// The server: the same object each time.
    pub(super) const fn server(&self) -> &Arc<dyn Server> {
        &self.server
    }

    /// Its status. The catalog fills in the counts.
    pub(super) fn status(&self) -> BackendStatus {
        let backend = &self.backend;
        let server = (&backend.spec.id, backend.opener.transport.name());
        let printed = &backend.opener.output;
        let mut status = backend.health.status(server, backend.era.status(), (backend.pool.count(), printed));
        status.warnings.extend(backend.pool.warning());
        status
    }

    /// Waits until its first start has ended, well or not.
    pub(super) async fn settled(&self) {
        self.backend.health.settled().await;
    }

    /// Drops the state of a client session, or of a request without one, that is gone.
    pub(super) fn ended(&self, requester: &Requester) {
        self.backend.ended(requester);
    }

    /// True if a call runs at it.
    pub(super) fn is_in_use(&self) -> bool {
        self.backend.pool.is_in_use()
    }

    /// True if its last start failed.
    pub(super) fn has_failed(&self) -> bool {
        self.backend.health.has_failed()
    }

    /// Ends all connections and processes, and waits for them: a few seconds at most.
    pub(super) async fn end(&self) {
        self.backend.context.tasks.finish().await;
    }

    /// The same once no call runs at it, after `grace` at the latest, or when all backends end. Nobody may call it any
    /// more.
    pub(super) async fn retire(&self, grace: Duration) {
        let finished = async {
            while self.is_in_use() {
                sleep(LOOK).await;
            }
        };
        let end = self.backend.context.tasks.end();
        let _ = end.run_until_cancelled(timeout(grace, finished)).await;
        self.end().await;
    }
}
