//! Fair shares, the order of what is given up, and the bound that nothing exceeds.

use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::support::byte_queue::{Bounds, Queued, byte_queue};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// A holding of one kind.
struct Held {
    kind: Relief,
    charge: Mutex<Option<Charge>>,
}

impl Held {
    fn new(account: &Account, kind: Relief, bytes: usize) -> (Arc<Self>, Listed) {
        let charge = Mutex::new(Some(Charge::of(account.clone(), bytes).unwrap()));
        let held = Arc::new(Self { kind, charge });
        let holding: Arc<dyn Holding> = Arc::clone(&held) as Arc<dyn Holding>;
        let listed = account.list(Arc::downgrade(&holding));
        (held, listed)
    }

    fn is_there(&self) -> bool {
        self.charge.lock().is_some()
    }
}

impl Holding for Held {
    fn give_up(&self, _: &Account, relief: Relief) {
        if relief == self.kind {
            *self.charge.lock() = None;
        }
    }
}

#[test]
fn a_charge_comes_in_steps_and_is_given_back() {
    let budget = MemoryBudget::new(MIB);
    let account = budget.user("ann");
    let mut charge = Charge::of(account.clone(), STEP - 1).unwrap();
    assert_eq!(budget.in_use().held, 0, "a small holding writes no counter");
    charge.grow(2).unwrap();
    assert_eq!((account.held(), budget.in_use().held), (STEP, STEP));
    charge.shrink(2);
    assert_eq!(account.held(), 0);
    charge.grow(10 * STEP).unwrap();
    drop(charge);
    assert_eq!(budget.in_use(), MemoryUse { budget: MIB, held: 0, holders: Vec::new() });
    drop(account);
    assert!(budget.0.accounts.lock().all().count() == 0, "nothing is left of a user who holds nothing");
}

#[test]
fn whoever_is_furthest_above_a_fair_share_pays_and_in_the_order_of_what_matters_least() {
    let budget = MemoryBudget::new(8 * MIB);
    let (hostile, ann, bob) = (budget.user("hostile"), budget.user("ann"), budget.server("bob"));
    let order = [Relief::Replay, Relief::Lists, Relief::Notifications, Relief::Streams, Relief::Calls];
    let (held, _listed): (Vec<_>, Vec<_>) = order.map(|kind| Held::new(&hostile, kind, MIB)).into_iter().rev().unzip();
    let (of_ann, _ann) = Held::new(&ann, Relief::Replay, MIB);
    let _of_bob = Charge::of(bob.clone(), MIB).unwrap();
    let there = || held.iter().rev().map(|held| held.is_there()).collect::<Vec<_>>();
    assert_eq!(there(), [true; 5]);
    let more = Charge::of(bob.clone(), MIB).unwrap();
    assert_eq!(there(), [false, true, true, true, true]);
    let _most = Charge::of(ann.clone(), MIB + MIB / 2).unwrap();
    assert_eq!(there(), [false, false, false, true, true]);
    assert!(of_ann.is_there(), "within a share nobody is touched");
    drop(more);
    assert!(Charge::of(hostile.clone(), 3 * MIB).is_err(), "who asks for too much is refused");
    assert!(there()[4], "and does not end its own calls for it");
    assert!(Charge::of(budget.user("new"), MIB / 2).is_ok(), "there is room for whoever has nothing yet");
}

#[test]
fn the_last_eighth_is_for_those_who_hold_little() {
    let budget = MemoryBudget::new(8 * MIB);
    let hostile = budget.user("hostile");
    let _most = Charge::of(hostile.clone(), 7 * MIB).unwrap();
    assert_eq!(Charge::of(hostile, STEP).unwrap_err(), Exhausted);
    let _little = Charge::of(budget.user("ann"), MIB / 2).unwrap();
    assert_eq!(budget.in_use().held, 7 * MIB + MIB / 2);
}

#[tokio::test]
async fn a_claim_is_reclaimed_from_whoever_holds_too_much_and_counts_as_leaving() {
    let budget = MemoryBudget::new(8 * MIB);
    let hostile = budget.user("hostile");
    let mut claims: Vec<_> = (0..7).map(|_| Claim::of(hostile.clone(), MIB).unwrap()).collect();
    let _ann = Charge::of(budget.user("ann"), MIB).unwrap();
    assert_eq!(claims.iter().filter(|claim| claim.is_reclaimed()).count(), 1, "no more than is needed");
    let reclaimed = claims.iter().position(Claim::is_reclaimed).unwrap();
    assert_eq!(claims[reclaimed].reclaimed().await, Exhausted);
    assert!(claims[reclaimed].grow(1).is_err());
    drop(claims.remove(reclaimed));
    assert_eq!((hostile.held(), hostile.leaving()), (6 * MIB, 0));
    claims[0].clear();
    assert_eq!(hostile.held(), 5 * MIB);
}

