//! The slots of one sharer (a group of callers with the same connection key, apart from the slot), and the calls that
//! wait for them.
//!
//! A free slot goes to the user with the fewest slots. Among users with equally many, it goes to the one whose last
//! turn was longest ago, and there to the call that arrived first.

use std::{
    collections::{BTreeMap, HashMap, btree_map, hash_map::Entry},
    iter::Peekable,
    sync::Arc,
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::{
    backend::connection::closed_requests::FINISH_TIMEOUT,
    model::{Requester, UserId},
};

/// Age at which a server request counts as waiting for a person, so that another process serves other calls. Also the
/// wait after which a user without a slot gets an extra one.
pub(super) const RELIEF: Duration = Duration::from_secs(5);

/// Number of extra slots, while requests wait for a person, for each slot of `max`.
const WAITING_FOR_EACH: usize = 3;

#[derive(Debug, Clone)]
pub(crate) struct SlotRequest {
    /// Users with fewer slots are served first.
    pub(crate) user: UserId,
    /// The client session; its calls share a slot.
    pub(crate) holder: Requester,
    /// The only usable slot, if any: a request about a task goes to the connection that created it.
    pub(crate) only: Option<usize>,
    /// Number of the first usable slot, if `only` is `None`.
    pub(crate) first: usize,
}

/// State of the server requests on the connection of one slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlotQuestions {
    pub(crate) slot: usize,
    /// The time when the oldest open request that a call carries was sent to its client.
    pub(crate) oldest: Option<Instant>,
    /// The time when a request was last closed, among the open calls and the recently cancelled ones.
    pub(crate) closed: Option<Instant>,
}

#[derive(Debug, Default)]
pub(super) struct Sharer {
    slots: Vec<QuestionSlot>,
    /// Users with waiting calls.
    queues: HashMap<UserId, UserSlotQueue>,
    /// Number of the latest turn.
    last_turn: u64,
    /// Slots by number of the call, for calls that have not claimed theirs yet.
    given: HashMap<u64, usize>,
}

/// Waiting calls of one user, at least one.
#[derive(Debug, Default)]
struct UserSlotQueue {
    /// By number, that is, in order of arrival.
    calls: BTreeMap<u64, Applicant>,
    /// Number of the turn in which the user last got a slot while more calls waited; 0 if none.
    turn: u64,
}

/// A slot: its holder and the number of running calls. Once that is 0, its last holder.
#[derive(Debug)]
struct QuestionSlot {
    user: UserId,
    holder: Requester,
    calls: usize,
    /// Time until which the server may still send messages about a cancelled call.
    lingers: Option<Instant>,
}

#[derive(Debug)]
struct Applicant {
    request: SlotRequest,
    since: Instant,
    /// Wakes when the call has a slot, or becomes the first of its user.
    turn: Arc<Notify>,
}

/// Bounds for the slots of a sharer.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotRules {
    /// Maximum number of active slots; those that wait for a person do not count.
    pub(super) max: usize,
    /// True if several users share the slots: some are kept for users without any.
    pub(super) are_of_several: bool,
    /// Maximum time that a server request may stay open while a call waits.
    pub(super) slot_time: Duration,
}

/// Everything that determines how slots are handed out at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotView<'a> {
    pub(super) now: Instant,
    /// State of each slot's server requests.
    pub(super) questions: &'a [SlotQuestions],
    /// True if the server may have one more process.
    pub(super) has_room: bool,
    pub(super) rules: SlotRules,
}

/// Calls of one user that remain to be considered.
struct QueueOrder<'a> {
    user: &'a UserId,
    turn: u64,
    calls: Peekable<btree_map::Iter<'a, u64, Applicant>>,
}

/// Number of slots in use.
struct Usage<'a> {
    /// Number of slots, by user.
    held: HashMap<&'a UserId, usize>,
    /// Number of slots in total.
    all: usize,
    /// Number of slots, without those that wait for a person.
    active: usize,
}

