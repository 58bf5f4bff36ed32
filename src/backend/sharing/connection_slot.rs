//! Slot of one connection in a pool: its state, who uses it, and which client may take it over.

use std::{
    collections::HashSet,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{circuit::Circuit, connection_key::ConnectionKey, room::TakenPlace};
use crate::{
    backend::{connection::ServerConnection, error::StartError},
    mcp::{ClientInfo, Era},
    model::{SessionId, UserId},
};

/// Reason for ending a connection whose client has left.
pub(crate) const CLIENT_LEFT: &str = "the client ended its session";

/// Called without a lock of the pool when a slot may have become free for another client.
pub(super) type PlaceFreed = Arc<dyn Fn() + Send + Sync>;

/// The slot of one connection. It outlives the connection, to know that there was one.
pub(crate) struct Slot {
    pub(super) state: watch::Sender<SlotState>,
    pub(super) used: Mutex<Instant>,
    pub(super) running: AtomicUsize,
    pub(super) lives: AtomicUsize,
    pub(super) bound: Mutex<HashSet<SessionId>>,
    /// User for whom the connection was opened; others may use it too.
    pub(super) user: UserId,
    /// True if it was opened before the user needed it. It leaves the pool when a client takes the connection over.
    pub(super) is_spare: bool,
    /// True once a client is about to take the connection over.
    pub(super) is_reserved: AtomicBool,
    /// Wakes when the last running call ends on a reserved connection.
    pub(super) freed: Notify,
    pub(super) place_freed: PlaceFreed,
    /// Cancelled when the slot leaves the pool together with its client. Nothing may be opened for it afterwards.
    pub(super) left: CancellationToken,
    /// Why it left the pool.
    pub(super) left_because: OnceLock<&'static str>,
    /// Circuit breaker for this client only.
    pub(crate) circuit: Circuit,
}

#[derive(Clone)]
pub(crate) enum SlotState {
    /// No connection so far.
    New,
    /// A connection is being opened, which introduces this client to the server.
    Starting(Arc<ClientInfo>),
    /// A usable connection, unless it has just ended.
    Ready(Arc<ServerConnection>),
    /// The connection is gone. Never in the base slot: a lost base connection is already being reopened.
    Gone,
    /// The connection could not be opened.
    Failed(StartError),
}

/// The right of one client to take over the connection on which the gateway fetched lists for clients like it.
pub(crate) struct Adoption(pub(super) Arc<Slot>);

/// The right to use a slot. A leased connection does not count as idle.
pub(crate) struct Lease(pub(super) Arc<Slot>);

pub(crate) struct LeasedConnection {
    pub(crate) lease: Lease,
    pub(crate) connection: Arc<ServerConnection>,
}

// === impl Slot ===

impl Slot {
    /// Creates a slot for `user`, without a connection.
    pub(super) fn new(user: UserId, place_freed: PlaceFreed) -> Self {
        Self {
            state: watch::Sender::new(SlotState::New),
            used: Mutex::new(Instant::now()),
            running: AtomicUsize::new(0),
            lives: AtomicUsize::new(0),
            bound: Mutex::default(),
            user,
            is_spare: false,
            is_reserved: AtomicBool::new(false),
            freed: Notify::new(),
            place_freed,
            left: CancellationToken::new(),
            left_because: OnceLock::new(),
            circuit: Circuit::default(),
        }
    }

    /// Describes the slot for [`find_room`](super::room::find_room).
    pub(super) fn place<'a>(&'a self, key: &'a ConnectionKey) -> TakenPlace<'a, ConnectionKey> {
        TakenPlace { key, user: &self.user, idle_since: self.is_idle().then(|| *self.used.lock()) }
    }

    /// Replaces the state, and announces a place that became free.
    pub(crate) fn set(&self, state: SlotState) {
        if matches!(state, SlotState::Ready(_)) {
            self.lives.fetch_add(1, Ordering::AcqRel);
        }
        self.state.send_replace(state);
        if self.is_idle() {
            (self.place_freed)();
        }
    }

    /// True if a connection was ever open in this slot.
    pub(crate) fn has_lived(&self) -> bool {
        self.lives.load(Ordering::Acquire) > 0
    }

    /// Claims the opening of a connection, which introduces `client` to the server. Returns true if the caller must
    /// open it.
    pub(crate) fn begin(&self, client: &Arc<ClientInfo>) -> bool {
        self.state.send_if_modified(|state| {
            let vacant = match state {
                SlotState::New | SlotState::Gone | SlotState::Failed(_) => true,
                SlotState::Ready(connection) => connection.is_over(),
                SlotState::Starting(_) => false,
            };
            if vacant {
                *state = SlotState::Starting(Arc::clone(client));
            }
            vacant
        })
    }

    /// Waits until the connection is open; `None` if it ended at once.
    pub(crate) async fn wait(&self) -> Result<Option<Arc<ServerConnection>>, StartError> {
        let mut changes = self.state.subscribe();
        loop {
            match &*changes.borrow_and_update() {
                SlotState::Ready(connection) if !connection.is_over() => return Ok(Some(Arc::clone(connection))),
                SlotState::Gone => return Ok(None),
                SlotState::Failed(error) => return Err(error.clone()),
                _ => {}
            }
            if changes.changed().await.is_err() {
                return Err(StartError::Stopping);
            }
        }
    }

    /// Records the end of the connection.
    pub(crate) fn gone(&self) {
        self.state.send_if_modified(|state| {
            let over = matches!(state, SlotState::Ready(connection) if connection.is_over());
            if over {
                *state = SlotState::Gone;
            }
            over
        });
    }

    /// Cancelled once the slot has left the pool.
    pub(crate) const fn left(&self) -> &CancellationToken {
        &self.left
    }

    /// Marks the slot as having left the pool, and ends its connection, even one that is being opened.
    pub(crate) fn leave(&self, reason: &'static str) {
        let _ = self.left_because.set(reason);
        self.left.cancel();
        self.end(reason);
    }

    /// Why the slot left the pool.
    pub(crate) fn why_left(&self) -> &'static str {
        self.left_because.get().copied().unwrap_or(CLIENT_LEFT)
    }

    /// Ends the connection, if one is open.
    pub(crate) fn end(&self, reason: &str) {
        if let Some(connection) = self.connection() {
            connection.end(reason);
        }
    }

    /// Era of the connection; `None` without one.
    pub(crate) fn era(&self) -> Option<Era> {
        self.connection().map(|connection| connection.era())
    }

    /// Records that a client session used the connection, so that it ends with it ([`crate::model::OnLoss::End`]).
    pub(crate) fn bind(&self, client: &SessionId) {
        self.bound.lock().insert(client.clone());
    }

    /// Takes the client sessions that were bound to the connection.
    pub(crate) fn take_bound(&self) -> HashSet<SessionId> {
        std::mem::take(&mut self.bound.lock())
    }

    /// The connection, if it is usable.
    pub(crate) fn connection(&self) -> Option<Arc<ServerConnection>> {
        match &*self.state.borrow() {
            SlotState::Ready(connection) if !connection.is_over() => Some(Arc::clone(connection)),
            _ => None,
        }
    }

    /// True while a connection is being opened.
    pub(crate) fn is_starting(&self) -> bool {
        matches!(&*self.state.borrow(), SlotState::Starting(_))
    }

    /// True if a connection is open or being opened.
    pub(super) fn is_held(&self) -> bool {
        self.is_starting() || self.connection().is_some()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.running.load(Ordering::Acquire) == 0 && !self.is_starting()
    }

    /// True if `client` may take over the connection, once it is open.
    pub(super) fn suits(&self, client: &ClientInfo) -> bool {
        match &*self.state.borrow() {
            SlotState::Starting(told) => told.is_introduced_as(client),
            SlotState::Ready(connection) => !connection.is_over() && connection.suits(client),
            SlotState::New | SlotState::Gone | SlotState::Failed(_) => false,
        }
    }
}

