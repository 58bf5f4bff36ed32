//! The slot of one connection in a pool: its state, who uses it, and who may continue it.

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

/// The end of a connection whose client needs none any more.
pub(crate) const CLIENT_LEFT: &str = "the client ended its session";

/// Called when a slot may have come free for another client, under no lock of its pool.
pub(super) type PlaceFreed = Arc<dyn Fn() + Send + Sync>;

/// The slot of one connection. It outlives the connection, to record that there was one.
pub(crate) struct Slot {
    pub(super) state: watch::Sender<SlotState>,
    pub(super) used: Mutex<Instant>,
    pub(super) running: AtomicUsize,
    pub(super) lives: AtomicUsize,
    pub(super) bound: Mutex<HashSet<SessionId>>,
    /// The user for whom the connection was opened; others may use it too.
    pub(super) user: UserId,
    /// True if it was opened before the user needed it. The slot goes once a client continues it.
    pub(super) is_spare: bool,
    /// True once a client is to continue the connection.
    pub(super) is_reserved: AtomicBool,
    /// Notified when the last running call ends, while the connection is reserved.
    pub(super) freed: Notify,
    pub(super) place_freed: PlaceFreed,
    /// Cancelled when the slot has left the pool with its client: then nothing may be opened for it.
    pub(super) left: CancellationToken,
    /// The reason for that.
    pub(super) left_because: OnceLock<&'static str>,
    /// The failures to open a connection for this client, which are no other client's.
    pub(crate) circuit: Circuit,
}

/// State of a slot.
#[derive(Clone)]
pub(crate) enum SlotState {
    /// No connection so far.
    New,
    /// A connection is being opened, on which the server is told of this client.
    Starting(Arc<ClientInfo>),
    /// A usable connection, unless it ended at this moment.
    Ready(Arc<ServerConnection>),
    /// The connection is gone. Never in the base slot: a lost base connection is already being reopened.
    Gone,
    /// The connection could not be opened.
    Failed(StartError),
}

/// The right of one client to continue the connection on which the gateway asked for the lists of clients like it.
pub(crate) struct Adoption(pub(super) Arc<Slot>);

/// The right to use a slot. The connection is not idle while a lease is held.
pub(crate) struct Lease(pub(super) Arc<Slot>);

/// A connection and its lease.
pub(crate) struct LeasedConnection {
    /// The lease.
    pub(crate) lease: Lease,
    /// The connection.
    pub(crate) connection: Arc<ServerConnection>,
}

// === impl Slot ===

impl Slot {
    /// A slot without a connection, for this user.
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

    /// Its place in the pool.
    pub(super) fn place<'a>((key, slot): (&'a ConnectionKey, &'a Arc<Self>)) -> TakenPlace<'a, ConnectionKey> {
        TakenPlace { key, user: &slot.user, idle_since: slot.is_idle().then(|| *slot.used.lock()) }
    }

    /// Replaces the state.
    pub(crate) fn set(&self, state: SlotState) {
        if matches!(state, SlotState::Ready(_)) {
            self.lives.fetch_add(1, Ordering::AcqRel);
        }
        self.state.send_replace(state);
        if self.is_idle() {
            (self.place_freed)();
        }
    }

    /// True if the slot has had a connection.
    pub(crate) fn has_lived(&self) -> bool {
        self.lives.load(Ordering::Acquire) > 0
    }

    /// Claims the opening of a connection, on which the server is told of `client`. Returns true if the caller has to open
    /// it.
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

    /// Waits for the connection that is being opened; `None` if it ended before it could be used.
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

    /// Cancelled once it has left the pool.
    pub(crate) const fn left(&self) -> &CancellationToken {
        &self.left
    }

    /// Ends the connection, also one that is being opened.
    pub(crate) fn leave(&self, reason: &'static str) {
        let _ = self.left_because.set(reason);
        self.left.cancel();
        self.end(reason);
    }

    /// The reason for which it has left the pool.
    pub(crate) fn why_left(&self) -> &'static str {
        self.left_because.get().copied().unwrap_or(CLIENT_LEFT)
    }

    /// Ends the connection.
    pub(crate) fn end(&self, reason: &str) {
        if let Some(connection) = self.connection() {
            connection.end(reason);
        }
    }

    /// The era of the connection.
    pub(crate) fn era(&self) -> Option<Era> {
        self.connection().map(|connection| connection.era())
    }

    /// Binds a client session to the connection, to end with it ([`crate::model::OnLoss::End`]).
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

    /// True if it has a connection, or will have one.
    pub(super) fn is_held(&self) -> bool {
        self.is_starting() || self.connection().is_some()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.running.load(Ordering::Acquire) == 0 && !self.is_starting()
    }

    /// True if the connection, once it is open, can become that of this client.
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

    /// The slot.
    pub(crate) const fn slot(&self) -> &Arc<Slot> {
        &self.0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        *self.0.used.lock() = Instant::now();
        // in one order with a reservation, so that one of the two sees the other
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
    /// Waits until the connection is open; false if it cannot be opened.
    pub(crate) async fn is_open(&self) -> bool {
        matches!(self.0.wait().await, Ok(Some(_)))
    }

    /// Waits until no call runs on the connection.
    pub(crate) async fn free(&self) {
        loop {
            let freed = self.0.freed.notified();
            tokio::pin!(freed);
            // no end is missed after this point
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
