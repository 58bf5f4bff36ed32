//! Writes the rows of sessions. Changes that wait at the same time share one transaction, so that opening many sessions
//! takes few transactions.
//!
//! A single change is written at once. Changes that arrive during a transaction wait, and the next transaction takes up
//! to [`MAX_BATCH`] of them in order. Each caller waits for its own commit and gets its own error. If a caller is
//! dropped, its change is still written.

use std::{collections::VecDeque, sync::Arc};

use dashmap::DashSet;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    model::ReplicaNumber,
    storage::{
        self, Storage,
        mcp_sessions::{McpSession, McpSessionState, McpSessionWrite},
    },
    support::Digest,
};

/// Maximum number of changes in one transaction. It is small enough for other writers of the database to get their
/// turn.
const MAX_BATCH: usize = 256;
/// Maximum number of groups of changes that wait at once. Any more wait for a permit. Deletions need none, because
/// there are never more of them than rows.
const MAX_WAITING: usize = 1_024;

/// The rows of sessions. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Rows(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    storage: Storage,
    /// The number of this replica, which writes only rows of its own sessions.
    replica: ReplicaNumber,
    /// Runs the transactions, which continue if the caller is dropped.
    tracker: TaskTracker,
    permits: Arc<Semaphore>,
    waiting: Mutex<WaitingWrites>,
    /// Held during a transaction. Groups take it in the order of their arrival.
    transaction: tokio::sync::Mutex<()>,
    /// Ended sessions whose rows may still exist.
    ended: DashSet<Digest>,
}

/// The groups that are not in a transaction yet, in order of arrival.
#[derive(Debug, Default)]
struct WaitingWrites(VecDeque<WriteGroup>);

/// Changes that succeed or fail together, and the channel to their waiting caller.
#[derive(Debug)]
struct WriteGroup {
    writes: Vec<McpSessionWrite>,
    done: oneshot::Sender<Written>,
    /// The group's permit to wait.
    _permit: Option<OwnedSemaphorePermit>,
}

/// The result of writing a group.
type Written = Result<(), Arc<storage::StorageError>>;

/// Reason why a change is not in the store.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum WriteError {
    /// The store rejected it.
    #[error("{0}")]
    Refused(Arc<storage::StorageError>),
    /// The session ended before the change was written.
    #[error("the session ended")]
    Ended,
    #[error("the gateway stops")]
    Stopping,
}

// === impl Rows ===

impl Rows {
    /// Creates an empty queue. The transactions run on tasks of `tracker`.
    pub(super) fn new(storage: Storage, replica: ReplicaNumber, tracker: TaskTracker) -> Self {
        let (waiting, transaction, ended) = (Mutex::default(), tokio::sync::Mutex::default(), DashSet::new());
        Self(Arc::new(Inner {
            storage,
            replica,
            tracker,
            permits: Arc::new(Semaphore::new(MAX_WAITING)),
            waiting,
            transaction,
            ended,
        }))
    }

    /// Adds the row of a session, unless the session has ended in the meantime. Returns after the commit.
    pub(super) async fn add(&self, row: McpSession, ended: &CancellationToken) -> Result<(), WriteError> {
        self.write(vec![McpSessionWrite::Add(Box::new(row))], ended).await
    }

    /// Writes the row of a session, which replaces its old row, unless the session has ended in the meantime. Returns
    /// after the commit.
    pub(super) async fn replace(&self, row: McpSession, ended: &CancellationToken) -> Result<(), WriteError> {
        self.write(vec![McpSessionWrite::Delete(row.digest), McpSessionWrite::Add(Box::new(row))], ended).await
    }

    async fn write(&self, writes: Vec<McpSessionWrite>, ended: &CancellationToken) -> Result<(), WriteError> {
        let permit = self.permit().await?;
        let done = {
            let mut waiting = self.0.waiting.lock();
            // under the lock: either the deletion of an ended session comes after this write, or the write is skipped
            if ended.is_cancelled() {
                return Err(WriteError::Ended);
            }
            waiting.add(writes, Some(permit))
        };
        self.commit(done).await
    }

    /// Writes the changes of live sessions, at most [`MAX_BATCH`] at a time, and the complete row if it is missing.
    /// Skips sessions that have ended in the meantime. Returns after the commit.
    pub(super) async fn keep(&self, sessions: Vec<(McpSession, &CancellationToken)>) -> Result<(), WriteError> {
        let permit = self.permit().await?;
        let done = {
            let mut waiting = self.0.waiting.lock();
            // under the lock, as above
            let live = sessions.into_iter().filter(|(_, ended)| !ended.is_cancelled());
            let writes = live.map(|(row, _)| McpSessionWrite::Keep(Box::new(row))).collect();
            waiting.add(writes, Some(permit))
        };
        self.commit(done).await
    }

