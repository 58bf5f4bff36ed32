//! The table of sessions: owners, limits and ends (design rule 9).
//!
//! Sessions of Streamable HTTP have a row in the store and outlive the process: a session that is not in memory is
//! looked up there once. A session of HTTP+SSE is its connection. Its row stays after its end, so that its client is
//! recognized when it comes back. The start and end of a session are written at once, its activity by the sweep.
//!
//! A session that ended never comes back. It is marked as ended before it leaves the memory, and the mark stays until
//! its row is deleted. A look-up first gets its caller's permit, then reads the mark, then the row. Only the owner of a
//! session takes it into memory, and an owner has one permit. No other permit is held while the store is read.

mod ends;
mod error;
mod lookups;
mod record;
mod reopening;
mod rows;
mod table;

use std::{fmt, sync::Arc};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use self::{
    error::{LimitReached, LookupError},
    reopening::{Arrival, Continued},
};
use self::{
    lookups::Lookups,
    rows::{Rows, WriteError},
    table::SessionTable,
};
use super::{
    frontend_settings::FrontendSettings,
    replay::{Limits, Overflow, ReplayBuffer, event_id::EventIdPrefix, streams::AnswerStreams},
    request_limits::FrontendUsers,
    server_requests::OpenRequests,
    session::{RunningCalls, Session, SessionOrigin, SessionParts},
    unfinished_tasks::UnfinishedTasks,
};
use crate::{
    mcp::observer::RequesterObserver,
    model::{Binding, Caller, Endpoint, ReplicaNumber, SessionAddress, SessionId, UserId, status::SessionStatus},
    storage::{Storage, StorageError, mcp_sessions::McpSession},
    support::{Account, Clock, Digest, Fence, MemoryBudget, Random, Timestamp, byte_queue::Bounds},
};

/// Everything that the client side is built on.
#[derive(Clone)]
pub struct Deps {
    /// The store, where sessions outlive a restart.
    pub storage: Storage,
    pub clock: Arc<dyn Clock>,
    /// Randomness for session ids.
    pub random: Arc<dyn Random>,
    /// Notified when a session ends, or a listen outside of sessions.
    pub observer: RequesterObserver,
    /// The memory budget of the process.
    pub budget: MemoryBudget,
    pub replica: ReplicaNumber,
    /// Open while this replica owns its sessions.
    pub fence: Fence,
}

/// The sessions of all clients.
#[derive(Debug)]
pub(crate) struct Sessions {
    table: SessionTable,
    users: Arc<FrontendUsers>,
    deps: Deps,
    settings: FrontendSettings,
    /// Cancelled when the gateway stops, which ends everything that is running.
    closed: CancellationToken,
    rows: Rows,
    lookups: Lookups,
    pub(crate) tasks: Arc<UnfinishedTasks>,
}

// === impl Sessions ===

impl Sessions {
    /// Creates an empty table. Calls in its sessions count toward the limits of `users`. Writes to the store run on
    /// tasks of `tracker`.
    pub(crate) fn new(deps: Deps, settings: FrontendSettings, users: Arc<FrontendUsers>, tracker: TaskTracker) -> Self {
        let (table, closed) = (SessionTable::default(), CancellationToken::new());
        let rows = Rows::new(deps.storage.clone(), deps.replica, tracker);
        let lookups = Lookups::new(settings.limits.clone());
        Self { table, users, deps, settings, closed, rows, lookups, tasks: Arc::default() }
    }

    /// Opens a session. If the user is at the limit, the user's own longest idle session is ended to make room. If the
    /// gateway is at its limit, a session of the user with the most is ended.
    pub(crate) async fn open(&self, address: SessionAddress, owner: Arc<Caller>) -> Result<Arc<Session>, LimitReached> {
        self.open_on(self.queue(address.binding, &owner), address, owner).await
    }

    /// Opens a session with this queue for messages outside of streamed answers.
    pub(crate) async fn open_on(
        &self,
        queue: Arc<ReplayBuffer>,
        address: SessionAddress,
        owner: Arc<Caller>,
    ) -> Result<Arc<Session>, LimitReached> {
        let id = SessionId::new(self.deps.replica.mark(self.deps.random.token()));
        let session = self.build(SessionOrigin { id, address, owner, created: self.now() }, queue);
        self.admit(&session).await?;
        Ok(session)
    }

    /// The queue of a session, or of a connection that may have one.
    pub(crate) fn queue(&self, binding: Binding, owner: &Caller) -> Arc<ReplayBuffer> {
        ReplayBuffer::new(limits(&self.settings, binding), self.account(owner))
    }

