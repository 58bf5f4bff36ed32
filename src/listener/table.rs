//! The table of open connections: a fixed number of slots, each with the state of its connection.
//!
//! A request writes one word of the table and takes no lock. Opening or closing a connection locks the list of free
//! slots. The search for a connection to close reads the words one after another: 16,384 of them are 128 KiB.

use std::{
    cmp::Reverse,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use super::{
    state::{ConnectionState, Stamped},
    users::ConnectionUsers,
};
use crate::model::UserId;

/// Maximum number of new searches, for the case that the connection found has just begun a request.
const SEARCHES: usize = 8;

/// Milliseconds for which a new connection, or a head that has just begun, is not closed, because its task may not have
/// run yet.
const HEAD_GRACE: u64 = 50;

/// Milliseconds after which a head or body counts as stuck, and a response as unread. Before that, idle connections are
/// closed first, because a request over a slow network looks the same, and so does a request whose handler has not read
/// the body yet.
const LATE: u64 = 1_000;

/// A user has many connections if they have more than the capacity divided by this.
const MANY: usize = 8;

/// Rank of the state, number of the user's connections, and time of the last state change: the lowest goes first.
type EvictionOrder = (u8, Reverse<usize>, u64);

#[derive(Debug)]
pub(super) struct Table {
    states: Box<[AtomicU64]>,
    users: ConnectionUsers,
    free: Mutex<Vec<usize>>,
    released: Notify,
    started: Instant,
}

/// The slot of one open connection. Dropping it frees the slot, so it lives exactly as long as the socket.
#[derive(Debug)]
pub(super) struct ConnectionSlot(SlotStatus);

/// Access to the state of one connection. Only the task with the [`ConnectionSlot`] changes it.
#[derive(Debug, Clone)]
pub(super) struct SlotStatus {
    table: Arc<Table>,
    index: usize,
}

/// The connection of a request; stored as a request extension.
#[derive(Debug, Clone)]
pub struct ConnectionPlace {
    status: SlotStatus,
    peer: SocketAddr,
}

/// The connection is being closed to make room for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection is closed to make room for another")]
pub(super) struct Evicted;

// === impl Table ===

impl Table {
    /// A table of `capacity` free slots.
    pub(super) fn new(capacity: usize) -> Arc<Self> {
        let free = Stamped { state: ConnectionState::Free, since: 0 }.pack();
        Arc::new(Self {
            states: (0..capacity).map(|_| AtomicU64::new(free)).collect(),
            users: ConnectionUsers::new(capacity),
            free: Mutex::new((0..capacity).rev().collect()),
            released: Notify::new(),
            started: Instant::now(),
        })
    }

    /// Takes a free slot, in the state [`ConnectionState::Head`]; `None` if there is none.
    pub(super) fn take(self: &Arc<Self>) -> Option<ConnectionSlot> {
        let index = self.free.lock().pop()?;
        let since = self.millis(Instant::now());
        self.states[index].store(Stamped { state: ConnectionState::Head, since }.pack(), Ordering::Release);
        metrics::gauge!("lockkeeper_connections").increment(1.0);
        Some(ConnectionSlot(SlotStatus { table: Arc::clone(self), index }))
    }

    /// Picks the connection to close first among those that `eligible` accepts, and prevents it from starting a
    /// request. The lowest [`ConnectionState::eviction_rank`] goes first, then a connection without a user or of the
    /// user with the most, then the one longest in its state. The caller ends its task.
    pub(super) fn evict(&self, eligible: impl Fn(usize) -> bool) -> Option<(usize, ConnectionState)> {
        for _ in 0..SEARCHES {
            let (index, found) = self.first_to_go(&eligible)?;
            let evicted = Stamped { state: ConnectionState::Evicted, since: found.since }.pack();
            let word = &self.states[index];
            if word.compare_exchange(found.pack(), evicted, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Some((index, found.state));
            }
        }
        None
    }

    fn first_to_go(&self, eligible: impl Fn(usize) -> bool) -> Option<(usize, Stamped)> {
        let now = self.millis(Instant::now());
        let counts = self.users.counts();
        let mut first: Option<(EvictionOrder, usize, Stamped)> = None;
        for (index, word) in self.states.iter().enumerate() {
            let stamped = Stamped::unpack(word.load(Ordering::Relaxed));
            let age = now.saturating_sub(stamped.since);
            let rank = match stamped.state {
                ConnectionState::Head if age < HEAD_GRACE => continue,
                ConnectionState::Head | ConnectionState::Body if age < LATE => ConnectionState::RECENT_RANK,
                ConnectionState::Stalled if age >= LATE && counts.of(index) > self.states.len() / MANY => {
                    ConnectionState::LATE_RANK
                }
                state => state.eviction_rank(),
            };
            let Some(rank) = rank else { continue };
            let order = (rank, Reverse(counts.of(index)), stamped.since);
            if first.is_none_or(|(least, ..)| order < least) && eligible(index) {
                first = Some((order, index, stamped));
            }
        }
        first.map(|(_, index, stamped)| (index, stamped))
    }

    /// Waits until a slot has been freed since the last call.
    pub(super) async fn released(&self) {
        self.released.notified().await;
    }

    /// Waits until no connection is open.
    pub(super) async fn empty(&self) {
        while self.free.lock().len() < self.states.len() {
            self.released().await;
        }
    }

    fn millis(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.started).as_millis()).unwrap_or(u64::MAX)
    }
}

