//! Slots of one sharer, and the queue of calls for them. Knows nothing of how a call waits.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use crate::model::{Requester, UserId};

/// A call that needs a slot.
#[derive(Debug, Clone)]
pub(crate) struct SlotRequest {
    /// The user, who may not hold all slots while another waits.
    pub(crate) user: UserId,
    /// The client session; its calls share a slot.
    pub(crate) holder: Requester,
    /// The only usable slot, if any: a task is asked about on the connection that created it.
    pub(crate) only: Option<usize>,
}

/// Slots of one sharer, and the queue of calls for them.
#[derive(Debug, Default)]
pub(super) struct Sharer {
    slots: Vec<QuestionSlot>,
    /// In order of arrival.
    waiting: BTreeMap<u64, Applicant>,
}

/// A slot: its holder and number of running calls, or its last holder.
#[derive(Debug)]
struct QuestionSlot {
    user: UserId,
    holder: Requester,
    calls: usize,
    /// Time until which the server may still send messages about a cancelled call.
    lingers: Option<Instant>,
}

/// A waiting call.
#[derive(Debug)]
struct Applicant {
    request: SlotRequest,
    since: Instant,
}

/// Parameters of the choice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// The present time.
    pub(super) now: Instant,
    /// A call that waits for this long prevents others from joining the slot of their client session.
    pub(super) patience: Duration,
    /// Number of slots.
    pub(super) max: usize,
}

/// Outcome of a choice.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// This slot.
    Slot(usize),
    /// None at present.
    None {
        /// The latest time at which the next one comes free, if it is known.
        free_at: Option<Instant>,
    },
}

// === impl Sharer ===

impl Sharer {
    /// The number of waiting calls of this user.
    pub(super) fn waiting_of(&self, user: &UserId) -> usize {
        self.waiting.values().filter(|applicant| applicant.request.user == *user).count()
    }

    /// Adds a call to the queue.
    pub(super) fn enter(&mut self, number: u64, request: SlotRequest, since: Instant) {
        self.waiting.insert(number, Applicant { request, since });
    }

    /// Removes a call from the queue.
    pub(super) fn leave(&mut self, number: u64) {
        self.waiting.remove(&number);
    }

    /// Gives the call `number` a slot and removes it from the queue, if it is its turn.
    pub(super) fn take(&mut self, number: u64, terms: Terms) -> Choice {
        let Some(slot) = self.choose(number, terms) else {
            return Choice::None { free_at: self.free_at(number, terms.now) };
        };
        let Some(Applicant { request, .. }) = self.waiting.remove(&number) else {
            return Choice::None { free_at: None };
        };
        let new =
            || QuestionSlot { user: request.user.clone(), holder: request.holder.clone(), calls: 0, lingers: None };
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, new);
        }
        if let Some(taken) = self.slots.get_mut(slot) {
            *taken = QuestionSlot { calls: taken.calls + 1, lingers: taken.lingers, ..new() };
        }
        Choice::Slot(slot)
    }

    /// Ends a call in `slot`; the server may send messages about it until `lingers`.
    pub(super) fn release(&mut self, slot: usize, lingers: Option<Instant>) {
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.calls -= 1;
            slot.lingers = slot.lingers.max(lingers);
        }
    }

    /// True if any slot is used or any call waits.
    pub(super) fn is_in_use(&self, now: Instant) -> bool {
        !self.waiting.is_empty() || self.slots.iter().any(|slot| slot.is_in_use(now))
    }

    /// The number of slots, up to `max`, that waiting calls need beyond those without a running call.
    pub(super) fn missing(&self, max: usize) -> usize {
        let has_calls = |place: usize| self.slots.get(place).is_some_and(|slot| slot.calls > 0);
        let is_wanted = |place: usize| self.waiting.values().any(|applicant| applicant.fits(place));
        let idle = (0..max.max(self.slots.len())).filter(|place| !has_calls(*place) && is_wanted(*place)).count();
        self.waiting.len().saturating_sub(idle)
    }

    /// The time at which a slot that suits the call `number` comes free. One that is free already goes to another call.
    fn free_at(&self, number: u64, now: Instant) -> Option<Instant> {
        let me = self.waiting.get(&number)?;
        let idle = self.slots.iter().enumerate().filter(|(place, slot)| me.fits(*place) && slot.calls == 0);
        idle.filter_map(|(_, slot)| slot.lingers).filter(|until| *until > now).min()
    }

    fn choose(&self, number: u64, terms: Terms) -> Option<usize> {
        let me = self.waiting.get(&number)?;
        let is_own = |place: &usize| self.slots.get(*place).is_some_and(|slot| slot.holder == me.request.holder);
        let is_free = |place: &usize| self.slots.get(*place).is_none_or(|slot| !slot.is_in_use(terms.now));
        let fitting = || (0..terms.max.max(self.slots.len())).filter(|place| me.fits(*place));
        // calls of one client session share its slot, until others have waited for too long
        let mut others = self.waiting.values().filter(|other| other.request.holder != me.request.holder);
        let starve = others.any(|other| terms.now.duration_since(other.since) >= terms.patience);
        let shared = fitting().find(|place| !starve && is_own(place) && !is_free(place));
        let free = || fitting().filter(is_free).filter(|place| self.is_turn_of(number, *place, terms));
        shared.or_else(|| free().find(is_own)).or_else(|| free().next())
    }

    /// True if this free slot belongs to this call: users that hold their share of the slots come last, else the order
    /// is that of arrival.
    fn is_turn_of(&self, number: u64, place: usize, terms: Terms) -> bool {
        let rank =
            |(number, applicant): (&u64, &Applicant)| (self.has_its_part(&applicant.request.user, terms), *number);
        let mine = self.waiting.get_key_value(&number).map(rank);
        let mut others = self.waiting.iter().filter(|(other, applicant)| **other != number && applicant.fits(place));
        others.all(|other| Some(rank(other)) > mine)
    }

    /// True if a user holds `max(1, half)` of the slots.
    fn has_its_part(&self, user: &UserId, terms: Terms) -> bool {
        let held = self.slots.iter().filter(|slot| slot.user == *user && slot.is_in_use(terms.now)).count();
        held >= (terms.max / 2).max(1)
    }
}

// === impl QuestionSlot ===

impl QuestionSlot {
    fn is_in_use(&self, now: Instant) -> bool {
        self.calls > 0 || self.lingers.is_some_and(|until| until > now)
    }
}

// === impl Applicant ===

impl Applicant {
    fn fits(&self, place: usize) -> bool {
        self.request.only.is_none_or(|only| only == place)
    }
}