// === impl Sharer ===

impl Sharer {
    /// Number of waiting calls of this user.
    pub(super) fn waiting_of(&self, user: &UserId) -> usize {
        self.queues.get(user).map_or(0, |queue| queue.calls.len())
    }

    /// Gives a new call a free slot if no call waits and its session has no slot; otherwise adds it to the queue.
    ///
    /// # Errors
    ///
    /// The signal that wakes the waiting call.
    pub(super) fn enter(
        &mut self,
        number: u64,
        request: SlotRequest,
        now: Instant,
        rules: SlotRules,
    ) -> Result<usize, Arc<Notify>> {
        let applicant = Applicant { request, since: now, turn: Arc::default() };
        let view = SlotView { now, questions: &[], has_room: true, rules };
        if self.queues.is_empty()
            && self.own(&applicant, now, |_| true).is_none()
            && let Some(place) = self.place(&applicant, &self.usage(&view), &view)
        {
            self.seat(place, &applicant.request);
            return Ok(place);
        }
        let turn = Arc::clone(&applicant.turn);
        self.queues.entry(applicant.request.user.clone()).or_default().calls.insert(number, applicant);
        Err(turn)
    }

    /// Takes the slot that was given to the call `number`.
    pub(super) fn claim(&mut self, number: u64) -> Option<usize> {
        self.given.remove(&number)
    }

    /// Removes a call that has stopped waiting, and frees the slot that it was given.
    pub(super) fn leave(&mut self, number: u64, user: &UserId) {
        if let Some(place) = self.given.remove(&number) {
            self.release(place, None);
        } else if self.unqueue(number, user).is_some() {
            self.wake_first_of_each();
        }
    }

    /// Ends a call in `slot`. The server may send messages about it until `lingers`.
    pub(super) fn release(&mut self, slot: usize, lingers: Option<Instant>) {
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.calls -= 1;
            slot.lingers = slot.lingers.max(lingers);
        }
        self.wake_first_of_each();
    }

    /// True if a slot is in use or a call waits.
    pub(super) fn is_in_use(&self, now: Instant) -> bool {
        !self.queues.is_empty() || self.slots.iter().any(|slot| slot.is_in_use(now))
    }

    /// True for the first waiting call of a user, which looks after the slots for all calls.
    pub(super) fn is_first(&self, number: u64, user: &UserId) -> bool {
        self.queues.get(user).and_then(|queue| queue.calls.first_key_value()).is_some_and(|(first, _)| *first == number)
    }

    fn wake_first_of_each(&self) {
        for applicant in self.queues.values().filter_map(|queue| queue.calls.values().next()) {
            applicant.turn.notify_one();
        }
    }

    fn unqueue(&mut self, number: u64, user: &UserId) -> Option<Applicant> {
        let Entry::Occupied(mut queue) = self.queues.entry(user.clone()) else { return None };
        let applicant = queue.get_mut().calls.remove(&number);
        if queue.get().calls.is_empty() {
            queue.remove();
        }
        applicant
    }

    fn applicants(&self) -> impl Iterator<Item = (u64, &Applicant)> {
        self.queues.values().flat_map(|queue| &queue.calls).map(|(number, applicant)| (*number, applicant))
    }
}

impl Sharer {
    /// Gives waiting calls all slots that they may have now.
    pub(super) fn distribute(&mut self, view: &SlotView<'_>) {
        self.join(view, |slot| !view.waits_for_person(slot));
        while let Some((number, user, place)) = self.next(view) {
            self.give(number, &user, place);
        }
        self.join(view, |_| true);
    }