    /// Writes the state of a session, and that no replica owns it. Returns after the commit.
    pub(super) async fn give_up(&self, digest: Digest, state: McpSessionState) -> Result<(), WriteError> {
        let permit = self.permit().await?;
        let writes = vec![McpSessionWrite::Change(digest, state), McpSessionWrite::GiveUp(digest)];
        let done = self.0.waiting.lock().add(writes, Some(permit));
        self.commit(done).await
    }

    /// Deletes the rows of ended connections that another connection continues, even if the future is not polled.
    pub(super) fn supersede(&self, ended: Vec<Digest>) -> impl Future<Output = Result<(), WriteError>> + use<> {
        let writes = ended.into_iter().map(McpSessionWrite::Supersede).collect();
        let done = self.0.waiting.lock().add(writes, None);
        self.commit(done)
    }

    /// Deletes the rows of ended sessions, even if the future is not polled.
    pub(super) fn delete(&self, ended: Vec<Digest>) -> impl Future<Output = Result<(), WriteError>> + use<> {
        let writes = ended.into_iter().map(McpSessionWrite::Delete).collect();
        let done = self.0.waiting.lock().add(writes, None);
        self.commit(done)
    }

    /// Marks a session as ended: its row no longer counts.
    pub(super) fn mark_ended(&self, digest: Digest) {
        self.0.ended.insert(digest);
    }

    /// Removes the mark of a session without a row.
    pub(super) fn unmark(&self, digest: &Digest) {
        self.0.ended.remove(digest);
    }

    /// True if a session is marked as ended, even if its row is not.
    pub(super) fn has_ended(&self, digest: &Digest) -> bool {
        self.0.ended.contains(digest)
    }

    /// The ended sessions whose rows are still to be deleted, or are being deleted.
    pub(super) fn undeleted(&self) -> Vec<Digest> {
        self.0.ended.iter().map(|digest| *digest).collect()
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit, WriteError> {
        Arc::clone(&self.0.permits).acquire_owned().await.map_err(|_| WriteError::Stopping)
    }

    /// Starts the transaction of the newest group, or of earlier ones.
    fn commit(&self, done: oneshot::Receiver<Written>) -> impl Future<Output = Result<(), WriteError>> + use<> {
        let inner = Arc::clone(&self.0);
        self.0.tracker.spawn(async move { inner.commit().await });
        async move { done.await.map_err(|_| WriteError::Stopping)?.map_err(WriteError::Refused) }
    }
}

// === impl Inner ===

impl Inner {
    /// Writes the oldest groups, once the earlier transactions have ended. It runs once for each group, so no group is
    /// left over. If it finds nothing, another run took its group.
    async fn commit(&self) {
        let _transaction = self.transaction.lock().await;
        let groups = self.waiting.lock().take();
        let all: Vec<_> = groups.iter().flat_map(|group| group.writes.iter().cloned()).collect();
        match self.storage.mcp_sessions().write(&all, self.replica).await.map_err(Arc::new) {
            // a group among them is at fault: each is tried separately, so that no other fails with it
            Err(error) if error.is_constraint() && groups.len() > 1 => {
                for group in groups {
                    let outcome = self.storage.mcp_sessions().write(&group.writes, self.replica).await;
                    let outcome = outcome.map_err(Arc::new);
                    self.settle(group, outcome);
                }
            }
            outcome => groups.into_iter().for_each(|group| self.settle(group, outcome.clone())),
        }
    }

