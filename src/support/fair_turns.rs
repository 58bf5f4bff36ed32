//! Turns for work that all owners share: an owner with much work waits for their own, and does not hold up others.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    hash::Hash,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Turns: several are held at once, one per owner. Waiting owners get theirs in order, one after the other. Clones
/// share them.
pub struct FairTurns<K>(Arc<Mutex<TurnQueue<K>>>);

/// The right to work. Dropping it passes the turn on.
pub struct FairTurn<K: Eq + Hash + Clone> {
    turns: FairTurns<K>,
    owner: K,
}

/// The wait for a turn. Dropping it leaves the queue.
struct WaitForTurn<K: Eq + Hash + Clone> {
    turns: FairTurns<K>,
    owner: K,
    given: oneshot::Receiver<()>,
}

struct TurnQueue<K> {
    /// Turns that are free.
    free: usize,
    /// The owners that hold a turn or wait for one.
    owners: HashMap<K, OwnerQueue>,
    /// The waiting owners without a turn, in order.
    next: VecDeque<K>,
}

#[derive(Default)]
struct OwnerQueue {
    holds_turn: bool,
    waiting: VecDeque<oneshot::Sender<()>>,
}

// === impl FairTurns ===

impl<K: Eq + Hash + Clone> FairTurns<K> {
    /// Up to `at_once` turns at once, at least one.
    pub fn new(at_once: usize) -> Self {
        let queue = TurnQueue { free: at_once.max(1), owners: HashMap::new(), next: VecDeque::new() };
        Self(Arc::new(Mutex::new(queue)))
    }

    /// Waits for a turn of this owner.
    pub async fn take(&self, owner: K) -> FairTurn<K> {
        let (give, given) = oneshot::channel();
        self.0.lock().enter(&owner, give);
        WaitForTurn { turns: self.clone(), owner, given }.await
    }

    /// A turn of this owner, if there is one now.
    pub fn try_take(&self, owner: &K) -> Option<FairTurn<K>> {
        let mut queue = self.0.lock();
        if queue.free == 0 || queue.owners.contains_key(owner) {
            return None;
        }
        queue.free -= 1;
        queue.owners.insert(owner.clone(), OwnerQueue { holds_turn: true, waiting: VecDeque::new() });
        Some(FairTurn { turns: self.clone(), owner: owner.clone() })
    }

    fn pass_on(&self, owner: &K) {
        self.0.lock().leave(owner);
    }
}

impl<K> Clone for FairTurns<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> fmt::Debug for FairTurns<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FairTurns").finish_non_exhaustive()
    }
}

// === impl TurnQueue ===

impl<K: Eq + Hash + Clone> TurnQueue<K> {
    fn enter(&mut self, owner: &K, give: oneshot::Sender<()>) {
        let queue = self.owners.entry(owner.clone()).or_default();
        if queue.waiting.is_empty() && !queue.holds_turn {
            self.next.push_back(owner.clone());
        }
        queue.waiting.push_back(give);
        self.give();
    }

    /// Takes back the turn of an owner.
    fn leave(&mut self, owner: &K) {
        self.free += 1;
        if let Some(queue) = self.owners.get_mut(owner) {
            queue.holds_turn = false;
            if queue.waiting.is_empty() {
                self.owners.remove(owner);
            } else {
                self.next.push_back(owner.clone());
            }
        }
        self.give();
    }

    /// Hands out the free turns.
    fn give(&mut self) {
        while self.free > 0 {
            let Some(owner) = self.next.pop_front() else { return };
            let Some(queue) = self.owners.get_mut(&owner) else { continue };
            // waiters that have left are skipped
            let is_given = std::iter::from_fn(|| queue.waiting.pop_front()).any(|give| give.send(()).is_ok());
            if is_given {
                queue.holds_turn = true;
                self.free -= 1;
            } else {
                self.owners.remove(&owner);
            }
        }
    }
}

// === impl WaitForTurn ===

impl<K: Eq + Hash + Clone> Unpin for WaitForTurn<K> {}

impl<K: Eq + Hash + Clone> Future for WaitForTurn<K> {
    type Output = FairTurn<K>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<FairTurn<K>> {
        // cannot fail: the queue keeps the sender until it gives the turn, or this is dropped
        Pin::new(&mut self.given).poll(cx).map(|_| FairTurn { turns: self.turns.clone(), owner: self.owner.clone() })
    }
}

impl<K: Eq + Hash + Clone> Drop for WaitForTurn<K> {
    fn drop(&mut self) {
        self.given.close();
        // given but not taken
        if self.given.try_recv().is_ok() {
            self.turns.pass_on(&self.owner);
        }
    }
}

// === impl FairTurn ===

impl<K: Eq + Hash + Clone> Drop for FairTurn<K> {
    fn drop(&mut self) {
        self.turns.pass_on(&self.owner);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    /// A wait that has begun.
    fn waits(
        turns: &FairTurns<&'static str>,
        owner: &'static str,
    ) -> Pin<Box<impl Future<Output = FairTurn<&'static str>>>> {
        let turns = turns.clone();
        let mut wait = Box::pin(async move { turns.take(owner).await });
        assert!(wait.as_mut().now_or_never().is_none());
        wait
    }

    fn has(wait: &mut Pin<Box<impl Future<Output = FairTurn<&'static str>>>>) -> Option<FairTurn<&'static str>> {
        wait.as_mut().now_or_never()
    }

    #[test]
    fn an_owner_with_much_work_waits_and_others_do_not() {
        let turns = FairTurns::new(2);
        let first = turns.take("hostile").now_or_never().unwrap();
        let mut more: Vec<_> = (0..100).map(|_| waits(&turns, "hostile")).collect();
        // the second turn is for others
        let ann = turns.take("ann").now_or_never().unwrap();
        let mut bob = waits(&turns, "bob");
        drop(first);
        let bob = has(&mut bob).unwrap();
        assert!(has(&mut more[0]).is_none());
        drop(ann);
        let second = has(&mut more[0]).unwrap();
        assert!(has(&mut more[1]).is_none(), "one for each owner");
        drop((bob, second));
        assert!(has(&mut more[1]).is_some());
    }

    #[test]
    fn whoever_leaves_passes_the_turn_on() {
        let turns = FairTurns::new(1);
        let held = turns.take("a").now_or_never().unwrap();
        let (left, given, mut next) = (waits(&turns, "b"), waits(&turns, "b"), waits(&turns, "c"));
        drop(left);
        drop(held);
        assert!(has(&mut next).is_none(), "it is the turn of the second of b");
        drop(given);
        drop(has(&mut next).unwrap());
        assert!(turns.0.lock().owners.is_empty() && turns.0.lock().next.is_empty(), "nothing is left");
        assert_eq!(turns.0.lock().free, 1);
    }

    #[test]
    fn a_free_turn_is_taken_at_once_by_whoever_holds_none() {
        let turns = FairTurns::new(2);
        let first = turns.try_take(&"a").unwrap();
        assert!(turns.try_take(&"a").is_none(), "one for each owner");
        let other = turns.try_take(&"b").unwrap();
        assert!(turns.try_take(&"c").is_none());
        let mut next = waits(&turns, "c");
        drop(first);
        assert!(turns.try_take(&"a").is_none(), "it is the turn of another");
        drop((other, has(&mut next).unwrap()));
        assert!(turns.0.lock().owners.is_empty());
        assert_eq!(turns.0.lock().free, 2);
    }
}
