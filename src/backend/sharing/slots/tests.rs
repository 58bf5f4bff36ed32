//! Distribution of slots: order, sharing, timeouts.

mod persons;

use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::{
    task::{JoinSet, yield_now},
    time::advance,
};

use super::{super::connection_key::SharingScope, sharer::RELIEF, *};
use crate::model::{Requester, SessionId, UserId};

const SLOT_TIME: Duration = Duration::from_secs(30);
const SLOT_WAIT: Duration = Duration::from_mins(2);
const MOMENT: Duration = Duration::from_millis(1);

/// Slots with the default limits, and the server requests in them.
#[derive(Clone)]
struct Bench {
    slots: Arc<QuestionSlots>,
    key: ConnectionKey,
    questions: Arc<Mutex<Vec<SlotQuestions>>>,
    /// Slots whose requests were closed, in order.
    closed: Arc<Mutex<Vec<usize>>>,
    has_room: bool,
}

/// A call that may wait.
struct Waiter {
    running: Mutex<JoinSet<Result<SlotGuard, Busy>>>,
    outcome: Mutex<Option<Result<SlotGuard, Busy>>>,
}

impl Bench {
    /// Slots that all users share.
    fn new(max: usize) -> Self {
        let slots = QuestionSlots::new(max, Live::default());
        Self { slots, key: ConnectionKey::base(), questions: Arc::default(), closed: Arc::default(), has_room: true }
    }

    async fn acquire(self, request: SlotRequest) -> Result<SlotGuard, Busy> {
        let questions = || self.questions.lock().clone();
        let close = |slot| {
            let close = |of: &mut SlotQuestions| (of.oldest, of.closed) = (None, Some(Instant::now()));
            self.questions.lock().iter_mut().filter(|of| of.slot == slot).for_each(close);
            self.closed.lock().push(slot);
        };
        self.slots.acquire(&self.key, request, SlotAccess { questions, close, has_room: || self.has_room }).await
    }

    /// A call of this user and session.
    async fn call(&self, user: &str, session: &str) -> Waiter {
        self.ask_for(request(user, session)).await
    }

    async fn ask_for(&self, request: SlotRequest) -> Waiter {
        let mut running = JoinSet::new();
        running.spawn(self.clone().acquire(request));
        let call = Waiter { running: Mutex::new(running), outcome: Mutex::default() };
        settle().await;
        call
    }

    /// A call that gets a slot at once.
    async fn running(&self, user: &str, session: &str) -> SlotGuard {
        let mut guard = self.call(user, session).await.given().await.expect("a slot");
        guard.begin();
        guard
    }

    /// The server in this slot sends a request.
    fn ask(&self, slot: usize) {
        let mut questions = self.questions.lock();
        questions.retain(|of| of.slot != slot);
        questions.push(SlotQuestions { slot, oldest: Some(Instant::now()), closed: None });
    }

    /// A call whose server sends a request at once.
    async fn asking(&self, user: &str, session: &str) -> SlotGuard {
        let guard = self.running(user, session).await;
        self.ask(guard.key().slot());
        guard
    }

    /// Calls of this user whose servers send requests, until no process is free.
    async fn fill(&self, user: &str, calls: usize) -> Vec<SlotGuard> {
        let mut guards = Vec::new();
        for number in 0..calls {
            guards.push(self.asking(user, &format!("{user}-{number}")).await);
            pass(RELIEF).await;
        }
        guards
    }

    /// The call in this slot ends.
    async fn end(&self, guard: SlotGuard) {
        self.questions.lock().retain(|of| of.slot != guard.key().slot());
        guard.answered();
        settle().await;
    }

    fn closed(&self) -> Vec<usize> {
        self.closed.lock().clone()
    }
}

impl Waiter {
    /// Its slot, if it has one by now.
    async fn given(&mut self) -> Option<SlotGuard> {
        if self.waits().await { None } else { self.outcome.lock().take().map(Result::unwrap) }
    }

    async fn waits(&self) -> bool {
        settle().await;
        let mut outcome = self.outcome.lock();
        if let Some(ended) = self.running.lock().try_join_next() {
            *outcome = Some(ended.unwrap());
        }
        outcome.is_none()
    }

    async fn outcome(self) -> Result<SlotGuard, Busy> {
        let Self { running, outcome } = self;
        match outcome.into_inner() {
            Some(outcome) => outcome,
            None => running.into_inner().join_next().await.unwrap().unwrap(),
        }
    }

    async fn abort(self) {
        drop(self);
        settle().await;
    }
}

/// A moment before `time` has passed.
fn just_before(time: Duration) -> Duration {
    time.saturating_sub(MOMENT)
}

fn request(user: &str, session: &str) -> SlotRequest {
    SlotRequest { user: UserId::new(user), holder: Requester::Session(SessionId::new(session)), only: None, first: 0 }
}

/// Lets everything run that can.
async fn settle() {
    for _ in 0..50 {
        yield_now().await;
    }
}

