//! Background tasks of a backend, and their common end.

use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Background tasks with a common end.
#[derive(Debug, Clone)]
pub(crate) struct TaskGroup {
    tracker: TaskTracker,
    /// Runs tasks that are started outside of any runtime.
    runtime: Handle,
    end: CancellationToken,
}

// === impl TaskGroup ===

impl TaskGroup {
    /// Creates a group that ends when `end` is cancelled.
    pub(crate) fn new(end: CancellationToken) -> Self {
        Self { tracker: TaskTracker::new(), runtime: Handle::current(), end }
    }

    /// Runs `task` on the current thread's runtime: so work that a call starts stays on its thread. The task must end
    /// soon after [`TaskGroup::end`] is cancelled.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let runtime = Handle::try_current().unwrap_or_else(|_| self.runtime.clone());
        self.tracker.spawn_on(task, &runtime);
    }

    /// Runs `task` until it ends or the group does.
    pub(crate) fn spawn_until_end(&self, task: impl Future<Output = ()> + Send + 'static) {
        let end = self.end.clone();
        self.spawn(async move {
            end.run_until_cancelled(task).await;
        });
    }

    /// Cancelled when the group ends.
    pub(crate) const fn end(&self) -> &CancellationToken {
        &self.end
    }

    /// Ends the group, and waits for all tasks.
    pub(crate) async fn finish(&self) {
        self.end.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}