    /// Lets calls join the slot of their client session, unless a call of another session has waited for [`RELIEF`].
    fn join(&mut self, view: &SlotView<'_>, may_join: impl Fn(usize) -> bool) {
        let overdue = |(_, applicant): &(u64, &Applicant)| view.now >= applicant.since + RELIEF;
        let mut long: Vec<&Requester> = Vec::new();
        for (_, other) in self.applicants().filter(overdue) {
            // two are enough: at least one is of another session
            if long.len() < 2 && !long.contains(&&other.request.holder) {
                long.push(&other.request.holder);
            }
        }
        let starves = |holder: &Requester| long.iter().any(|other| *other != holder);
        let joining = self.applicants().filter_map(|(number, applicant)| {
            let place = self.own(applicant, view.now, &may_join)?;
            let Applicant { request: SlotRequest { user, holder, .. }, .. } = applicant;
            (!starves(holder)).then(|| (number, user.clone(), place))
        });
        for (number, user, place) in joining.collect::<Vec<_>>() {
            self.give(number, &user, place);
        }
    }

    /// The next call that gets a free slot: of the user with the fewest slots, then by turn, then by arrival.
    fn next(&self, view: &SlotView<'_>) -> Option<(u64, UserId, usize)> {
        let usage = self.usage(view);
        let first_of = |(user, queue): (&UserId, &UserSlotQueue)| {
            let place = |(number, one): (&u64, &Applicant)| Some((*number, self.place(one, &usage, view)?));
            let (number, place) = queue.calls.iter().find_map(place)?;
            Some(((usage.held_by(user), queue.turn, number), user.clone(), place))
        };
        let firsts = self.queues.iter().filter_map(first_of);
        firsts.min_by_key(|(rank, ..)| *rank).map(|((.., number), user, place)| (number, user, place))
    }

    /// A free slot for the call, if it may have one now.
    fn place(&self, one: &Applicant, usage: &Usage<'_>, view: &SlotView<'_>) -> Option<usize> {
        let is_free = |place: &usize| self.slots.get(*place).is_none_or(|slot| !slot.is_in_use(view.now));
        let SlotRequest { user, holder, only, first } = &one.request;
        if only.is_some() {
            return only.filter(is_free);
        }
        if !view.has_room(usage, usage.held_by(user), one.since) {
            return None;
        }
        let is_own = |place: &usize| self.slots.get(*place).is_some_and(|slot| slot.holder == *holder);
        let free = || (*first..=*first + self.slots.len()).filter(is_free);
        free().find(is_own).or_else(|| free().next())
    }

    /// The slot in which the client session already has calls, if this call may join them.
    fn own(&self, one: &Applicant, now: Instant, may_join: impl Fn(usize) -> bool) -> Option<usize> {
        let is_own = |slot: &QuestionSlot| slot.holder == one.request.holder && slot.is_in_use(now);
        let fits = |place: usize| one.fits(place) && may_join(place);
        let mut own = self.slots.iter().enumerate().filter(|(place, slot)| fits(*place) && is_own(slot));
        own.next().map(|(place, _)| place)
    }

    fn give(&mut self, number: u64, user: &UserId, place: usize) {
        let Some(Applicant { request, turn, .. }) = self.unqueue(number, user) else { return };
        self.seat(place, &request);
        self.given.insert(number, place);
        turn.notify_one();
        // the user's next call looks after the slots now
        self.last_turn += 1;
        if let Some(queue) = self.queues.get_mut(user) {
            queue.turn = self.last_turn;
            queue.calls.values().take(1).for_each(|next| next.turn.notify_one());
        }
    }

    fn seat(&mut self, place: usize, request: &SlotRequest) {
        let SlotRequest { user, holder, .. } = request;
        let new = || QuestionSlot { user: user.clone(), holder: holder.clone(), calls: 0, lingers: None };
        if place >= self.slots.len() {
            self.slots.resize_with(place + 1, new);
        }
        if let Some(taken) = self.slots.get_mut(place) {
            *taken = QuestionSlot { calls: taken.calls + 1, lingers: taken.lingers, ..new() };
        }
    }

