//! Question slots. A server request on a shared channel names no call, so one client session at a time makes calls in
//! which it can be asked (design rule 4). Each slot is a connection to the server; other client sessions use other
//! slots. Knows nothing of connections and of requests.
//!
//! A slot is lent (`translation` 4b.1): waiting is bounded and in order of arrival, a user holds at most half of the
//! slots while another waits, and waiting calls reclaim slots.

mod sharer;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

pub(crate) use self::sharer::SlotRequest;
use self::sharer::{Choice, Sharer, Terms};
use super::connection_key::ConnectionKey;
use crate::{backend::connection::calls::LINGER, model::LimitsConfig, support::Live};

/// Maximum number of waiting calls of one user, for the slots of one sharer.
const MAX_WAITING: usize = 1_024;

/// The question slots of one backend, by sharer.
#[derive(Debug)]
pub(crate) struct QuestionSlots {
    sharers: Mutex<HashMap<ConnectionKey, Sharer>>,
    changed: Notify,
    last: AtomicU64,
    /// Slots of each sharer.
    max: usize,
    limits: Live<LimitsConfig>,
}

/// No slot came free in time, or too many calls of the user wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Busy;

/// The right to make a call in a slot.
#[derive(Debug)]
pub(crate) struct SlotGuard {
    slots: Arc<QuestionSlots>,
    key: ConnectionKey,
    /// True if the server got the call and has not answered: it may still send messages about it.
    is_running: bool,
}

/// A waiting call. Dropping it passes the turn on.
struct Waiting<'a> {
    slots: &'a Arc<QuestionSlots>,
    key: &'a ConnectionKey,
    number: u64,
}

// === impl QuestionSlots ===

impl QuestionSlots {
    /// Creates `max` slots for each sharer, at least one.
    pub(crate) fn new(max: usize, limits: Live<LimitsConfig>) -> Arc<Self> {
        let (sharers, changed, last) = (Mutex::default(), Notify::new(), AtomicU64::new(0));
        Arc::new(Self { sharers, changed, last, max: max.max(1), limits })
    }

    /// Waits for a slot, at most `slot_wait`: the client session's own, else a free one, which may be new. Calls
    /// `reclaim` with the number of missing slots; it returns the time of its next call.
    ///
    /// # Errors
    ///
    /// [`Busy`].
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        key: &ConnectionKey,
        request: SlotRequest,
        reclaim: impl Fn(usize) -> Instant,
    ) -> Result<SlotGuard, Busy> {
        let waiting = self.enter(key, request)?;
        let deadline = Instant::now() + self.limits.get().slot_wait;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // no change is missed after this point
            changed.as_mut().enable();
            let wake = match waiting.take() {
                Choice::Slot(slot) => {
                    return Ok(SlotGuard { slots: Arc::clone(self), key: key.in_slot(slot), is_running: false });
                }
                Choice::None { free_at } => free_at,
            };
            if Instant::now() >= deadline {
                return Err(Busy);
            }
            let again = reclaim(self.missing(key));
            let wake = wake.into_iter().chain([again, deadline]).min().unwrap_or(deadline);
            tokio::select! {
                () = changed => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Adds a call to the queue.
    fn enter<'a>(self: &'a Arc<Self>, key: &'a ConnectionKey, request: SlotRequest) -> Result<Waiting<'a>, Busy> {
        let mut sharers = self.sharers.lock();
        let sharer = sharers.entry(key.sharer()).or_default();
        if sharer.waiting_of(&request.user) >= MAX_WAITING {
            return Err(Busy);
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        sharer.enter(number, request, Instant::now());
        Ok(Waiting { slots: self, key, number })
    }

    /// The number of slots that waiting calls need beyond those that come free by themselves.
    fn missing(&self, key: &ConnectionKey) -> usize {
        self.sharers.lock().get(&key.sharer()).map_or(0, |sharer| sharer.missing(self.max))
    }
}

// === impl Waiting ===

impl Waiting<'_> {
    /// Takes a slot, if it is this call's turn.
    fn take(&self) -> Choice {
        let slots = self.slots;
        let (now, patience) = (Instant::now(), slots.limits.get().server_request_slot_time);
        let mut sharers = slots.sharers.lock();
        let Some(sharer) = sharers.get_mut(&self.key.sharer()) else { return Choice::None { free_at: None } };
        sharer.take(self.number, Terms { now, patience, max: slots.max })
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut sharers = self.slots.sharers.lock();
        if let Some(sharer) = sharers.get_mut(&self.key.sharer()) {
            sharer.leave(self.number);
        }
        drop(sharers);
        // another call may wait for this one to go first
        self.slots.changed.notify_waiters();
    }
}

// === impl SlotGuard ===

impl SlotGuard {
    /// The server gets the call. Until then, dropping the slot frees it at once.
    pub(crate) const fn begin(&mut self) {
        self.is_running = true;
    }

    /// Releases the slot: the server has answered and sends nothing more about this call.
    pub(crate) fn answered(mut self) {
        self.is_running = false;
    }

    /// The key of the slot's connection.
    pub(crate) const fn key(&self) -> &ConnectionKey {
        &self.key
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut sharers = self.slots.sharers.lock();
        if let Some(sharer) = sharers.get_mut(&self.key.sharer()) {
            sharer.release(self.key.slot(), self.is_running.then(|| now + LINGER));
        }
        sharers.retain(|_, sharer| sharer.is_in_use(now));
        drop(sharers);
        self.slots.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
