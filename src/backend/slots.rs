//! Question slots: a request of the server that comes on a shared channel names no call, so one client session at a time
//! makes calls in which it can be asked (design rule 4). Each slot is a session at the server; others take another slot.
//! Knows nothing of these sessions, and of what is asked.
//!
//! A slot is lent, not owned (`translation` 4b.1): waiting is bounded and in order of arrival, one user holds at most half
//! of the slots while another waits, and whoever waits sees to it that slots come free.

mod sharer;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

pub(crate) use self::sharer::SlotRequest;
use self::sharer::{Choice, Sharer, Terms};
use super::{connection::calls::LINGER, connection_key::ConnectionKey};

/// The most calls of one user that wait for the slots of one sharer.
const MAX_WAITING: usize = 1_024;

/// How long a call with an open question keeps a slot that others wait for, and how long they wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotLimits {
    /// A question that is open for this long is closed while others wait. 60 s.
    pub question_slot_time: Duration,
    /// A call that waits for this long ends: its server is busy. Longer than `question_slot_time`. 120 s.
    pub slot_wait: Duration,
}

/// The question slots of one backend, by sharer.
#[derive(Debug)]
pub(crate) struct QuestionSlots {
    sharers: Mutex<HashMap<ConnectionKey, Sharer>>,
    changed: Notify,
    last: AtomicU64,
    /// Slots for each sharer.
    max: usize,
    limits: SlotLimits,
}

/// No slot came free in time, or too many calls of the user wait already.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Busy;

/// The right to make a call in a slot.
#[derive(Debug)]
pub(crate) struct SlotGuard {
    slots: Arc<QuestionSlots>,
    key: ConnectionKey,
    /// Whether the server has answered.
    answered: bool,
}

/// A call that waits. Dropping it lets the next one go first.
struct Waiting<'a> {
    slots: &'a Arc<QuestionSlots>,
    key: &'a ConnectionKey,
    number: u64,
}

// === impl SlotLimits ===

impl Default for SlotLimits {
    fn default() -> Self {
        Self { question_slot_time: Duration::from_mins(1), slot_wait: Duration::from_mins(2) }
    }
}

// === impl QuestionSlots ===

impl QuestionSlots {
    /// Free slots, `max` for each sharer and at least one.
    pub(crate) fn new(max: usize, limits: SlotLimits) -> Arc<Self> {
        let (sharers, changed, last) = (Mutex::default(), Notify::new(), AtomicU64::new(0));
        Arc::new(Self { sharers, changed, last, max: max.max(1), limits })
    }

    /// The limits on questions and on waiting.
    pub(crate) const fn limits(&self) -> SlotLimits {
        self.limits
    }

    /// Waits for a slot up to `slot_wait`: the client session's own, else a free one, which may be new. Meanwhile `reclaim`
    /// is told how many slots are missing, and returns when it wants to be asked again.
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
        let deadline = Instant::now() + self.limits.slot_wait;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // from here on no change goes unnoticed
            changed.as_mut().enable();
            let wake = match waiting.take() {
                Choice::Slot(slot) => {
                    return Ok(SlotGuard { slots: Arc::clone(self), key: key.in_slot(slot), answered: false });
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

    /// Puts a call at the end of the queue.
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

    /// How many slots the calls that wait need beside those that come free by themselves.
    fn missing(&self, key: &ConnectionKey) -> usize {
        self.sharers.lock().get(&key.sharer()).map_or(0, |sharer| sharer.missing(self.max))
    }
}

// === impl Waiting ===

impl Waiting<'_> {
    /// Takes a slot, where it is this call's turn.
    fn take(&self) -> Choice {
        let slots = self.slots;
        let (now, patience) = (Instant::now(), slots.limits.question_slot_time);
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
        // another may have waited for this one to go first
        self.slots.changed.notify_waiters();
    }
}

// === impl SlotGuard ===

impl SlotGuard {
    /// Gives the slot back: the server has answered, and nothing of this call follows.
    pub(crate) fn answered(mut self) {
        self.answered = true;
    }

    /// The session that the call is made in.
    pub(crate) const fn key(&self) -> &ConnectionKey {
        &self.key
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut sharers = self.slots.sharers.lock();
        if let Some(sharer) = sharers.get_mut(&self.key.sharer()) {
            sharer.release(self.key.slot(), if self.answered { None } else { Some(now + LINGER) });
        }
        sharers.retain(|_, sharer| sharer.is_in_use(now));
        drop(sharers);
        self.slots.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