    fn usage(&self, view: &SlotView<'_>) -> Usage<'_> {
        let mut usage = Usage { held: HashMap::new(), all: 0, active: 0 };
        for (place, slot) in self.slots.iter().enumerate().filter(|(_, slot)| slot.is_in_use(view.now)) {
            *usage.held.entry(&slot.user).or_default() += 1;
            usage.all += 1;
            usage.active += usize::from(!view.waits_for_person(place));
        }
        usage
    }
}

/// Slots to take back (`translation` 4b.1).
impl Sharer {
    /// The slots whose server requests must be closed now. If no slot becomes free by itself for a waiting call, this
    /// is the oldest slot of the same user, or else of the user with the most slots, if that user still has at least as
    /// many as the caller afterwards.
    pub(super) fn yielding(&self, view: &SlotView<'_>) -> Vec<usize> {
        let (mut held, slot_time) = (self.usage(view).held, view.rules.slot_time);
        let is_coming = |questions: &&SlotQuestions| questions.closed.is_some();
        let lingering = self.slots.iter().enumerate().filter(|(_, slot)| slot.is_lingering(view.now));
        let mut coming: Vec<usize> = lingering.map(|(place, _)| place).collect();
        coming.extend(view.questions.iter().filter(is_coming).map(|questions| questions.slot));
        let is_held =
            |place: usize| self.slots.get(place).is_some_and(|slot| slot.calls > 0) && !coming.contains(&place);
        let mut open: Vec<(Instant, usize)> = view.open().filter(|(_, place)| is_held(*place)).collect();
        open.sort_unstable();
        // also requests that were sent in a slot after it was taken back
        let is_due = |since: Instant, waits_since: Instant| view.now >= since.max(waits_since) + slot_time;
        let more =
            view.questions.iter().filter(is_coming).filter(|of| of.oldest.is_some_and(|since| is_due(since, since)));
        let mut yielding: Vec<usize> = more.map(|questions| questions.slot).collect();
        let mut queues: Vec<_> = self.queues.iter().map(|(user, queue)| QueueOrder::of(queue, user)).collect();
        while !(coming.is_empty() && open.is_empty())
            && let Some((user, one)) = next_in_turn(&mut queues, &held)
        {
            if let Some(at) = coming.iter().position(|place| one.fits(*place)) {
                coming.swap_remove(at);
                *held.entry(user).or_default() += 1;
            } else if let Some(at) = self.victim(one, user, &open, &held) {
                let (since, place) = open.remove(at);
                let of = self.slots.get(place).map_or(user, |slot| &slot.user);
                held.entry(of).and_modify(|held| *held = held.saturating_sub(1));
                *held.entry(user).or_default() += 1;
                if is_due(since, one.since) {
                    yielding.push(place);
                }
            }
        }
        yielding
    }

    /// Index in `open` of the slot that makes room for a call.
    fn victim(
        &self,
        one: &Applicant,
        user: &UserId,
        open: &[(Instant, usize)],
        held: &HashMap<&UserId, usize>,
    ) -> Option<usize> {
        let held_by = |user: &UserId| held.get(user).copied().unwrap_or_default();
        let fitting = || {
            let fits = open.iter().enumerate().filter(|(_, (_, place))| one.fits(*place));
            fits.filter_map(|(at, (_, place))| Some((at, &self.slots.get(*place)?.user)))
        };
        if let Some((own, _)) = fitting().find(|(_, of)| *of == user) {
            return Some(own);
        }
        let mine = held_by(user);
        let above = fitting().filter(|(_, of)| mine == 0 || held_by(of) > mine + 1);
        above.min_by_key(|(at, of)| (std::cmp::Reverse(held_by(of)), *at)).map(|(at, _)| at)
    }

