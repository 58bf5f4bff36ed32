//! Distribution of slots: order, sharing and timeouts.

use std::time::Duration;

use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::time::advance;

use super::*;
use crate::model::{Requester, SessionId, UserId};

const QUESTION_SLOT_TIME: Duration = Duration::from_mins(1);
const SLOT_WAIT: Duration = Duration::from_mins(2);

/// Slots with the default limits, which are the above.
fn slots(max: usize) -> Arc<QuestionSlots> {
    QuestionSlots::new(max, Live::default())
}

/// Never needs another check.
fn nothing(_: usize) -> Instant {
    Instant::now() + Duration::from_hours(1)
}

fn request(user: &str, session: &str) -> SlotRequest {
    SlotRequest { user: UserId::new(user), holder: Requester::Session(SessionId::new(session)), only: None }
}

fn acquire(
    slots: &Arc<QuestionSlots>,
    user: &'static str,
    session: &'static str,
) -> BoxFuture<'static, Result<SlotGuard, Busy>> {
    let slots = Arc::clone(slots);
    async move { slots.acquire(&ConnectionKey::base(), request(user, session), nothing).await }.boxed()
}

/// The index of a slot that is available at once.
fn at_once(waiting: &mut BoxFuture<'static, Result<SlotGuard, Busy>>) -> Option<SlotGuard> {
    waiting.now_or_never().map(Result::unwrap)
}

