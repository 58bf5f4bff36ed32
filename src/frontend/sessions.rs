//! The table of sessions: who may use which, how many there can be, and when they end (design rule 9). Knows nothing of
//! HTTP.
//!
//! Sessions of Streamable HTTP have a row in the store and outlive the process: one that is not in memory is looked up
//! there once. Those of HTTP+SSE are their connection and have none. The store is told of an opening and an ending at
//! once, and of activity by the sweep.

mod record;
mod table;

use std::{fmt, sync::Arc};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::table::Table;
use super::{
    Settings,
    calls::Calls,
    event_id::Mark,
    modern::StateKey,
    outbox::{self, Outbox, Overflow},
    questions::Questions,
    session::{Holders, Opening, Session},
    streams::Streams,
};
use crate::{
    model::{Binding, Caller, Endpoint, SessionId, status::SessionStatus},
    storage::Storage,
    support::{Clock, Digest, Random, Timestamp},
};

/// What the front is given.
#[derive(Clone)]
pub struct Deps {
    /// Where sessions outlive the process.
    pub storage: Storage,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness for session ids.
    pub random: Arc<dyn Random>,
    /// What is sealed under it comes back with the next request, to whichever process of the same store.
    pub state_key: StateKey,
    /// Told of each session that ended, so that the backends end theirs.
    pub ended: Arc<dyn Fn(&SessionId) + Send + Sync>,
}

/// The sessions of all clients.
#[derive(Debug)]
pub(crate) struct Sessions {
    table: Table,
    deps: Deps,
    settings: Settings,
    /// Ends everything that runs, when the gateway does.
    closed: CancellationToken,
    /// Held where the store and the table must agree: looking up what is only there, and ending.
    store: tokio::sync::Mutex<()>,
}

/// Why there is no session to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// There is none of this id, or it ended, or it is another caller's: nobody can tell these apart.
    Unknown,
    /// The store cannot be asked.
    Unavailable,
}

/// Why no session can be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The caller has as many as it may have, and all of them are in use.
    Caller,
    /// The gateway has as many as it can have, and the caller has none to give up.
    Gateway,
}

// === impl Sessions ===

impl Sessions {
    /// No sessions in memory yet.
    pub(crate) fn new(deps: Deps, settings: Settings) -> Self {
        let closed = CancellationToken::new();
        Self { table: Table::default(), deps, settings, closed, store: tokio::sync::Mutex::default() }
    }

    /// The present moment.
    pub(crate) fn now(&self) -> Timestamp {
        self.deps.clock.now()
    }

    /// Opens a session. Where the caller, or the gateway, has as many as allowed, the caller's own session that was idle
    /// longest is ended to make room.
    pub(crate) async fn open(&self, endpoint: Endpoint, owner: Arc<Caller>) -> Result<Arc<Session>, Full> {
        let id = SessionId::new(self.deps.random.token());
        let session = self.build(Opening { id, endpoint, owner, created: self.now() });
        let evicted = self.table.insert_bounded(&session, &self.settings)?;
        if let Some(evicted) = evicted {
            tracing::info!(session = ?evicted.id, "the caller's longest idle session is ended to make room");
            self.end(&evicted).await;
        }
        Ok(session)
    }