    /// When a waiting call may get a slot, or one is taken back, if nothing else happens.
    pub(super) fn next_check(&self, view: &SlotView<'_>) -> Instant {
        let firsts: Vec<Instant> =
            self.queues.values().filter_map(|queue| Some(queue.calls.values().next()?.since)).collect();
        let due = |(since, _): (Instant, usize)| {
            let closes = firsts.iter().map(move |first| since.max(*first) + view.rules.slot_time);
            closes.chain([since + RELIEF])
        };
        let lingering = self.slots.iter().filter_map(|slot| slot.lingers);
        let finished = view.questions.iter().filter_map(|questions| Some(questions.closed? + FINISH_TIMEOUT));
        let times = firsts.iter().map(|first| *first + RELIEF).chain(view.open().flat_map(due)).chain(lingering);
        let coming = times.chain(finished).filter(|time| *time > view.now).min();
        // look at least this often, for requests that open in the meantime
        coming.unwrap_or(view.now + RELIEF).min(view.now + RELIEF)
    }
}

/// Removes the next call from `queues`, in the order in which slots are handed out.
fn next_in_turn<'a>(
    queues: &mut [QueueOrder<'a>],
    held: &HashMap<&UserId, usize>,
) -> Option<(&'a UserId, &'a Applicant)> {
    let rank = |queue: &mut QueueOrder<'a>| {
        let (number, _) = queue.calls.peek()?;
        Some((held.get(queue.user).copied().unwrap_or_default(), queue.turn, **number))
    };
    let ranks = queues.iter_mut().enumerate().filter_map(|(at, queue)| Some((rank(queue)?, at)));
    let (_, at) = ranks.min()?;
    let queue = queues.get_mut(at)?;
    let (_, one) = queue.calls.next()?;
    Some((queue.user, one))
}

// === impl QueueOrder ===

impl<'a> QueueOrder<'a> {
    fn of(queue: &'a UserSlotQueue, user: &'a UserId) -> Self {
        Self { user, turn: queue.turn, calls: queue.calls.iter().peekable() }
    }
}

// === impl SlotView ===

impl SlotView<'_> {
    /// True if the calls in this slot wait for a person.
    fn waits_for_person(&self, place: usize) -> bool {
        self.open().any(|(since, slot)| slot == place && self.now >= since + RELIEF)
    }

    /// When the oldest open server request of each slot was sent, with the slot.
    fn open(&self) -> impl Iterator<Item = (Instant, usize)> {
        self.questions.iter().filter_map(|questions| Some((questions.oldest?, questions.slot)))
    }

    /// True if a user with `held` slots may have another, for a call that has waited since `since`.
    fn has_room(&self, usage: &Usage<'_>, held: usize, since: Instant) -> bool {
        let SlotRules { max, are_of_several, .. } = self.rules;
        let kept = if are_of_several { max / 8 } else { 0 };
        let waiting = if self.has_room { WAITING_FOR_EACH * max } else { 0 };
        if held > 0 {
            return usage.active < max - kept && usage.all < max + waiting;
        }
        // an extra slot for a user who would otherwise wait for long calls of others
        let more = if self.has_room && self.now >= since + RELIEF { kept.max(1) } else { 0 };
        usage.active < max + more && usage.all < max + waiting + more
    }
}

// === impl Usage ===

impl Usage<'_> {
    fn held_by(&self, user: &UserId) -> usize {
        self.held.get(user).copied().unwrap_or_default()
    }
}

// === impl QuestionSlot ===

impl QuestionSlot {
    fn is_in_use(&self, now: Instant) -> bool {
        self.calls > 0 || self.is_lingering(now)
    }

    /// True if the slot becomes free by itself.
    fn is_lingering(&self, now: Instant) -> bool {
        self.calls == 0 && self.lingers.is_some_and(|until| until > now)
    }
}

// === impl Applicant ===

impl Applicant {
    fn fits(&self, place: usize) -> bool {
        self.request.only.map_or(place >= self.request.first, |only| only == place)
    }
}
