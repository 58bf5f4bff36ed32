//! Background tasks of the backends: where they run, and their common end.

use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The background tasks of all backends, which end together.
#[derive(Debug, Clone)]
pub(crate) struct TaskGroup {
    tracker: TaskTracker,
    runtime: Handle,
    end: CancellationToken,
}

// === impl TaskGroup ===

impl TaskGroup {
    /// Tasks on the present runtime, which end when `end` is cancelled.
    pub(crate) fn new(end: CancellationToken) -> Self {
        Self { tracker: TaskTracker::new(), runtime: Handle::current(), end }
    }

    /// Runs `task`. It must end soon after [`TaskGroup::end`] is cancelled.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn_on(task, &self.runtime);
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
