//! Owners of tasks, in the store.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::time::timeout;

use crate::{
    layers::{StoreUnavailable, TaskOwnerStore},
    model::{FoundTask, OwnedTask, Owner},
    storage::{Storage, StorageError},
    support::{Clock, Digest},
};

/// Maximum wait for the store: a call may be waiting.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// Owners of tasks, in the store.
pub(super) struct StoredTaskOwners {
    storage: Storage,
    clock: Arc<dyn Clock>,
}

// === impl StoredTaskOwners ===

impl StoredTaskOwners {
    pub(super) fn new(storage: Storage, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { storage, clock })
    }
}

impl TaskOwnerStore for StoredTaskOwners {
    fn add<'a>(&'a self, row: &'a OwnedTask, max: usize) -> BoxFuture<'a, Result<bool, StoreUnavailable>> {
        let max = i64::try_from(max).unwrap_or(i64::MAX);
        async move { in_time(self.storage.task_owners().add(row, max, self.clock.now())).await }.boxed()
    }

    fn find<'a>(
        &'a self,
        tasks: &'a [Digest],
        owner: &'a Owner,
    ) -> BoxFuture<'a, Result<Vec<FoundTask>, StoreUnavailable>> {
        async move { in_time(self.storage.task_owners().find(tasks, owner, self.clock.now())).await }.boxed()
    }

    fn set_ended<'a>(&'a self, task: &'a Digest, owner: &'a Owner) -> BoxFuture<'a, ()> {
        async move { in_time(self.storage.task_owners().set_ended(task, owner)).await.unwrap_or_default() }.boxed()
    }

    fn delete<'a>(&'a self, task: &'a Digest, owner: &'a Owner) -> BoxFuture<'a, ()> {
        async move { in_time(self.storage.task_owners().delete(task, owner)).await.unwrap_or_default() }.boxed()
    }
}

async fn in_time<T>(answer: impl Future<Output = Result<T, StorageError>>) -> Result<T, StoreUnavailable> {
    let failed = match timeout(STORE_TIMEOUT, answer).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer for {STORE_TIMEOUT:?}"),
    };
    tracing::warn!(error = failed, "the owners of tasks cannot be read or written");
    Err(StoreUnavailable)
}