#[tokio::test]
async fn each_session_has_a_slot_of_its_own_and_waits_if_there_is_none() {
    let slots = slots(2);
    let take = |session| at_once(&mut acquire(&slots, "ann", session)).unwrap();
    let (one, again, two) = (take("a"), take("a"), take("b"));
    assert_eq!([one.key().slot(), again.key().slot(), two.key().slot()], [0, 0, 1]);
    let mut three = acquire(&slots, "ann", "c");
    assert!(at_once(&mut three).is_none());
    one.answered();
    assert!(at_once(&mut three).is_none(), "the other call of that session still runs");
    two.answered();
    assert_eq!(at_once(&mut three).unwrap().key().slot(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_slot_of_a_cancelled_call_stays_reserved_for_a_while() {
    let slots = slots(1);
    for _ in 0..2 {
        let mut slot = acquire(&slots, "ann", "a").await.unwrap();
        slot.begin();
        drop(slot);
    }
    let start = Instant::now();
    acquire(&slots, "ann", "b").await.unwrap();
    assert_eq!(start.elapsed(), LINGER);
}

#[tokio::test]
async fn the_slot_of_a_call_that_its_server_never_got_is_free_at_once() {
    let slots = slots(1);
    drop(acquire(&slots, "ann", "a").await);
    assert!(at_once(&mut acquire(&slots, "ann", "b")).is_some());
}

#[tokio::test(start_paused = true)]
async fn waiting_calls_time_out_in_order() {
    let slots = slots(1);
    let held = acquire(&slots, "ann", "a").await.unwrap();
    let start = Instant::now();
    assert_eq!(acquire(&slots, "ann", "b").await.unwrap_err(), Busy);
    assert_eq!(start.elapsed(), SLOT_WAIT);
    let (mut first, mut second) = (acquire(&slots, "ann", "c"), acquire(&slots, "ann", "d"));
    assert!(at_once(&mut first).is_none() && at_once(&mut second).is_none());
    held.answered();
    assert!(at_once(&mut second).is_none(), "another waits for longer");
    drop(first);
    assert!(at_once(&mut second).is_some(), "the other has gone");
}

#[tokio::test]
async fn one_user_holds_half_of_the_slots_while_another_waits() {
    let slots = slots(4);
    let mut held: Vec<SlotGuard> =
        ["a", "b", "c", "d"].map(|session| at_once(&mut acquire(&slots, "ann", session)).unwrap()).into();
    let mut own = acquire(&slots, "ann", "e");
    let mut others = ["f", "g", "h"].map(|session| acquire(&slots, "bob", session));
    assert!(at_once(&mut own).is_none() && others.iter_mut().all(|other| at_once(other).is_none()));
    for other in &mut others[..2] {
        held.pop().unwrap().answered();
        assert!(at_once(&mut own).is_none(), "another user waits");
        held.insert(0, at_once(other).unwrap());
    }
    // both hold half of the slots: the order decides again
    held.pop().unwrap().answered();
    assert!(at_once(&mut others[2]).is_none());
    assert!(at_once(&mut own).is_some());
}

#[tokio::test]
async fn a_free_slot_goes_to_the_only_user_who_waits() {
    let slots = slots(3);
    let one = at_once(&mut acquire(&slots, "ann", "a"));
    let two = at_once(&mut acquire(&slots, "ann", "b"));
    let three = at_once(&mut acquire(&slots, "ann", "c"));
    assert!(one.is_some() && two.is_some() && three.is_some());
}

#[tokio::test(start_paused = true)]
async fn new_calls_of_a_session_join_its_slot_until_others_have_waited_for_too_long() {
    let slots = slots(1);
    let first = acquire(&slots, "ann", "a").await.unwrap();
    let mut other = acquire(&slots, "bob", "b");
    assert!(at_once(&mut other).is_none());
    let joined = acquire(&slots, "ann", "a").await.unwrap();
    advance(QUESTION_SLOT_TIME).await;
    let mut late = acquire(&slots, "ann", "a");
    assert!(at_once(&mut late).is_none());
    first.answered();
    joined.answered();
    assert!(at_once(&mut late).is_none());
    at_once(&mut other).unwrap().answered();
    assert!(at_once(&mut late).is_some());
}

#[tokio::test(start_paused = true)]
async fn waiting_calls_request_the_number_of_missing_slots() {
    let slots = slots(2);
    let mut held: Vec<SlotGuard> = Vec::new();
    for session in ["a", "b"] {
        let mut slot = acquire(&slots, "ann", session).await.unwrap();
        slot.begin();
        held.push(slot);
    }
    let missing = Arc::new(Mutex::new(Vec::new()));
    let waiting = |session: &'static str| {
        let (slots, missing) = (Arc::clone(&slots), Arc::clone(&missing));
        let reclaim = move |count| {
            missing.lock().push(count);
            nothing(count)
        };
        async move { slots.acquire(&ConnectionKey::base(), request("bob", session), reclaim).await }.boxed()
    };
    let (mut one, mut two) = (waiting("c"), waiting("d"));
    assert!(at_once(&mut one).is_none() && at_once(&mut two).is_none());
    assert_eq!(missing.lock().split_off(0), [1, 2]);
    // one of them comes free by itself after a while
    drop(held.pop());
    assert!(at_once(&mut one).is_none() && at_once(&mut two).is_none());
    assert_eq!(missing.lock().split_off(0), [1, 1]);
}

#[tokio::test]
async fn a_call_for_one_particular_slot_does_not_block_the_others() {
    let slots = slots(2);
    let held: Vec<SlotGuard> = ["a", "b"].map(|session| at_once(&mut acquire(&slots, "ann", session)).unwrap()).into();
    let bound = SlotRequest { only: Some(1), ..request("ann", "c") };
    let of = Arc::clone(&slots);
    let mut bound = async move { of.acquire(&ConnectionKey::base(), bound, nothing).await }.boxed();
    let mut free = acquire(&slots, "ann", "d");
    assert!(at_once(&mut bound).is_none() && at_once(&mut free).is_none());
    let [first, second] = <[SlotGuard; 2]>::try_from(held).unwrap();
    first.answered();
    assert!(at_once(&mut bound).is_none());
    assert_eq!(at_once(&mut free).unwrap().key().slot(), 0);
    second.answered();
    assert_eq!(at_once(&mut bound).unwrap().key().slot(), 1);
}