    fn settle(&self, group: WriteGroup, outcome: Written) {
        if outcome.is_ok() {
            for write in &group.writes {
                if let McpSessionWrite::Delete(digest) = write {
                    self.ended.remove(digest);
                }
            }
        }
        // the caller may have been dropped
        let _ = group.done.send(outcome);
    }
}

// === impl WaitingWrites ===

impl WaitingWrites {
    fn add(
        &mut self,
        writes: Vec<McpSessionWrite>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> oneshot::Receiver<Written> {
        let (done, receiver) = oneshot::channel();
        self.0.push_back(WriteGroup { writes, done, _permit: permit });
        receiver
    }

    /// The oldest groups: as many as fit into one transaction, but at least one.
    fn take(&mut self) -> Vec<WriteGroup> {
        let mut writes = 0;
        let fits = |group: &&WriteGroup| {
            writes += group.writes.len();
            writes <= MAX_BATCH
        };
        let fitting = self.0.iter().take_while(fits).count();
        self.0.drain(..fitting.max(1).min(self.0.len())).collect()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;
    use crate::{model::UserId, support::Timestamp};

    fn row(id: &str) -> McpSession {
        let seen = Timestamp::from_seconds(1);
        McpSession {
            digest: Digest::sha256(id),
            user: UserId::new("ann"),
            client: None,
            key: None,
            endpoint: "/mcp".to_owned(),
            revision: "2025-06-18".to_owned(),
            implementation: b"{}".to_vec(),
            capabilities: b"{}".to_vec(),
            state: McpSessionState { log_level: None, subscriptions: Vec::new(), initialized: false, last_seen: seen },
            created: seen,
            owner: ReplicaNumber::SOLE,
        }
    }

    async fn rows() -> (Rows, Storage) {
        let storage = Storage::empty().await;
        (on(&storage), storage)
    }

    fn on(storage: &Storage) -> Rows {
        Rows::new(storage.clone(), ReplicaNumber::SOLE, TaskTracker::new())
    }

    async fn is_there(storage: &Storage, id: &str) -> bool {
        storage.mcp_sessions().lookup(&Digest::sha256(id)).await.unwrap().is_some()
    }

    #[tokio::test]
    async fn what_waits_together_is_written_in_one_transaction() {
        let (rows, storage) = rows().await;
        let live = CancellationToken::new();
        let turn = rows.0.transaction.lock().await;
        let mut adds: Vec<_> = ["a", "b", "c"].map(|id| Box::pin(rows.add(row(id), &live))).into();
        for add in &mut adds {
            assert!(poll!(add).is_pending());
        }
        assert_eq!(rows.0.waiting.lock().0.len(), 3);
        let mut waiting = rows.0.waiting.lock().take();
        assert_eq!(waiting.len(), 3, "one transaction takes them all");
        rows.0.waiting.lock().0.extend(waiting.drain(..));
        // one caller is dropped: neither its row nor another is lost
        drop(adds.pop());
        drop(turn);
        for add in adds {
            add.await.unwrap();
        }
        for id in ["a", "b", "c"] {
            assert!(is_there(&storage, id).await, "{id}");
        }
    }

    #[tokio::test]
    async fn each_waiter_gets_its_own_error() {
        let (rows, storage) = rows().await;
        let live = CancellationToken::new();
        let turn = rows.0.transaction.lock().await;
        let wrong = rows.keep(Vec::new());
        let (first, again, other) = (rows.add(row("a"), &live), rows.add(row("a"), &live), rows.add(row("b"), &live));
        let free = async { drop(turn) };
        let (wrong, first, again, other, ()) = tokio::join!(wrong, first, again, other, free);
        assert!(wrong.is_ok() && first.is_ok() && other.is_ok());
        assert!(matches!(again, Err(WriteError::Refused(error)) if error.is_constraint()));
        assert!(is_there(&storage, "b").await);
    }

    #[tokio::test]
    async fn an_ended_session_gets_no_row_whatever_waits() {
        let storage = Storage::for_tests(None).await.unwrap();
        let rows = on(&storage);
        let (live, over) = (CancellationToken::new(), CancellationToken::new());
        over.cancel();
        assert!(matches!(rows.add(row("a"), &over).await, Err(WriteError::Ended)));
        let stalled = storage.stall().await.unwrap();
        let mut add = Box::pin(rows.add(row("b"), &live));
        assert!(poll!(&mut add).is_pending());
        rows.mark_ended(Digest::sha256("b"));
        // it is not polled
        drop(rows.delete(vec![Digest::sha256("b")]));
        assert!(rows.has_ended(&Digest::sha256("b")));
        drop(stalled);
        add.await.unwrap();
        rows.keep(vec![(row("b"), &over)]).await.unwrap();
        assert!(!is_there(&storage, "b").await);
        rows.keep(vec![(row("c"), &live)]).await.unwrap();
        assert!(is_there(&storage, "c").await, "one that goes on gets its row back");
        assert!(rows.undeleted().is_empty(), "and is forgotten once its row is gone");
    }

    #[tokio::test]
    async fn a_row_that_could_not_be_deleted_is_remembered() {
        let (rows, storage) = rows().await;
        let digest = Digest::sha256("a");
        rows.mark_ended(digest);
        storage.close().await;
        assert!(rows.delete(vec![digest]).await.is_err());
        assert!(rows.has_ended(&digest));
        assert_eq!(rows.undeleted(), [digest]);
    }
}