// === impl ConnectionSlot ===

impl ConnectionSlot {
    pub(super) fn entry(&self) -> SlotStatus {
        self.0.clone()
    }

    pub(super) const fn index(&self) -> usize {
        self.0.index
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let SlotStatus { table, index } = &self.0;
        table.users.leave(*index);
        table.states[*index].store(Stamped { state: ConnectionState::Free, since: 0 }.pack(), Ordering::Release);
        table.free.lock().push(*index);
        table.released.notify_one();
        metrics::gauge!("lockkeeper_connections").decrement(1.0);
    }
}

// === impl ConnectionPlace ===

impl ConnectionPlace {
    /// The connection with this state, from this address.
    pub(super) fn new(status: &SlotStatus, peer: SocketAddr) -> Self {
        Self { status: status.clone(), peer }
    }

    /// True for a connection to a Unix socket: TCP connections have a port.
    pub const fn is_of_this_machine(&self) -> bool {
        self.peer.port() == 0
    }

    pub const fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Counts the connection for this user, who sent a request on it. Returns `false` if the user has reached the
    /// maximum: seven eighths of all.
    pub fn hold_for(&self, user: &UserId) -> bool {
        self.status.table.users.hold(self.status.index, user)
    }
}

// === impl SlotStatus ===

impl SlotStatus {
    pub(super) fn state(&self) -> ConnectionState {
        self.load().state
    }

    /// The time of the last change, to the millisecond.
    pub(super) fn since(&self) -> Instant {
        self.table.started + Duration::from_millis(self.load().since)
    }

    /// Changes the state, unless the connection was picked for closing.
    pub(super) fn enter(&self, state: ConnectionState, now: Instant) -> Result<(), Evicted> {
        let since = self.table.millis(now);
        self.replace(|_| Stamped { state, since })
    }

    /// Changes the state within one request: the time stays.
    pub(super) fn enter_within_request(&self, state: ConnectionState) -> Result<(), Evicted> {
        self.replace(|before| Stamped { state, ..before })
    }

    fn replace(&self, next: impl Fn(Stamped) -> Stamped) -> Result<(), Evicted> {
        let word = &self.table.states[self.index];
        let mut current = word.load(Ordering::Relaxed);
        while Stamped::unpack(current).state != ConnectionState::Evicted {
            let next = next(Stamped::unpack(current)).pack();
            match word.compare_exchange_weak(current, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(found) => current = found,
            }
        }
        Err(Evicted)
    }

