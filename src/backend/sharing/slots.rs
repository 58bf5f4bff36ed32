//! Question slots. A server request that no exchange carries names no call, so one client session at a time makes calls
//! in which it can be asked (design rule 4). Each slot is a connection to the server; other client sessions use other
//! slots. Knows nothing of connections and of requests.
//!
//! A slot is lent (`translation` 4b.1): waiting is bounded and fair by user, and a slot whose server request waits for a
//! person is replaced by another one, or taken back. The first waiting call of each user looks after this for all, so that
//! none has to rely on a call that nobody polls.

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

/// The question slots of one backend, by sharer.
#[derive(Debug)]
pub(crate) struct QuestionSlots {
    sharers: Mutex<HashMap<ConnectionKey, Sharer>>,
    last: AtomicU64,
    /// Slots of each sharer.
    max: usize,
    limits: Live<LimitsConfig>,
}

/// No slot came free in time, or too many calls of the user wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Busy;

/// Access to the connections in the slots of one sharer.
pub(crate) struct SlotAccess<Q, C, R> {
    /// Reads what is open in each slot.
    pub(crate) questions: Q,
    /// Closes what was open in a slot for `server_request_slot_time`.
    pub(crate) close: C,
    /// True if the server may have another connection.
    pub(crate) has_room: R,
}

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
    slots: &'a QuestionSlots,
    key: &'a ConnectionKey,
    user: UserId,
    number: u64,
    turn: Arc<Notify>,
}

/// What a waiting call finds.
enum SlotCheck {
    /// Its slot.
    Given(usize),
    /// None so far.
    None {
        /// Slots whose server requests are to be closed.
        yielding: Vec<usize>,
        /// The time of the next look; `None` if another call of the user looks.
        again: Option<Instant>,
    },
}

// === impl QuestionSlots ===

impl QuestionSlots {
    /// Creates `max` slots for each sharer, at least one.
    pub(crate) fn new(max: usize, limits: Live<LimitsConfig>) -> Arc<Self> {
        Arc::new(Self { sharers: Mutex::default(), last: AtomicU64::new(0), max: max.max(1), limits })
    }

    /// Waits for a slot, at most `slot_wait`: the client session's own, else a free one, which may be new.
    ///
    /// # Errors
    ///
    /// [`Busy`].
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
            // the call of a request that is closed now has this time to finish
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
        let entered = sharer.enter(number, request, (Instant::now(), rules));
        Ok(entered.map_err(|turn| Waiting { slots: self, key, user, number, turn }))
    }

    fn rules(&self, key: &ConnectionKey) -> SlotRules {
        let slot_time = self.limits.get().server_request_slot_time;
        SlotRules { max: self.max, are_of_several: !key.is_of_one_user(), slot_time }
    }
}

// === impl Waiting ===

impl Waiting<'_> {
    /// Distributes the slots that are free, and takes the one of this call.
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
    }
}

#[cfg(test)]
mod tests;