#[tokio::test(start_paused = true)]
async fn whoever_is_within_a_share_waits_for_what_others_are_about_to_give_back() {
    let budget = MemoryBudget::new(8 * MIB);
    let (hostile, ann) = (budget.user("hostile"), budget.user("ann"));
    let mut claims = [Claim::of(hostile.clone(), 3 * MIB).unwrap(), Claim::of(hostile.clone(), 4 * MIB).unwrap()];
    let mut of_ann = Claim::nothing(ann.clone());
    let (grown, ()) = tokio::join!(of_ann.grow_soon(3 * MIB), async {
        tokio::task::yield_now().await;
        claims.iter_mut().filter(|claim| claim.is_reclaimed()).for_each(Claim::clear);
    });
    assert_eq!(grown, Ok(()));
    // one beyond its share is refused at once, and one that nobody gives anything back for after a while
    let (mut late, mut hostile) = (Claim::nothing(budget.user("bob")), Claim::nothing(hostile));
    let started = Instant::now();
    assert_eq!(hostile.grow_soon(4 * MIB).await, Err(Exhausted));
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!(late.grow_soon(2 * MIB).await, Err(Exhausted));
    assert_eq!(started.elapsed(), PATIENCE);
    // where nothing is about to come, nobody waits for it
    claims.iter_mut().for_each(Claim::clear);
    drop(of_ann);
    let _most = Charge::of(ann, 6 * MIB).unwrap();
    assert_eq!(late.grow_soon(2 * MIB).await, Err(Exhausted));
    assert_eq!(started.elapsed(), PATIENCE);
}

#[derive(Debug, PartialEq, Eq)]
enum Item {
    Told(usize),
    Asked(usize),
    End,
}

impl Queued for Item {
    fn weight(&self) -> usize {
        match self {
            Self::Told(size) | Self::Asked(size) => *size,
            Self::End => 0,
        }
    }

    fn is_dispensable(&self) -> bool {
        matches!(self, Self::Told(_))
    }

    fn exhausted() -> Option<Self> {
        Some(Self::End)
    }
}

#[tokio::test]
async fn a_queue_has_bounds_of_its_own_and_gives_up_what_is_dispensable_first() {
    let budget = MemoryBudget::new(8 * MIB);
    let bounds = Bounds { messages: 3, bytes: MIB };
    let (sender, mut receiver) = byte_queue(bounds, budget.user("ann"));
    sender.send(Item::Told(2 * MIB)).unwrap();
    assert_eq!(sender.send(Item::Told(1)), Err(Item::Told(1)), "one message fits always, and no further one");
    assert_eq!(receiver.next().await, Some(Item::Told(2 * MIB)));
    for size in [10, 20, 30] {
        sender.send(Item::Asked(size)).unwrap();
    }
    assert_eq!(sender.send(Item::Told(1)), Err(Item::Told(1)));
    receiver.close();
    assert_eq!(sender.send(Item::Told(1)), Err(Item::Told(1)));

    let hostile = budget.user("hostile");
    let queues: Vec<_> = (0..7).map(|_| byte_queue(Bounds { messages: 9, bytes: MIB }, hostile.clone())).collect();
    for (sender, _) in &queues {
        sender.send(Item::Asked(MIB / 2)).unwrap();
        sender.send(Item::Told(MIB / 2)).unwrap();
    }
    let _ann = Charge::of(budget.user("ann"), 3 * MIB).unwrap();
    let (sender, mut receiver) = queues.into_iter().next().unwrap();
    assert_eq!(receiver.next().await, Some(Item::Asked(MIB / 2)));
    assert!(receiver.ready().is_none());
    sender.finish(Item::Told(20 * MIB));
    assert_eq!(receiver.next().await, Some(Item::End), "for the end there is a substitute");
    assert_eq!(receiver.next().await, None);
}

/// Something that a holder does.
#[derive(Debug, Clone)]
enum Step {
    Take(usize, usize),
    Grow(usize, usize),
    Clear(usize),
    Drop(usize),
    Send(usize, usize),
    Read(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let (holder, place, bytes) = (0..4_usize, 0..32_usize, 0..(3 * MIB));
    prop_oneof![
        (holder, bytes.clone()).prop_map(|(holder, bytes)| Step::Take(holder, bytes)),
        (place.clone(), bytes.clone()).prop_map(|(place, bytes)| Step::Grow(place, bytes)),
        place.clone().prop_map(Step::Clear),
        place.prop_map(Step::Drop),
        (0..4_usize, bytes).prop_map(|(holder, bytes)| Step::Send(holder, bytes)),
        (0..4_usize).prop_map(Step::Read),
    ]
}

#[test]
fn the_sum_of_all_charges_never_exceeds_the_budget_and_is_the_sum_of_the_holders() {
    proptest!(|(steps in prop::collection::vec(step(), 1..200))| {
        let budget = MemoryBudget::new(8 * MIB);
        let accounts = [budget.process(), budget.server("s"), budget.user("ann"), budget.user("bob")];
        let queues: Vec<_> =
            accounts.iter().map(|account| byte_queue(Bounds { messages: 9, bytes: 4 * MIB }, account.clone())).collect();
        let (senders, mut receivers): (Vec<_>, Vec<_>) = queues.into_iter().unzip();
        let mut claims: Vec<Claim> = Vec::new();
        for step in steps {
            match step {
                Step::Take(holder, bytes) => claims.extend(Claim::of(accounts[holder].clone(), bytes)),
                Step::Grow(place, bytes) => drop(claims.get_mut(place).map(|claim| claim.grow(bytes))),
                Step::Clear(place) => {
                    if let Some(claim) = claims.get_mut(place) {
                        claim.clear();
                    }
                }
                Step::Drop(place) => {
                    if place < claims.len() {
                        claims.swap_remove(place);
                    }
                }
                Step::Send(holder, bytes) => drop(senders[holder].send(Item::Told(bytes))),
                Step::Read(holder) => drop(receivers[holder].ready()),
            }
            let used = budget.in_use();
            prop_assert!(used.held <= used.budget, "{used:?}");
            prop_assert_eq!(used.held, used.holders.iter().map(|(_, held)| held).sum::<usize>());
        }
        drop((claims, senders, receivers));
        prop_assert_eq!(budget.in_use().held, 0);
    });
}