    /// Writes the session's row, after its client introduced itself. A session whose row cannot be written lives all the
    /// same, until the process ends.
    pub(crate) async fn keep(&self, session: &Session) {
        let Some(row) = record::row(session) else { return };
        if let Err(error) = self.deps.storage.add_mcp_session(&row).await {
            tracing::warn!(session = ?session.id, %error, "the session will not outlive the process");
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
            None => self.revive(id, caller).await?,
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

    /// Ends a session: from now on it is unknown.
    pub(crate) async fn end(&self, session: &Session) {
        self.end_all(&[session]).await;
    }

    /// Ends the session of this id, where it is in memory.
    pub(crate) async fn end_by_id(&self, id: &SessionId) {
        if let Some(session) = self.table.get(id.as_str()) {
            self.end(&session).await;
        }
    }

    /// Ends a session that has no row.
    pub(crate) fn forget(&self, session: &Session) {
        if self.table.remove(&session.id) {
            metrics::counter!("lockkeeper_frontend_sessions_ended_total").increment(1);
            session.ended.cancel();
            (self.deps.ended)(&session.id);
        }
    }

    /// Ends what runs in every session; the sessions themselves stay in the store.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    /// Ends the sessions that are due, in memory and in the store, and tells the store what changed.
    pub(crate) async fn sweep(&self) {
        let now = self.now();
        let (due, alive): (Vec<_>, Vec<_>) =
            self.table.all().into_iter().partition(|session| self.is_due(session, now));
        for session in &due {
            tracing::info!(session = ?session.id, "the session was idle for too long and is ended");
        }
        self.end_all(&due.iter().map(AsRef::as_ref).collect::<Vec<_>>()).await;
        for session in alive.iter().filter(|session| session.is_active()) {
            session.touch(now);
        }
        for session in &alive {
            session.streams.sweep(Instant::now());
        }
        let changed = alive.iter().filter(|session| has_row(session) && session.take_changed());
        self.write(&changed.map(AsRef::as_ref).collect::<Vec<_>>()).await;
        let (idle_since, unready_since) = (now - self.settings.session_idle, now - self.settings.handshake);
        if let Err(error) = self.deps.storage.delete_idle_mcp_sessions(idle_since, unready_since).await {
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

    /// Looks the session up in the store, and takes it into memory where it is not idle for too long.
    async fn revive(&self, id: &str, caller: &Caller) -> Result<Arc<Session>, Missing> {
        let _store = self.store.lock().await;
        if let Some(session) = self.table.get(id) {
            return Ok(session);
        }
        let row = self.deps.storage.lookup_mcp_session(&Digest::sha256(id)).await.map_err(|error| {
            tracing::error!(%error, "sessions cannot be looked up");
            Missing::Unavailable
        })?;
        let row = row.ok_or(Missing::Unknown)?;
        if self.now().since(row.state.last_seen) >= self.settings.session_idle {
            return Err(Missing::Unknown);
        }
        let opening = record::opening(&row, SessionId::new(id), caller).ok_or(Missing::Unknown)?;
        let session = self.build(opening);
        record::restore(&session, &row);
        tracing::info!(session = ?session.id, "a session of the process before this one goes on");
        self.table.insert(&session);
        Ok(session)
    }

    fn build(&self, opening: Opening) -> Arc<Session> {
        let settings = &self.settings;
        let mark = Digest::sha256(self.deps.random.token()).short_hex(4);
        let holders = Holders {
            calls: Calls::new(settings.calls_per_session),
            questions: Questions::new(&mark, settings.questions_per_session, settings.question_timeout),
            outbox: Outbox::new(bounds(settings, opening.endpoint.binding)),
            streams: Streams::new(Mark::new(mark), settings),
            ended: self.closed.child_token(),
        };
        Arc::new(Session::new(opening, holders))
    }

    async fn write(&self, sessions: &[&Session]) {
        let rows: Vec<_> = sessions.iter().map(|session| record::change(session)).collect();
        if let Err(error) = self.deps.storage.update_mcp_sessions(&rows).await {
            tracing::warn!(%error, "the activity of sessions is written with the next round");
            for session in sessions {
                session.keep_changed();
            }
        }
    }

    async fn end_all(&self, sessions: &[&Session]) {
        let _store = self.store.lock().await;
        let rows = sessions.iter().filter(|session| has_row(session));
        let rows: Vec<_> = rows.map(|session| Digest::sha256(session.id.as_str())).collect();
        for session in sessions {
            self.forget(session);
        }
        if let Err(error) = self.deps.storage.delete_mcp_sessions(&rows).await {
            tracing::error!(%error, "an ended session stays in the store until it is idle for too long");
        }
    }
}

/// What waits in sessions of this kind: an HTTP+SSE connection has one stream, to which nobody comes back.
fn bounds(settings: &Settings, binding: Binding) -> outbox::Bounds {
    let (kept, overflow, streams) = match binding {
        Binding::Mcp => {
            ((settings.replay_messages, settings.replay_bytes), Overflow::CloseStream, settings.streams_per_session)
        }
        Binding::Sse => ((0, 0), Overflow::DropFirst, 1),
    };
    outbox::Bounds { waiting: settings.queue, streams, kept, overflow }
}

/// Whether the store knows sessions of this kind.
fn has_row(session: &Session) -> bool {
    session.endpoint.binding == Binding::Mcp
}

impl fmt::Debug for Deps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deps").finish_non_exhaustive()
    }
}