// === impl Lease ===

impl Lease {
    pub(super) fn new(slot: &Arc<Slot>) -> Self {
        slot.running.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(slot))
    }

    pub(crate) const fn slot(&self) -> &Arc<Slot> {
        &self.0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        *self.0.used.lock() = Instant::now();
        // sequentially consistent with a reservation, so that one of the two sees the other
        if self.0.running.fetch_sub(1, Ordering::SeqCst) > 1 {
            return;
        }
        if self.0.is_reserved.load(Ordering::SeqCst) {
            self.0.freed.notify_waiters();
        }
        (self.0.place_freed)();
    }
}

// === impl Adoption ===

impl Adoption {
    /// Waits until the connection is open; false if opening failed.
    pub(crate) async fn is_open(&self) -> bool {
        matches!(self.0.wait().await, Ok(Some(_)))
    }

    /// Waits until no call runs on the connection.
    pub(crate) async fn free(&self) {
        loop {
            let freed = self.0.freed.notified();
            tokio::pin!(freed);
            // from here on, no wake-up is lost
            freed.as_mut().enable();
            if self.0.running.load(Ordering::SeqCst) == 0 {
                return;
            }
            freed.await;
        }
    }
}

impl Drop for Adoption {
    fn drop(&mut self) {
        self.0.is_reserved.store(false, Ordering::SeqCst);
    }
}
