//! Ends sessions: for their clients, in the sweep, and to make room.

use std::sync::Arc;

use tokio::{task::yield_now, time::Instant};

use super::{Sessions, ends_with_row, has_row, record};
use crate::{
    frontend::session::Session,
    model::{Caller, Requester, SessionId, UserId},
    storage::mcp_sessions::InactiveSince,
    support::{Digest, Timestamp},
};

/// Number of sessions that the sweep checks before it lets others run, and that it writes in one transaction.
const SWEEP_BATCH: usize = 256;

// === impl Sessions ===

impl Sessions {
    /// Ends a session, which is unknown from now on. Returns once its row is deleted. The row is deleted even if the
    /// future is dropped before.
    pub(crate) async fn end(&self, session: &Session) {
        if self.remove(session) {
            self.delete(self.row_of(session).into_iter().collect()).await;
        }
    }

    /// Ends the session with this id, if it is in memory.
    pub(crate) async fn end_by_id(&self, id: &SessionId) {
        if let Some(session) = self.in_memory(id.as_str()) {
            self.end(&session).await;
        }
    }

    /// Ends the sessions of a user that are in memory, if their owner is one of these.
    pub(crate) async fn end_of_user(&self, user: &UserId, is_ended: impl Fn(&Caller) -> bool) {
        for session in self.table.of_user(user).into_iter().filter(|session| is_ended(&session.owner)) {
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

    /// Hands a session over to another replica. Returns `false` if it has running calls or tasks.
    pub(crate) async fn give_up(&self, id: &str) -> bool {
        let Some(session) = self.in_memory(id) else { return true };
        if !session.calls.is_empty() || self.tasks.has(&session.id) {
            return false;
        }
        if self.table.remove(&session, || {}) {
            self.after_removal(&session);
            let (digest, state) = record::change(&session);
            if let Err(error) = self.rows.give_up(digest, state).await {
                tracing::warn!(%error, "a session goes on elsewhere only when this replica has left");
            }
        }
        true
    }

    /// Ends all calls and streams. The sessions themselves stay in the store.
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
        // rows whose deletion failed earlier, or whose clients did not wait for it
        for rows in self.rows.undeleted().chunks(SWEEP_BATCH) {
            self.delete(rows.to_vec()).await;
        }
        metrics::gauge!("lockkeeper_frontend_sessions").set(u32::try_from(self.table.len()).unwrap_or(u32::MAX));
    }

    /// Deletes the idle sessions that are only in the store.
    pub(crate) async fn delete_idle_rows(&self) {
        let now = self.now();
        let ready = now - self.settings.limits.get().session_idle;
        // a replica writes the activity of its sessions in each round, and may be a little late
        let elsewhere = ready - self.settings.sweep_every * 2;
        let since = InactiveSince { now, ready, unready: now - self.settings.handshake, elsewhere };
        if let Err(error) = self.deps.storage.mcp_sessions().delete_idle(self.deps.replica, since).await {
            tracing::warn!(%error, "idle sessions stay in the store until the next round");
        }
    }

    /// True if the session must end now. A session whose client never finished the handshake is due early, even with an
    /// open stream.
    fn is_due(&self, session: &Session, now: Timestamp) -> bool {
        let idle = now.since(session.last_seen());
        if !session.is_initialized() && session.calls.is_empty() && idle >= self.settings.handshake {
            return true;
        }
        !session.is_active() && idle >= self.settings.limits.get().session_idle
    }

    async fn sweep_some(&self, sessions: &[Arc<Session>], now: Timestamp) {
        let (due, alive): (Vec<_>, Vec<_>) = sessions.iter().partition(|session| self.is_due(session, now));
        let mut rows = Vec::new();
        for session in due.into_iter().filter(|session| self.remove(session)) {
            tracing::info!(session = %session.id, "the session was idle for too long and is ended");
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

    pub(super) async fn write(&self, sessions: &[&Session]) {
        if sessions.is_empty() {
            return;
        }
        let replica = self.deps.replica;
        let rows =
            sessions.iter().filter_map(|session| Some((record::row(session, replica)?, &session.ended))).collect();
        if let Err(error) = self.rows.keep(rows).await {
            tracing::warn!(%error, "the activity of sessions is written with the next round");
            for session in sessions {
                session.set_changed();
            }
        }
    }

    /// Takes a session out of memory and ends it. Returns `false` if it had ended already.
    fn remove(&self, session: &Session) -> bool {
        let removed = self.table.remove(session, || self.before_removal(session));
        if removed {
            self.after_removal(session);
        }
        removed
    }

    /// Runs before a session leaves the memory. Its row no longer counts afterwards.
    pub(super) fn before_removal(&self, session: &Session) {
        if ends_with_row(session) {
            self.rows.mark_ended(Digest::sha256(session.id.as_str()));
        }
    }

    /// Runs after a session has left the memory.
    pub(super) fn after_removal(&self, session: &Session) {
        metrics::counter!("lockkeeper_frontend_sessions_ended_total").increment(1);
        session.ended.cancel();
        session.calls.cancel_all();
        session.leave_subscriptions();
        self.tasks.forget(&session.id);
        self.deps.observer.ended(&Requester::Session(session.id.clone()));
    }

    /// The row of a session that ended; `None` if it has none.
    pub(super) fn row_of(&self, session: &Session) -> Option<Digest> {
        let digest = ends_with_row(session).then(|| Digest::sha256(session.id.as_str()))?;
        if session.is_stored() {
            return Some(digest);
        }
        self.rows.unmark(&digest);
        None
    }

    pub(super) async fn delete(&self, rows: Vec<Digest>) {
        if rows.is_empty() {
            return;
        }
        if let Err(error) = self.rows.delete(rows).await {
            tracing::error!(%error, "ended sessions stay in the store until the next round");
        }
    }
}
