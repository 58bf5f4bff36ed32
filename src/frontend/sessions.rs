//! The table of sessions: who may use which, how many there can be, and when they end (design rule 9). Knows nothing of
//! HTTP.
//!
//! Sessions of Streamable HTTP have a row in the store and outlive the process: one that is not in memory is looked up
//! there once. Those of HTTP+SSE are their connection and have none. The store is told of an opening and an ending at
//! once, and of activity by the sweep.
//!
//! A session that ended never comes back. It is marked as ended before it leaves the memory, and the mark stays until its
//! row is deleted. A look-up reads the mark after it has the turn of its caller and before it reads the row; only the owner
//! of a session takes it into memory, and has one turn. No lock is held while the store is asked but that turn.

mod error;
mod lookups;
mod record;
mod rows;
mod table;

use std::{fmt, sync::Arc};

use tokio::{task::yield_now, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use self::error::{Full, Missing};
use self::{
    lookups::Lookups,
    rows::{NotWritten, Rows},
    table::Table,
};
use super::{
    replay::{Bounds, Limits, Overflow, ReplayBuffer, event_id::EventIdPrefix, streams::AnswerStreams},
    server_requests::Questions,
    session::{Holders, Opening, Session, calls::RunningCalls},
    settings::Settings,
};
use crate::{
    model::{Binding, Caller, Endpoint, Requester, SessionId, status::SessionStatus},
    storage::Storage,
    support::{Clock, Digest, Random, Timestamp},
};

/// How many sessions the sweep looks at before it lets others run, and writes in one transaction.
const SWEPT_TOGETHER: usize = 256;
/// How many look-ups in the store wait for each session that a caller may have: a client that comes back after a restart
/// of the gateway sends a few requests at once.
const LOOKUPS_PER_SESSION: usize = 4;

/// What the front is given.
#[derive(Clone)]
pub struct Deps {
    /// Where sessions outlive the process.
    pub storage: Storage,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness for session ids.
    pub random: Arc<dyn Random>,
    /// Told of each session and of each listen without one that ended, so that the backends let go of what was held for it.
    pub ended: Arc<dyn Fn(&Requester) + Send + Sync>,
}

/// The sessions of all clients.
#[derive(Debug)]
pub(crate) struct Sessions {
    table: Table,
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
        let (table, closed) = (Table::default(), CancellationToken::new());
        let rows = Rows::new(deps.storage.clone(), tracker);
        let lookups = Lookups::new(settings.sessions_per_caller.saturating_mul(LOOKUPS_PER_SESSION));
        Self { table, deps, settings, closed, rows, lookups }
    }

    /// The present moment.
    pub(crate) fn now(&self) -> Timestamp {
        self.deps.clock.now()
    }

    /// Opens a session. Where the caller, or the gateway, has as many as allowed, the caller's own session that was idle
    /// longest is ended to make room.
    pub(crate) async fn open(&self, endpoint: Endpoint, owner: Arc<Caller>) -> Result<Arc<Session>, Full> {
        self.open_on(self.queue(endpoint.binding), endpoint, owner).await
    }

    /// Opens a session that says what it says outside of streamed answers by this queue.
    pub(crate) async fn open_on(
        &self,
        queue: Arc<ReplayBuffer>,
        endpoint: Endpoint,
        owner: Arc<Caller>,
    ) -> Result<Arc<Session>, Full> {
        let id = SessionId::new(self.deps.random.token());
        let session = self.build(Opening { id, endpoint, owner, created: self.now() }, queue);
        self.admit(&session).await?;
        Ok(session)
    }

    /// The queue of a session, or of a connection that may have one.
    pub(crate) fn queue(&self, binding: Binding) -> Arc<ReplayBuffer> {
        ReplayBuffer::new(limits(&self.settings, binding))
    }

    /// Writes the session's row, after its client introduced itself. A session whose row cannot be written lives all the
    /// same, until the process ends.
    pub(crate) async fn keep(&self, session: &Session) {
        let Some(row) = record::row(session).filter(|_| has_row(session)) else { return };
        session.set_kept();
        match self.rows.add(row, &session.ended).await {
            Ok(()) | Err(NotWritten::Ended) => {}
            Err(error) => tracing::warn!(session = ?session.id, %error, "the session will not outlive the process"),
        }
    }

    /// Writes what changed of one session.
    pub(crate) async fn save(&self, session: &Session) {
        if has_row(session) && session.take_changed() {
            self.write(&[session]).await;
        }
    }

    /// The session `id`, where it was opened at `endpoint` by this caller.
    pub(crate) async fn find(&self, id: &str, endpoint: &Endpoint, caller: &Caller) -> Result<Arc<Session>, Missing> {
        let session = match self.table.get(id) {
            Some(session) => session,
            None => self.revive(id, endpoint, caller).await?,
        };
        if session.endpoint != *endpoint {
            return Err(Missing::Unknown);
        }
        self.check(session, caller)
    }

    /// The session `id` whose HTTP+SSE connection is open, where it was opened by this caller.
    pub(crate) fn find_connected(&self, id: &str, caller: &Caller) -> Result<Arc<Session>, Missing> {
        let session = self.table.get(id).filter(|session| session.is_connection()).ok_or(Missing::Unknown)?;
        self.check(session, caller)
    }

    /// Ends a session: from now on it is unknown. Returns when the store has forgotten it too; where the future is dropped
    /// before, it does all the same.
    pub(crate) async fn end(&self, session: &Session) {
        if self.remove(session) {
            self.delete(self.row_of(session).into_iter().collect()).await;
        }
    }

    /// Ends the session of this id, where it is in memory.
    pub(crate) async fn end_by_id(&self, id: &SessionId) {
        if let Some(session) = self.table.get(id.as_str()) {
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

    /// Ends what runs in every session; the sessions themselves stay in the store.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    /// Ends the sessions that are due, in memory and in the store, and tells the store what changed.
    pub(crate) async fn sweep(&self) {
        let now = self.now();
        for sessions in self.table.all().chunks(SWEPT_TOGETHER) {
            self.sweep_some(sessions, now).await;
            yield_now().await;
        }
        // those whose deletion failed before, or whose client did not wait for it
        for rows in self.rows.left().chunks(SWEPT_TOGETHER) {
            self.delete(rows.to_vec()).await;
        }
        let (idle_since, unready_since) = (now - self.settings.session_idle, now - self.settings.handshake);
        if let Err(error) = self.deps.storage.mcp_sessions().delete_idle(idle_since, unready_since).await {
            tracing::warn!(%error, "idle sessions stay in the store until the next round");
        }
        metrics::gauge!("lockkeeper_frontend_sessions").set(u32::try_from(self.table.len()).unwrap_or(u32::MAX));
    }

    /// The sessions in memory, for people.
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

    fn check(&self, session: Arc<Session>, caller: &Caller) -> Result<Arc<Session>, Missing> {
        if !session.owner.owns_the_same_as(caller) {
            return Err(Missing::Unknown);
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
    async fn admit(&self, session: &Arc<Session>) -> Result<(), Full> {
        let evicted = self.table.insert(session, &self.settings, |evicted| self.leaving(evicted))?;
        if let Some(evicted) = evicted {
            tracing::info!(session = ?evicted.id, "the caller's longest idle session is ended to make room");
            self.removed(&evicted);
            self.delete(self.row_of(&evicted).into_iter().collect()).await;
        }
        Ok(())
    }

    /// Looks the session up in the store, and takes it into memory where it is not idle for too long. One that is not
    /// there, or not this caller's, costs one read.
    async fn revive(&self, id: &str, endpoint: &Endpoint, caller: &Caller) -> Result<Arc<Session>, Missing> {
        let turn = self.lookups.turn(caller.owner()).await.ok_or(Missing::Waiting)?;
        if let Some(session) = self.table.get(id) {
            return Ok(session);
        }
        let digest = Digest::sha256(id);
        if self.rows.has_ended(&digest) {
            return Err(Missing::Unknown);
        }
        let row = self.deps.storage.mcp_sessions().lookup(&digest).await.map_err(|error| {
            tracing::error!(%error, "sessions cannot be looked up");
            Missing::Unavailable
        })?;
        let now = self.now();
        let row = row.filter(|row| now.since(row.state.last_seen) < self.settings.session_idle);
        let row = row.ok_or(Missing::Unknown)?;
        let opening = record::opening(&row, SessionId::new(id), caller).ok_or(Missing::Unknown)?;
        if opening.endpoint != *endpoint {
            return Err(Missing::Unknown);
        }
        let queue = self.queue(opening.endpoint.binding);
        let session = self.build(opening, queue);
        record::restore(&session, &row);
        session.set_kept();
        session.touch(now);
        self.admit(&session).await.map_err(Missing::Full)?;
        drop(turn);
        tracing::info!(session = ?session.id, "a session of the process before this one goes on");
        Ok(session)
    }

    fn build(&self, opening: Opening, queue: Arc<ReplayBuffer>) -> Arc<Session> {
        let settings = &self.settings;
        let mark = Digest::sha256(self.deps.random.token()).short_hex(4);
        let holders = Holders {
            calls: RunningCalls::new(settings.calls_per_session),
            questions: Questions::new(&mark, settings.questions_per_session, settings.question_timeout),
            queue,
            answers: AnswerStreams::new(EventIdPrefix::new(mark), settings),
            ended: self.closed.child_token(),
        };
        Arc::new(Session::new(opening, holders))
    }

    async fn write(&self, sessions: &[&Session]) {
        if sessions.is_empty() {
            return;
        }
        let changes = sessions.iter().map(|session| record::change(session)).collect();
        if let Err(error) = self.rows.change(changes).await {
            tracing::warn!(%error, "the activity of sessions is written with the next round");
            for session in sessions {
                session.keep_changed();
            }
        }
    }

    /// Takes a session out of memory and ends it; `false` where it had ended.
    fn remove(&self, session: &Session) -> bool {
        let removed = self.table.remove(session, || self.leaving(session));
        if removed {
            self.removed(session);
        }
        removed
    }

    /// Before a session leaves the memory: its row counts for nothing from now on.
    fn leaving(&self, session: &Session) {
        if has_row(session) {
            self.rows.ending(Digest::sha256(session.id.as_str()));
        }
    }

    /// After it left.
    fn removed(&self, session: &Session) {
        metrics::counter!("lockkeeper_frontend_sessions_ended_total").increment(1);
        session.ended.cancel();
        (self.deps.ended)(&Requester::Session(session.id.clone()));
    }

    /// The row that is to be deleted of a session that ended.
    fn row_of(&self, session: &Session) -> Option<Digest> {
        let digest = has_row(session).then(|| Digest::sha256(session.id.as_str()))?;
        if session.is_kept() {
            return Some(digest);
        }
        self.rows.has_none(&digest);
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

/// The bounds of what waits in sessions of this kind: one that is its connection has one stream, to which nobody comes
/// back.
fn limits(settings: &Settings, binding: Binding) -> Limits {
    let waiting = settings.queue;
    if binding.is_connection() {
        let kept = Bounds { messages: 0, bytes: 0 };
        return Limits::Standalone { waiting, streams: 1, kept, overflow: Overflow::DropFirst };
    }
    let kept = Bounds { messages: settings.replay_messages, bytes: settings.replay_bytes };
    Limits::Standalone { waiting, streams: settings.streams_per_session, kept, overflow: Overflow::CloseStream }
}

/// Whether the store knows sessions of this kind.
fn has_row(session: &Session) -> bool {
    !session.is_connection()
}

impl fmt::Debug for Deps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deps").finish_non_exhaustive()
    }
}