    /// Writes the session's row, once its client has sent `initialize`. If the row cannot be written, the session lives
    /// until the process ends.
    pub(crate) async fn store(&self, session: &Session) {
        let Some(row) = record::row(session, self.deps.replica).filter(|_| has_row(session)) else { return };
        let has_row = session.is_stored();
        session.set_stored();
        let written = if has_row {
            self.rows.replace(row, &session.ended).await
        } else {
            self.rows.add(row, &session.ended).await
        };
        match written {
            Ok(()) | Err(WriteError::Ended) => {}
            Err(error) => tracing::warn!(session = %session.id, %error, "the session will not outlive the process"),
        }
    }

    /// Writes the changes of one session.
    pub(crate) async fn save(&self, session: &Session) {
        if has_row(session) && session.take_changed() {
            self.write(&[session]).await;
        }
    }

    /// The session `id` of Streamable HTTP, if this caller opened it at `endpoint`.
    pub(crate) async fn find(
        &self,
        id: &str,
        endpoint: &Endpoint,
        caller: &Caller,
    ) -> Result<Arc<Session>, LookupError> {
        let session = match self.in_memory(id) {
            Some(session) => session,
            None => Box::pin(self.restore(id, endpoint, caller)).await?,
        };
        if !session.address.is(endpoint, Binding::Mcp) {
            return Err(LookupError::Unknown);
        }
        self.check(session, caller)
    }

    /// The session `id` with an open HTTP+SSE connection, if this caller opened it.
    pub(crate) fn find_connected(&self, id: &str, caller: &Caller) -> Result<Arc<Session>, LookupError> {
        let session = self.in_memory(id).filter(|session| session.is_connection()).ok_or(LookupError::Unknown)?;
        self.check(session, caller)
    }

    /// The session `id`, if it is in memory and this caller opened it. Does not count as a use.
    pub(crate) fn held(&self, id: &str, caller: &Caller) -> Option<Arc<Session>> {
        self.in_memory(id).filter(|session| session.owner.owns_the_same_as(caller))
    }

    /// The sessions in memory, for status pages.
    pub(crate) fn status(&self) -> Vec<SessionStatus> {
        self.status_among(self.table.all())
    }

    /// The ids that begin like this.
    pub(crate) fn beginning_with(&self, beginning: &str) -> Vec<SessionId> {
        let all = self.table.all().into_iter().filter(|session| session.id.as_str().starts_with(beginning));
        all.map(|session| session.id.clone()).collect()
    }

    /// The session with this id, for status pages.
    pub(crate) fn status_by_id(&self, id: &SessionId) -> Option<SessionStatus> {
        self.in_memory(id.as_str()).map(|session| record::status(&session, self.now()))
    }

    pub(crate) fn status_of(&self, user: &UserId) -> Vec<SessionStatus> {
        self.status_among(self.table.of_user(user))
    }

    fn status_among(&self, mut sessions: Vec<Arc<Session>>) -> Vec<SessionStatus> {
        let now = self.now();
        sessions.sort_by_key(|session| session.created);
        sessions.iter().map(|session| record::status(session, now)).collect()
    }

    fn now(&self) -> Timestamp {
        self.deps.clock.now()
    }

    fn in_memory(&self, id: &str) -> Option<Arc<Session>> {
        self.table.by_id.get(id).map(|session| Arc::clone(&session))
    }

    fn check(&self, session: Arc<Session>, caller: &Caller) -> Result<Arc<Session>, LookupError> {
        if !session.owner.owns_the_same_as(caller) {
            return Err(LookupError::Unknown);
        }
        session.touch(self.now());
        Ok(session)
    }

    /// Takes a session into memory, and ends another session if that is needed to make room.
    async fn admit(&self, session: &Arc<Session>) -> Result<(), LimitReached> {
        let evicted =
            self.table.insert(session, &self.settings.limits.get(), |evicted| self.before_removal(evicted))?;
        if let Some(evicted) = evicted {
            tracing::info!(session = %evicted.id, user = %evicted.owner.user, "an idle session is ended to make room");
            self.after_removal(&evicted);
            self.delete(self.row_of(&evicted).into_iter().collect()).await;
        }
        Ok(())
    }

