//! Whose turn it is to look a session up in the store. Each caller has one turn, so that one who names sessions that never
//! were waits for itself alone. Knows nothing of sessions.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use dashmap::DashMap;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::model::Owner;

/// The look-ups that run and wait.
#[derive(Debug)]
pub(super) struct Lookups {
    callers: DashMap<Owner, Arc<Caller>>,
    /// How many of one caller run or wait at once.
    most: usize,
}

/// The look-ups of one caller.
#[derive(Debug, Default)]
struct Caller {
    turn: Arc<Mutex<()>>,
    /// How many run or wait.
    count: AtomicUsize,
}

/// A caller's turn: no other look-up of that caller runs while it is held.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    _guard: OwnedMutexGuard<()>,
    _place: Place<'a>,
}

/// A place among the look-ups of a caller.
#[derive(Debug)]
struct Place<'a> {
    lookups: &'a Lookups,
    owner: Owner,
    caller: Arc<Caller>,
}

// === impl Lookups ===

impl Lookups {
    /// None run, and at most `most` of one caller run or wait at once.
    pub(super) fn new(most: usize) -> Self {
        Self { callers: DashMap::new(), most }
    }

    /// Waits for the turn of this caller; `None` where too many of its look-ups wait already.
    pub(super) async fn turn(&self, owner: Owner) -> Option<Turn<'_>> {
        let caller = Arc::clone(&self.callers.entry(owner.clone()).or_default());
        let before = caller.count.fetch_add(1, Ordering::AcqRel);
        let place = Place { lookups: self, owner, caller };
        if before >= self.most {
            return None;
        }
        let guard = Arc::clone(&place.caller.turn).lock_owned().await;
        Some(Turn { _guard: guard, _place: place })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.caller.count.fetch_sub(1, Ordering::AcqRel);
        // who comes for the entry meanwhile has counted itself, or makes another
        let is_unused =
            |_: &Owner, caller: &Arc<Caller>| Arc::ptr_eq(caller, &self.caller) && Arc::strong_count(caller) == 2;
        self.lookups.callers.remove_if(&self.owner, is_unused);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;
    use crate::model::{self, UserId};

    fn owner(user: &str) -> Owner {
        model::Caller { user: UserId::new(user), ..model::Caller::gateway() }.owner()
    }

    #[tokio::test]
    async fn each_caller_waits_for_itself_alone_and_in_bounds() {
        let lookups = Lookups::new(2);
        let first = lookups.turn(owner("ann")).await.unwrap();
        let mut second = Box::pin(lookups.turn(owner("ann")));
        assert!(poll!(&mut second).is_pending());
        assert!(lookups.turn(owner("ann")).await.is_none(), "a third is too many");
        assert!(lookups.turn(owner("bob")).await.is_some());
        drop(first);
        assert!(second.await.is_some());
        assert!(lookups.callers.is_empty(), "nothing is kept of callers that wait for nothing");
    }
}
