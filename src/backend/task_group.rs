//! Background tasks of the backends: where they run, and their common end.

use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The background tasks of all backends, which end together.
#[derive(Debug, Clone)]
pub(crate) struct TaskGroup {
    tracker: TaskTracker,
    /// For tasks that are begun outside of any runtime.
    runtime: Handle,
    end: CancellationToken,
}

// === impl TaskGroup ===

impl TaskGroup {
    /// Tasks that end when `end` is cancelled.
    pub(crate) fn new(end: CancellationToken) -> Self {
        Self { tracker: TaskTracker::new(), runtime: Handle::current(), end }
    }

    /// Runs `task` on the present thread's runtime: what a call starts stays with its thread. It must end soon after
    /// [`TaskGroup::end`] is cancelled.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let runtime = Handle::try_current().unwrap_or_else(|_| self.runtime.clone());
        self.tracker.spawn_on(task, &runtime);
    }

    /// Runs `task` until it ends or every task is to end.
    pub(crate) fn spawn_until_end(&self, task: impl Future<Output = ()> + Send + 'static) {
        let end = self.end.clone();
        self.spawn(async move {
            end.run_until_cancelled(task).await;
        });
    }

    /// Cancelled when every task is to end.
    pub(crate) const fn end(&self) -> &CancellationToken {
        &self.end
    }

    /// Tells every task to end, and waits until each has.
    pub(crate) async fn finish(&self) {
        self.end.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}