    /// Looks the session up in the store, and takes it into memory unless it has been idle for too long. A session that
    /// does not exist, or belongs to another caller, costs one read.
    async fn restore(&self, id: &str, endpoint: &Endpoint, caller: &Caller) -> Result<Arc<Session>, LookupError> {
        let permit = self.lookups.permit(&caller.user).await.ok_or(LookupError::TooManyLookups)?;
        if let Some(session) = self.in_memory(id) {
            return Ok(session);
        }
        let digest = Digest::sha256(id);
        if self.rows.has_ended(&digest) {
            return Err(LookupError::Unknown);
        }
        let row = self.row(&digest).await?;
        let now = self.now();
        let row = row.filter(|row| now.since(row.state.last_seen) < self.settings.limits.get().session_idle);
        let row = row.ok_or(LookupError::Unknown)?;
        let origin = record::origin(&row, SessionId::new(id), caller).ok_or(LookupError::Unknown)?;
        if !origin.address.is(endpoint, Binding::Mcp) {
            return Err(LookupError::Unknown);
        }
        let row = self.owned(row).await?;
        let queue = self.queue(origin.address.binding, &origin.owner);
        let session = self.build(origin, queue);
        record::restore(&session, &row, &self.settings);
        session.set_stored();
        session.touch(now);
        self.admit(&session).await.map_err(LookupError::Limit)?;
        drop(permit);
        tracing::info!(session = %session.id, "a session of the process before this one continues");
        Ok(session)
    }

    async fn row(&self, digest: &Digest) -> Result<Option<McpSession>, LookupError> {
        match self.deps.storage.mcp_sessions().lookup(digest).await {
            // it can never be used again
            Err(error @ StorageError::Inconsistent { .. }) => {
                tracing::error!(%error, "the row of a session cannot be read: the session counts as ended");
                Ok(None)
            }
            found => found.map_err(|error| unavailable(&error)),
        }
    }

    /// The row, once this replica owns the session. It takes over sessions of a replica that has ended.
    async fn owned(&self, row: McpSession) -> Result<McpSession, LookupError> {
        let replica = self.deps.replica;
        if row.owner == replica {
            return Ok(row);
        }
        let succeeded = self.deps.storage.mcp_sessions().succeed(&row.digest, row.owner, replica).await;
        metrics::counter!("lockkeeper_sessions_succeeded_total")
            .increment(u64::from(succeeded.map_err(|error| unavailable(&error))?));
        // the owner may have written until its end, or another replica may have taken over first
        match self.row(&row.digest).await?.ok_or(LookupError::Unknown)? {
            row if row.owner == replica => Ok(row),
            row => Err(LookupError::Elsewhere(row.owner)),
        }
    }

    /// The account of a user.
    pub(crate) fn account(&self, caller: &Caller) -> Account {
        self.users.get(&caller.user).account.clone()
    }

    fn build(&self, origin: SessionOrigin, queue: Arc<ReplayBuffer>) -> Arc<Session> {
        let settings = &self.settings;
        let ended = self.closed.child_token();
        let prefix = Digest::sha256(self.deps.random.token()).short_hex(4);
        let user = self.users.get(&origin.owner.user);
        let parts = SessionParts {
            answers: AnswerStreams::new(EventIdPrefix::new(prefix.clone()), settings, user.account.clone()),
            user,
            calls: RunningCalls::new(ended.clone()),
            requests: OpenRequests::new(&prefix, settings.questions_per_session, settings.limits.clone()),
            queue,
            ended,
        };
        Arc::new(Session::new(origin, parts))
    }
}

/// The limits of a session's queue. If the session is a connection, it has a single stream, which cannot be resumed.
fn limits(settings: &FrontendSettings, binding: Binding) -> Limits {
    let waiting = Bounds { messages: settings.queue, bytes: settings.queue_bytes };
    if binding.is_connection() {
        let replay = Bounds { messages: 0, bytes: 0 };
        return Limits::Standalone { waiting, streams: 1, replay, overflow: Overflow::DropFirst };
    }
    let replay = Bounds { messages: settings.replay_messages, bytes: settings.replay_bytes };
    Limits::Standalone { waiting, streams: settings.streams_per_session, replay, overflow: Overflow::CloseStream }
}

fn unavailable(error: &StorageError) -> LookupError {
    tracing::error!(%error, "sessions cannot be looked up");
    LookupError::Unavailable
}

/// True if sessions of this kind have rows.
fn has_row(session: &Session) -> bool {
    matches!(session.address.binding, Binding::Mcp | Binding::Sse)
}

/// True if the row is deleted with the session.
fn ends_with_row(session: &Session) -> bool {
    session.address.binding == Binding::Mcp
}

impl fmt::Debug for Deps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deps").finish_non_exhaustive()
    }
}
