//! Slots for calls in which a server may send requests. A request outside of an exchange names no call, so on one
//! connection, one client session at a time makes such calls (design rule 4). Each slot is a connection to the server;
//! other client sessions use other slots.
//!
//! A slot is on loan (`translation` 4b.1): waiting is bounded and fair by user, and a slot whose server request waits
//! for a person is replaced by another, or taken back. The first waiting call of each user does this for all calls, so
//! that none depends on a single call that may not be polled.

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

use self::sharer::{Sharer, SlotRules, SlotView};
pub(crate) use self::sharer::{SlotQuestions, SlotRequest};
use super::connection_key::ConnectionKey;
use crate::{
    backend::connection::{calls::LINGER, closed_requests::FINISH_TIMEOUT},
    model::{LimitsConfig, UserId},
    support::Live,
};

/// Maximum number of waiting calls of one user, for the slots of one sharer.
const MAX_WAITING: usize = 1_024;

/// Slots of one backend, by sharer.
#[derive(Debug)]
pub(crate) struct QuestionSlots {
    sharers: Mutex<HashMap<ConnectionKey, Sharer>>,
    last: AtomicU64,
    /// Maximum number of active slots of each sharer.
    max: usize,
    limits: Live<LimitsConfig>,
}

/// No slot became free in time, or too many calls of the user wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Busy;

/// Access to the connections in the slots of one sharer.
pub(crate) struct SlotAccess<Q, C, R> {
    /// Returns the state of the server requests in each slot.
    pub(crate) questions: Q,
    /// Closes requests in a slot that have been open for `server_request_slot_time`.
    pub(crate) close: C,
    /// True if the server may have one more connection.
    pub(crate) has_room: R,
}

/// The right to make a call in a slot.
#[derive(Debug)]
pub(crate) struct SlotGuard {
    slots: Arc<QuestionSlots>,
    key: ConnectionKey,
    /// True if the server has received the call and not answered: it may still send messages about it.
    is_running: bool,
}

/// A waiting call. Dropping it removes it and wakes the next one.
struct Waiting<'a> {
    slots: &'a QuestionSlots,
    key: &'a ConnectionKey,
    user: UserId,
    number: u64,
    turn: Arc<Notify>,
}

/// Result of a look for a slot.
enum SlotCheck {
    /// This slot is for the call.
    Given(usize),
    /// No slot is free for the call yet.
    None {
        /// Slots whose server requests must be closed now.
        yielding: Vec<usize>,
        /// When to look again; `None` if another call of the user does it.
        again: Option<Instant>,
    },
}

// === impl QuestionSlots ===

impl QuestionSlots {
    /// Creates the slots: at most `max` active ones for each sharer, at least one.
    pub(crate) fn new(max: usize, limits: Live<LimitsConfig>) -> Arc<Self> {
        Arc::new(Self { sharers: Mutex::default(), last: AtomicU64::new(0), max: max.max(1), limits })
    }

    /// Waits for a slot, for at most `slot_wait`: the one in which the client session has calls, else a free one, which
    /// may be new.
    ///
    /// # Errors
    ///
    /// [`Busy`] if none became free in time, or too many calls of the user wait.
    pub(crate) async fn acquire<Q, C, R>(
        self: &Arc<Self>,
        key: &ConnectionKey,
        request: SlotRequest,
        access: SlotAccess<Q, C, R>,
    ) -> Result<SlotGuard, Busy>
    where
        Q: Fn() -> Vec<SlotQuestions>,
        C: Fn(usize),
        R: Fn() -> bool,
    {
        let guard = |slot| SlotGuard { slots: Arc::clone(self), key: key.in_slot(slot), is_running: false };
        let waiting = match self.enter(key, request)? {
            Ok(slot) => return Ok(guard(slot)),
            Err(waiting) => waiting,
        };
        let deadline = Instant::now() + self.limits.get().slot_wait;
        loop {
            let (yielding, again) = match waiting.check(&(access.questions)(), (access.has_room)()) {
                SlotCheck::Given(slot) => return Ok(guard(slot)),
                SlotCheck::None { yielding, again } => (yielding, again),
            };
            let now = Instant::now();
            if now >= deadline {
                return Err(Busy);
            }
            // the call whose request is closed now has this time to finish
            let finished = (!yielding.is_empty()).then(|| now + FINISH_TIMEOUT);
            yielding.into_iter().for_each(&access.close);
            let again = again.into_iter().chain(finished).min();
            tokio::select! {
                () = waiting.turn.notified() => {}
                () = sleep_until(again.unwrap_or(deadline).min(deadline)) => {}
            }
        }
    }

    /// Gives a call a slot at once, or adds it to the queue of its user.
    fn enter<'a>(&'a self, key: &'a ConnectionKey, request: SlotRequest) -> Result<Result<usize, Waiting<'a>>, Busy> {
        let rules = self.rules(key);
        let mut sharers = self.sharers.lock();
        let sharer = sharers.entry(key.sharer()).or_default();
        if sharer.waiting_of(&request.user) >= MAX_WAITING {
            return Err(Busy);
        }
        let (number, user) = (self.last.fetch_add(1, Ordering::Relaxed), request.user.clone());
        let entered = sharer.enter(number, request, Instant::now(), rules);
        Ok(entered.map_err(|turn| Waiting { slots: self, key, user, number, turn }))
    }

    fn rules(&self, key: &ConnectionKey) -> SlotRules {
        let slot_time = self.limits.get().server_request_slot_time;
        SlotRules { max: self.max, are_of_several: !key.is_of_one_user(), slot_time }
    }
}

// === impl Waiting ===

impl Waiting<'_> {
    /// Hands out free slots, and takes the one for this call.
    fn check(&self, questions: &[SlotQuestions], has_room: bool) -> SlotCheck {
        let Self { slots, key, user, number, .. } = self;
        let view = SlotView { now: Instant::now(), questions, has_room, rules: slots.rules(key) };
        let mut sharers = slots.sharers.lock();
        let Some(sharer) = sharers.get_mut(&key.sharer()) else {
            return SlotCheck::None { yielding: Vec::new(), again: None };
        };
        sharer.distribute(&view);
        if let Some(slot) = sharer.claim(*number) {
            return SlotCheck::Given(slot);
        }
        let again = sharer.is_first(*number, user).then(|| sharer.next_check(&view));
        SlotCheck::None { yielding: sharer.yielding(&view), again }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(sharer) = self.slots.sharers.lock().get_mut(&self.key.sharer()) {
            sharer.leave(self.number, &self.user);
        }
    }
}

// === impl SlotGuard ===

impl SlotGuard {
    /// Marks the call as sent to the server. Before that, dropping the guard frees the slot at once.
    pub(crate) const fn begin(&mut self) {
        self.is_running = true;
    }

    /// Frees the slot: the server has answered and sends nothing more about this call.
    pub(crate) fn answered(mut self) {
        self.is_running = false;
    }

    /// Key of the slot's connection.
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
    }
}

#[cfg(test)]
mod tests;
