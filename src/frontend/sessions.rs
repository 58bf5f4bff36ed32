//! The table of sessions: their owners, their bounds, and their ends (design rule 9). Knows nothing of HTTP.
//!
//! Sessions of Streamable HTTP have a row in the store and outlive the process: one that is not in memory is looked up
//! there once. Those of HTTP+SSE are their connection and have none. An opening and an ending are written at once, activity
//! by the sweep.
//!
//! A session that ended never comes back. It is marked as ended before it leaves the memory, and the mark stays until its
//! row is deleted. A look-up reads the mark after it has the permit of its caller and before it reads the row; only the
//! owner of a session takes it into memory, and has one permit. No lock but that permit is held while the store is read.

mod error;
mod lookups;
mod record;
mod rows;
mod table;

use std::{fmt, sync::Arc};

use tokio::{task::yield_now, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use self::error::{LimitReached, LookupError};
use self::{
    lookups::Lookups,
    rows::{Rows, WriteError},
    table::SessionTable,
};
use super::{
    replay::{Bounds, Limits, Overflow, ReplayBuffer, event_id::EventIdPrefix, streams::AnswerStreams},
    server_requests::OpenRequests,
    session::{RunningCalls, Session, SessionOrigin, SessionParts},
    settings::Settings,
};
use crate::{
    mcp::observer::{LifecycleEvent, Observer},
    model::{Binding, Caller, Endpoint, Requester, SessionId, status::SessionStatus},
    storage::Storage,
    support::{Clock, Digest, Random, Timestamp},
};

/// The sessions that the sweep looks at before it lets others run, and writes in one transaction.
const SWEEP_BATCH: usize = 256;
/// The look-ups in the store that wait for each session that a caller may have: a client that comes back after a restart of
/// the gateway sends a few requests at once.
const LOOKUPS_PER_SESSION: usize = 4;

/// The dependencies of the client side.
#[derive(Clone)]
pub struct Deps {
    /// The store, in which sessions outlive the process.
    pub storage: Storage,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness for session ids.
    pub random: Arc<dyn Random>,
    /// The observer of each session, and of each listen without one, that ended.
    pub observer: Observer,
}

/// The sessions of all clients.
#[derive(Debug)]
pub(crate) struct Sessions {
    table: SessionTable,
    deps: Deps,
    settings: Settings,
    /// Ends everything that runs, when the gateway does.
    closed: CancellationToken,
    rows: Rows,
    lookups: Lookups,
}

// === impl Sessions ===

impl Sessions {
    /// No sessions in memory yet. What is written to the store is written on tasks of `tracker`.
    pub(crate) fn new(deps: Deps, settings: Settings, tracker: TaskTracker) -> Self {
        let (table, closed) = (SessionTable::default(), CancellationToken::new());
        let rows = Rows::new(deps.storage.clone(), tracker);
        let lookups = Lookups::new(settings.sessions_per_caller.saturating_mul(LOOKUPS_PER_SESSION));
        Self { table, deps, settings, closed, rows, lookups }
    }

    /// Opens a session. If the caller, or the gateway, has as many as allowed, the caller's own session that was idle longest
    /// is ended to make room.
    pub(crate) async fn open(&self, endpoint: Endpoint, owner: Arc<Caller>) -> Result<Arc<Session>, LimitReached> {
        self.open_on(self.queue(endpoint.binding), endpoint, owner).await
    }

    /// Opens a session with this queue for messages outside of streamed answers.
    pub(crate) async fn open_on(
        &self,
        queue: Arc<ReplayBuffer>,
        endpoint: Endpoint,
        owner: Arc<Caller>,
    ) -> Result<Arc<Session>, LimitReached> {
        let id = SessionId::new(self.deps.random.token());
        let session = self.build(SessionOrigin { id, endpoint, owner, created: self.now() }, queue);
        self.admit(&session).await?;
        Ok(session)
    }

    /// The queue of a session, or of a connection that may have one.
    pub(crate) fn queue(&self, binding: Binding) -> Arc<ReplayBuffer> {
        ReplayBuffer::new(limits(&self.settings, binding))
    }

    /// Writes the session's row, after its client sent `initialize`. A session whose row cannot be written lives until the
    /// process ends.
    pub(crate) async fn store(&self, session: &Session) {
        let Some(row) = record::row(session).filter(|_| has_row(session)) else { return };
        session.set_stored();
        match self.rows.add(row, &session.ended).await {
            Ok(()) | Err(WriteError::Ended) => {}
            Err(error) => tracing::warn!(session = ?session.id, %error, "the session will not outlive the process"),
        }
    }

    /// Writes the changes of one session.
    pub(crate) async fn save(&self, session: &Session) {
        if has_row(session) && session.take_changed() {
            self.write(&[session]).await;
        }
    }

    /// The session `id`, if it was opened at `endpoint` by this caller.
    pub(crate) async fn find(
        &self,
        id: &str,
        endpoint: &Endpoint,
        caller: &Caller,
    ) -> Result<Arc<Session>, LookupError> {
        let session = match self.in_memory(id) {
            Some(session) => session,
            None => self.restore(id, endpoint, caller).await?,
        };
        if session.endpoint != *endpoint {
            return Err(LookupError::Unknown);
        }
        self.check(session, caller)
    }

    /// The session `id` whose HTTP+SSE connection is open, if it was opened by this caller.
    pub(crate) fn find_connected(&self, id: &str, caller: &Caller) -> Result<Arc<Session>, LookupError> {
        let session = self.in_memory(id).filter(|session| session.is_connection()).ok_or(LookupError::Unknown)?;
        self.check(session, caller)
    }

    /// Ends a session: from now on it is unknown. Returns when its row is deleted; it is deleted too if the future is
    /// dropped before.
    pub(crate) async fn end(&self, session: &Session) {
        if self.remove(session) {
            self.delete(self.row_of(session).into_iter().collect()).await;
        }
    }

    /// Ends the session of this id, if it is in memory.
    pub(crate) async fn end_by_id(&self, id: &SessionId) {
        if let Some(session) = self.in_memory(id.as_str()) {
            self.end(&session).await;
        }
    }

    /// Ends a session without waiting for the store.
    pub(crate) fn forget(&self, session: &Session) {
        if self.remove(session)
            && let Some(row) = self.row_of(session)
        {
            drop(self.rows.delete(vec![row]));
        }
    }

    /// Ends all calls and streams; the sessions themselves stay in the store.
    pub(crate) fn close(&self) {
        self.closed.cancel();
        for session in self.table.all() {
            session.calls.cancel_all();
        }
    }

    /// Ends the sessions that are due, in memory and in the store, and writes the changes of the others.
    pub(crate) async fn sweep(&self) {
        let now = self.now();
        for sessions in self.table.all().chunks(SWEEP_BATCH) {
            self.sweep_some(sessions, now).await;
            yield_now().await;
        }
        // those whose deletion failed before, or whose client did not wait for it
        for rows in self.rows.undeleted().chunks(SWEEP_BATCH) {
            self.delete(rows.to_vec()).await;
        }
        let (idle_since, unready_since) = (now - self.settings.session_idle, now - self.settings.handshake);
        if let Err(error) = self.deps.storage.mcp_sessions().delete_idle(idle_since, unready_since).await {
            tracing::warn!(%error, "idle sessions stay in the store until the next round");
        }
        metrics::gauge!("lockkeeper_frontend_sessions").set(u32::try_from(self.table.len()).unwrap_or(u32::MAX));
    }

    /// The sessions in memory, for status pages.
    pub(crate) fn status(&self) -> Vec<SessionStatus> {
        let now = self.now();
        let mut sessions = self.table.all();
        sessions.sort_by_key(|session| session.created);
        sessions.iter().map(|session| record::status(session, now)).collect()
    }

    /// A session whose client never finished the handshake is due early, an open stream notwithstanding.
    fn is_due(&self, session: &Session, now: Timestamp) -> bool {
        let idle = now.since(session.last_seen());
        if !session.is_initialized() && session.calls.is_empty() && idle >= self.settings.handshake {
            return true;
        }
        !session.is_active() && idle >= self.settings.session_idle
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

    async fn sweep_some(&self, sessions: &[Arc<Session>], now: Timestamp) {
        let (due, alive): (Vec<_>, Vec<_>) = sessions.iter().partition(|session| self.is_due(session, now));
        let mut rows = Vec::new();
        for session in due.into_iter().filter(|session| self.remove(session)) {
            tracing::info!(session = ?session.id, "the session was idle for too long and is ended");
            rows.extend(self.row_of(session));
        }
        self.delete(rows).await;
        for session in &alive {
            if session.is_active() {
                session.touch(now);
            }
            session.answers.sweep(Instant::now());
        }
        let changed = alive.into_iter().filter(|session| has_row(session) && session.take_changed());
        self.write(&changed.map(AsRef::as_ref).collect::<Vec<_>>()).await;
    }

    /// Takes a session into memory; the one that makes room for it is ended.
    async fn admit(&self, session: &Arc<Session>) -> Result<(), LimitReached> {
        let evicted = self.table.insert(session, &self.settings, |evicted| self.before_removal(evicted))?;
        if let Some(evicted) = evicted {
            tracing::info!(session = ?evicted.id, "the caller's longest idle session is ended to make room");
            self.after_removal(&evicted);
            self.delete(self.row_of(&evicted).into_iter().collect()).await;
        }
        Ok(())
    }

    /// Looks the session up in the store, and takes it into memory unless it is idle for too long. One that is not there, or
    /// not this caller's, costs one read.
    async fn restore(&self, id: &str, endpoint: &Endpoint, caller: &Caller) -> Result<Arc<Session>, LookupError> {
        let permit = self.lookups.permit(caller.owner()).await.ok_or(LookupError::TooManyLookups)?;
        if let Some(session) = self.in_memory(id) {
            return Ok(session);
        }
        let digest = Digest::sha256(id);
        if self.rows.has_ended(&digest) {
            return Err(LookupError::Unknown);
        }
        let row = self.deps.storage.mcp_sessions().lookup(&digest).await.map_err(|error| {
            tracing::error!(%error, "sessions cannot be looked up");
            LookupError::Unavailable
        })?;
        let now = self.now();
        let row = row.filter(|row| now.since(row.state.last_seen) < self.settings.session_idle);
        let row = row.ok_or(LookupError::Unknown)?;
        let origin = record::origin(&row, SessionId::new(id), caller).ok_or(LookupError::Unknown)?;
        if origin.endpoint != *endpoint {
            return Err(LookupError::Unknown);
        }
        let queue = self.queue(origin.endpoint.binding);
        let session = self.build(origin, queue);
        record::restore(&session, &row);
        session.set_stored();
        session.touch(now);
        self.admit(&session).await.map_err(LookupError::Limit)?;
        drop(permit);
        tracing::info!(session = ?session.id, "a session of the process before this one continues");
        Ok(session)
    }

    fn build(&self, origin: SessionOrigin, queue: Arc<ReplayBuffer>) -> Arc<Session> {
        let settings = &self.settings;
        let ended = self.closed.child_token();
        let prefix = Digest::sha256(self.deps.random.token()).short_hex(4);
        let parts = SessionParts {
            calls: RunningCalls::new(settings.calls_per_session, ended.clone()),
            requests: OpenRequests::new(&prefix, settings.questions_per_session, settings.question_timeout),
            queue,
            answers: AnswerStreams::new(EventIdPrefix::new(prefix), settings),
            ended,
        };
        Arc::new(Session::new(origin, parts))
    }

    async fn write(&self, sessions: &[&Session]) {
        if sessions.is_empty() {
            return;
        }
        let changes = sessions.iter().map(|session| record::change(session)).collect();
        if let Err(error) = self.rows.change(changes).await {
            tracing::warn!(%error, "the activity of sessions is written with the next round");
            for session in sessions {
                session.set_changed();
            }
        }
    }

    /// Takes a session out of memory and ends it; `false` if it had ended.
    fn remove(&self, session: &Session) -> bool {
        let removed = self.table.remove(session, || self.before_removal(session));
        if removed {
            self.after_removal(session);
        }
        removed
    }

    /// Runs before a session leaves the memory: its row is void from now on.
    fn before_removal(&self, session: &Session) {
        if has_row(session) {
            self.rows.mark_ended(Digest::sha256(session.id.as_str()));
        }
    }

    /// Runs after it left.
    fn after_removal(&self, session: &Session) {
        metrics::counter!("lockkeeper_frontend_sessions_ended_total").increment(1);
        session.ended.cancel();
        session.calls.cancel_all();
        self.deps.observer.notify(LifecycleEvent::RequesterEnded(&Requester::Session(session.id.clone())));
    }

    /// The row of a session that ended, if it has one.
    fn row_of(&self, session: &Session) -> Option<Digest> {
        let digest = has_row(session).then(|| Digest::sha256(session.id.as_str()))?;
        if session.is_stored() {
            return Some(digest);
        }
        self.rows.unmark(&digest);
        None
    }

    async fn delete(&self, rows: Vec<Digest>) {
        if rows.is_empty() {
            return;
        }
        if let Err(error) = self.rows.delete(rows).await {
            tracing::error!(%error, "ended sessions stay in the store until the next round");
        }
    }
}

/// The bounds of the queue of a session: one that is its connection has one stream, to which nobody comes back.
fn limits(settings: &Settings, binding: Binding) -> Limits {
    let waiting = settings.queue;
    if binding.is_connection() {
        let replay = Bounds { messages: 0, bytes: 0 };
        return Limits::Standalone { waiting, streams: 1, replay, overflow: Overflow::DropFirst };
    }
    let replay = Bounds { messages: settings.replay_messages, bytes: settings.replay_bytes };
    Limits::Standalone { waiting, streams: settings.streams_per_session, replay, overflow: Overflow::CloseStream }
}

/// Returns `true` if sessions of this kind have rows.
fn has_row(session: &Session) -> bool {
    !session.is_connection()
}

impl fmt::Debug for Deps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deps").finish_non_exhaustive()
    }
}
