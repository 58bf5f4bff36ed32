//! The store behind the registry of tasks.

use futures_util::future::BoxFuture;

use crate::{
    model::{FoundTask, OwnedTask, Owner},
    support::Digest,
};

/// Stores the owners of tasks, so that they outlive the process.
pub trait TaskOwnerStore: Send + Sync {
    /// Adds a task. If its owner then has more than `max` at the server, the oldest ended one is deleted; if none has
    /// ended, returns false without changes.
    fn add<'a>(&'a self, row: &'a OwnedTask, max: usize) -> BoxFuture<'a, Result<bool, StoreUnavailable>>;

    /// The stored ones of `tasks`, as `owner` may know them.
    fn find<'a>(
        &'a self,
        tasks: &'a [Digest],
        owner: &'a Owner,
    ) -> BoxFuture<'a, Result<Vec<FoundTask>, StoreUnavailable>>;

    /// Marks a task of this owner as ended. A failure may be ignored: the task stays until it expires.
    fn set_ended<'a>(&'a self, task: &'a Digest, owner: &'a Owner) -> BoxFuture<'a, ()>;

    /// Deletes a task of this owner. A failure may be ignored.
    fn delete<'a>(&'a self, task: &'a Digest, owner: &'a Owner) -> BoxFuture<'a, ()>;
}

/// The store did not answer. It has logged the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreUnavailable;