    fn load(&self) -> Stamped {
        Stamped::unpack(self.table.states[self.index].load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn incomplete_and_unread_requests_go_first_then_idle_connections_and_streams_never() {
        let table = Table::new(7);
        let mut slots = Vec::new();
        let states = [
            ConnectionState::Stalled,
            ConnectionState::Request,
            ConnectionState::Idle,
            ConnectionState::Head,
            ConnectionState::Body,
            ConnectionState::Idle,
            ConnectionState::Upgraded,
        ];
        for state in states {
            let slot = table.take().unwrap();
            slot.entry().enter(state, Instant::now()).unwrap();
            slots.push(slot);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(table.take().is_none());
        let gone: Vec<_> = std::iter::from_fn(|| table.evict(|_| true)).collect();
        let expected = [
            (3, ConnectionState::Head),
            // unread for seconds, and nobody's
            (0, ConnectionState::Stalled),
            (4, ConnectionState::Body),
            (2, ConnectionState::Idle),
            (5, ConnectionState::Idle),
        ];
        assert_eq!(gone, expected);
        slots.remove(3);
        assert_eq!(table.take().unwrap().index(), 3, "the place of a closed connection is free again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_has_just_begun_goes_after_idle_connections() {
        let table = Table::new(2);
        let (idle, recent) = (table.take().unwrap(), table.take().unwrap());
        idle.entry().enter(ConnectionState::Idle, Instant::now()).unwrap();
        tokio::time::advance(Duration::from_millis(999)).await;
        assert_eq!(table.evict(|_| true), Some((idle.index(), ConnectionState::Idle)));
        assert_eq!(table.evict(|_| true), Some((recent.index(), ConnectionState::Head)), "nothing else can make room");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_has_just_begun_goes_after_idle_connections() {
        let table = Table::new(2);
        let (idle, posting) = (table.take().unwrap(), table.take().unwrap());
        idle.entry().enter(ConnectionState::Idle, Instant::now()).unwrap();
        posting.entry().enter(ConnectionState::Body, Instant::now()).unwrap();
        tokio::time::advance(Duration::from_millis(999)).await;
        assert_eq!(table.evict(|_| true), Some((idle.index(), ConnectionState::Idle)));
        assert_eq!(table.evict(|_| true), Some((posting.index(), ConnectionState::Body)), "nothing else can make room");
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_that_is_not_read_goes_before_idle_connections_if_its_user_has_many() {
        let table = Table::new(16);
        let slots: Vec<_> = std::iter::from_fn(|| table.take()).collect();
        let (few, many) = (UserId::new("few"), UserId::new("many"));
        for (at, slot) in slots.iter().enumerate() {
            let user = if at < 2 { Some(&few) } else { (at < 5).then_some(&many) };
            assert!(user.is_none_or(|user| table.users.hold(slot.index(), user)));
            slot.entry().enter(ConnectionState::Request, Instant::now()).unwrap();
        }
        // one of each stalls, and of each of the users one more is idle
        for at in [0, 2, 5] {
            slots[at].entry().enter_within_request(ConnectionState::Stalled).unwrap();
        }
        for at in [1, 3] {
            slots[at].entry().enter(ConnectionState::Idle, Instant::now()).unwrap();
        }
        let order = || std::iter::from_fn(|| table.evict(|_| true).map(|(index, _)| index));
        tokio::time::advance(Duration::from_millis(999)).await;
        assert_eq!(order().take(1).collect::<Vec<_>>(), [slots[3].index()], "nobody reads at once");
        tokio::time::advance(Duration::from_millis(1)).await;
        let expected = [5, 2, 1, 0].map(|at| slots[at].index());
        assert_eq!(order().collect::<Vec<_>>(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_being_closed_begins_no_request() {
        let table = Table::new(1);
        let slot = table.take().unwrap();
        assert_eq!(table.evict(|_| true), None, "its task has hardly begun");
        tokio::time::advance(Duration::from_millis(50)).await;
        table.evict(|_| true).unwrap();
        assert_eq!(slot.entry().enter(ConnectionState::Request, Instant::now()), Err(Evicted));
    }

    #[tokio::test]
    async fn the_table_is_empty_when_the_last_slot_is_dropped() {
        let table = Table::new(2);
        let slots = (table.take().unwrap(), table.take().unwrap());
        let empty = tokio::join!(table.empty(), async { drop(slots) });
        assert_eq!(empty, ((), ()));
    }
}
