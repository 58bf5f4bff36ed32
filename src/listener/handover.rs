//! Hands connections over from the accept loop to a worker. If a worker is too busy to take a connection, another one
//! gets it.

use std::{collections::VecDeque, pin::pin, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;

use super::workers::{Assignment, Workers};

/// Time after which a connection that still waits for its worker goes to an idle one.
const TIMEOUT: Duration = Duration::from_millis(5);

/// Begins a connection on its assigned worker.
pub(super) type Start = Box<dyn FnOnce(Assignment) -> BoxFuture<'static, ()> + Send>;

/// Connections that no worker may have begun yet.
#[derive(Debug)]
pub(super) struct Handover {
    workers: Workers,
    tracker: TaskTracker,
    pending: VecDeque<Pending>,
}

/// A connection, until a worker takes it.
struct Pending {
    start: Arc<Mutex<Option<Start>>>,
    due: Instant,
}

// === impl Handover ===

impl Handover {
    /// Hands over to `workers`, in tasks of `tracker`.
    pub(super) const fn new(workers: Workers, tracker: TaskTracker) -> Self {
        Self { workers, tracker, pending: VecDeque::new() }
    }

    /// Hands a connection to the least loaded worker.
    pub(super) fn begin(&mut self, start: Start) {
        let pending = Pending { start: Arc::new(Mutex::new(Some(start))), due: Instant::now() + TIMEOUT };
        self.assign(self.workers.assign(), &pending);
        self.pending.push_back(pending);
    }

    /// Awaits `other`, and moves connections away from busy workers in the meantime.
    pub(super) async fn beside<T>(&mut self, other: impl Future<Output = T>) -> T {
        let mut other = pin!(other);
        loop {
            while self.pending.front().is_some_and(Pending::is_begun) {
                self.pending.pop_front();
            }
            let Some(first) = self.pending.front() else { return other.await };
            match timeout_at(first.due, other.as_mut()).await {
                Ok(done) => return done,
                Err(_) => self.move_overdue(Instant::now()),
            }
        }
    }

    fn move_overdue(&mut self, now: Instant) {
        while self.pending.front().is_some_and(|first| first.due <= now) {
            let Some(mut pending) = self.pending.pop_front() else { return };
            if pending.is_begun() {
                continue;
            }
            if let Some(assignment) = self.workers.assign_promptly() {
                self.assign(assignment, &pending);
                metrics::counter!("lockkeeper_connections_moved_total").increment(1);
            }
            pending.due = now + TIMEOUT;
            self.pending.push_back(pending);
        }
    }

    fn assign(&self, mut assignment: Assignment, pending: &Pending) {
        let start = Arc::clone(&pending.start);
        let runtime = assignment.runtime().clone();
        let begin = async move {
            assignment.begin();
            let start = start.lock().take();
            if let Some(start) = start {
                start(assignment).await;
            }
        };
        self.tracker.spawn_on(begin, &runtime);
    }
}

// === impl Pending ===

impl Pending {
    fn is_begun(&self) -> bool {
        self.start.lock().is_none()
    }
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").field("due", &self.due).finish_non_exhaustive()
    }
}