async fn pass(time: Duration) {
    advance(time).await;
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn each_session_has_a_slot_of_its_own_and_waits_if_there_is_none() {
    let bench = Bench::new(2);
    let (one, again, two) =
        (bench.running("ann", "a").await, bench.running("ann", "a").await, bench.running("ann", "b").await);
    assert_eq!([one.key().slot(), again.key().slot(), two.key().slot()], [0, 0, 1]);
    let mut three = bench.call("ann", "c").await;
    assert!(three.waits().await);
    bench.end(one).await;
    assert!(three.waits().await, "the other call of that session still runs");
    bench.end(two).await;
    assert_eq!(three.given().await.unwrap().key().slot(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_slot_of_a_cancelled_call_stays_reserved_for_a_while() {
    let bench = Bench::new(1);
    for _ in 0..2 {
        drop(bench.running("ann", "a").await);
    }
    let start = Instant::now();
    bench.call("ann", "b").await.outcome().await.unwrap();
    assert_eq!(start.elapsed(), LINGER);
}

#[tokio::test(start_paused = true)]
async fn the_slot_of_a_call_that_its_server_never_got_is_free_at_once() {
    let bench = Bench::new(1);
    drop(bench.call("ann", "a").await.given().await);
    assert!(bench.call("ann", "b").await.given().await.is_some());
}

#[tokio::test(start_paused = true)]
async fn waiting_calls_of_a_user_time_out_in_order() {
    let bench = Bench::new(1);
    let held = bench.running("ann", "a").await;
    let start = Instant::now();
    assert_eq!(bench.call("ann", "b").await.outcome().await.unwrap_err(), Busy);
    assert_eq!(start.elapsed(), SLOT_WAIT);
    let (first, mut second) = (bench.call("ann", "c").await, bench.call("ann", "d").await);
    let mut third = bench.call("ann", "e").await;
    first.abort().await;
    bench.end(held).await;
    assert!(third.waits().await, "another waits for longer");
    let second = second.given().await.expect("the one before it has gone");
    bench.end(second).await;
    assert!(third.given().await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_user_with_many_waiting_calls_comes_after_one_who_holds_fewer_slots() {
    let bench = Bench::new(4);
    let mut held = Vec::new();
    for session in ["a", "b", "c", "d"] {
        held.push(bench.running("hostile", session).await);
    }
    let mut crowd = Vec::new();
    for number in 0..200 {
        crowd.push(bench.call("hostile", &format!("more-{number}")).await);
    }
    let (mut ann, mut bob) = (bench.call("ann", "e").await, bench.call("bob", "f").await);
    let more = bench.call("bob", "g").await;
    let mut guards = Vec::new();
    for waiting in [&mut ann, &mut bob] {
        bench.end(held.remove(0)).await;
        guards.push(waiting.given().await.expect("they hold none"));
    }
    bench.end(held.remove(0)).await;
    // each holds one now: the order of arrival decides
    let given = crowd[0].given().await;
    assert!(given.is_some() && crowd[1].waits().await && more.waits().await);
}

#[tokio::test(start_paused = true)]
async fn a_second_slot_of_a_user_comes_after_the_first_of_another() {
    let bench = Bench::new(2);
    let (one, two) = (bench.running("hostile", "a").await, bench.running("hostile", "b").await);
    let (mut first, mut second) = (bench.call("hostile", "c").await, bench.call("hostile", "d").await);
    let mut ann = bench.call("ann", "e").await;
    bench.end(one).await;
    let ann = ann.given().await.expect("she holds none");
    assert!(first.waits().await);
    bench.end(two).await;
    let held = first.given().await.expect("nobody else waits");
    bench.end(ann).await;
    assert!(second.given().await.is_some());
    bench.end(held).await;
}

#[tokio::test(start_paused = true)]
async fn a_free_slot_goes_to_the_only_user_who_waits() {
    let bench = Bench::new(3);
    let mut held = Vec::new();
    for session in ["a", "b", "c"] {
        held.push(bench.running("ann", session).await);
    }
    assert_eq!(held.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn of_eight_slots_one_is_kept_for_users_who_hold_none() {
    let bench = Bench::new(8);
    let mut held = Vec::new();
    for number in 0..7 {
        held.push(bench.running("hostile", &format!("h-{number}")).await);
    }
    let eighth = bench.call("hostile", "h-7").await;
    assert!(eighth.waits().await);
    bench.running("ann", "a").await;
    assert!(eighth.waits().await);
    // a single user of all slots needs none kept
    let mut key = bench.key.clone();
    key.scope = SharingScope::User(UserId::new("bob"));
    let own = Bench { key, ..bench };
    for number in 0..8 {
        held.push(own.running("bob", &format!("b-{number}")).await);
    }
}

#[tokio::test(start_paused = true)]
async fn long_calls_of_one_user_delay_another_by_five_seconds() {
    let bench = Bench::new(4);
    let mut held = Vec::new();
    for session in ["a", "b", "c", "d"] {
        held.push(bench.running("hostile", session).await);
    }
    let (more, mut own) = (bench.call("hostile", "e").await, bench.call("ann", "f").await);
    pass(just_before(RELIEF)).await;
    assert!(own.waits().await);
    pass(MOMENT).await;
    let own = own.given().await.expect("one more than `parallel`");
    assert_eq!(own.key().slot(), 4);
    pass(SLOT_TIME).await;
    assert!(more.waits().await, "it holds four");
    assert!(bench.call("ann", "g").await.waits().await, "there is one such slot");
    // its end is no slot for the others
    bench.end(own).await;
    assert!(more.waits().await);
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_session_join_its_slot_until_others_have_waited_for_too_long() {
    let bench = Bench::new(1);
    let first = bench.running("ann", "a").await;
    let other = bench.call("ann", "b").await;
    let joined = bench.running("ann", "a").await;
    pass(RELIEF).await;
    let late = bench.call("ann", "a").await;
    assert!(late.waits().await);
    bench.end(first).await;
    bench.end(joined).await;
    bench.end(other.outcome().await.unwrap()).await;
    assert!(late.outcome().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_call_joins_no_call_that_waits_for_a_person_if_another_process_is_free() {
    let bench = Bench::new(2);
    let asking = bench.asking("ann", "a").await;
    assert_eq!(bench.running("ann", "a").await.key().slot(), 0, "the person may answer at once");
    pass(LINGER).await;
    let apart = bench.running("ann", "a").await;
    assert_eq!(apart.key().slot(), 1);
    bench.ask(1);
    pass(RELIEF).await;
    bench.ask(1);
    let again = bench.running("ann", "a").await;
    assert_eq!(again.key().slot(), 1, "its server asked just now");
    bench.end(asking).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_for_one_particular_slot_does_not_block_the_others() {
    let bench = Bench::new(2);
    let (first, second) = (bench.running("ann", "a").await, bench.running("ann", "b").await);
    let mut bound = bench.ask_for(SlotRequest { only: Some(1), ..request("ann", "c") }).await;
    let mut free = bench.call("ann", "d").await;
    assert!(bound.waits().await && free.waits().await);
    bench.end(first).await;
    assert!(bound.waits().await);
    assert_eq!(free.given().await.unwrap().key().slot(), 0);
    bench.end(second).await;
    assert_eq!(bound.given().await.unwrap().key().slot(), 1);
}

#[tokio::test(start_paused = true)]
async fn where_calls_without_a_slot_run_in_the_first_session_it_is_never_one() {
    let bench = Bench::new(1);
    let apart = |session| SlotRequest { first: 1, ..request("ann", session) };
    let guard = bench.ask_for(apart("a")).await.given().await.unwrap();
    assert_eq!(guard.key().slot(), 1);
    let mut next = bench.ask_for(apart("b")).await;
    assert!(next.waits().await);
    bench.end(guard).await;
    assert_eq!(next.given().await.unwrap().key().slot(), 1);
}

#[tokio::test(start_paused = true)]
async fn whoever_leaves_passes_on_the_turn_and_the_slot() {
    let bench = Bench::new(1);
    let held = bench.asking("ann", "a").await;
    let (first, mut second) = (bench.call("ann", "b").await, bench.call("ann", "c").await);
    // the first looks after the slots; then the second has to
    first.abort().await;
    pass(RELIEF).await;
    let guard = second.given().await.expect("another process after five seconds");
    bench.end(guard).await;
    // a call that leaves at the moment at which it is given a slot
    let running = bench.running("ann", "d").await;
    let (given, mut next) = (bench.call("ann", "e").await, bench.call("ann", "f").await);
    running.answered();
    given.abort().await;
    assert!(next.given().await.is_some());
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_polls_holds_up_no_other_user() {
    let bench = Bench::new(1);
    let held = bench.running("hostile", "h-0").await;
    let mut unread: Vec<_> =
        (1..4).map(|number| Box::pin(bench.clone().acquire(request("hostile", &format!("h-{number}"))))).collect();
    assert!(unread.iter_mut().all(|call| call.as_mut().now_or_never().is_none()));
    let mut ann = bench.call("ann", "a").await;
    bench.end(held).await;
    pass(RELIEF).await;
    let guard = ann.given().await.expect("a slot beside the one that was given to nobody");
    bench.end(guard).await;
    drop(unread);
    assert!(bench.call("bob", "b").await.given().await.is_some(), "all is given back");
}

#[tokio::test(start_paused = true)]
async fn the_waiting_calls_of_one_user_are_limited_and_those_of_others_are_not() {
    let bench = Bench::new(1);
    let held = bench.running("hostile", "h").await;
    let mut crowd = Vec::new();
    for number in 0..MAX_WAITING {
        crowd.push(bench.call("hostile", &format!("h-{number}")).await);
    }
    assert_eq!(bench.call("hostile", "more").await.outcome().await.unwrap_err(), Busy);
    let mut ann = bench.call("ann", "a").await;
    bench.end(held).await;
    let guard = crowd.remove(0).outcome().await.unwrap();
    assert!(ann.waits().await);
    bench.end(guard).await;
    let guard = ann.given().await.expect("users take turns");
    bench.end(guard).await;
    assert!(crowd.remove(0).outcome().await.is_ok());
}
