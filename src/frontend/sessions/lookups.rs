//! Permits to look a session up in the store. Each caller has one, so that a caller who names sessions that never were waits
//! for itself alone. Knows nothing of sessions.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use dashmap::DashMap;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::{
    model::{LimitsConfig, Owner},
    support::Live,
};

/// The look-ups in the store that wait for each session that a caller may have: after a restart of the gateway, a client
/// sends a few requests at once.
const LOOKUPS_PER_SESSION: usize = 4;

/// The look-ups that run and wait.
#[derive(Debug)]
pub(super) struct Lookups {
    callers: DashMap<Owner, Arc<CallerLookups>>,
    /// The limits of sessions, from which that of look-ups derives.
    limits: Live<LimitsConfig>,
}

/// The look-ups of one caller.
#[derive(Debug, Default)]
struct CallerLookups {
    permit: Arc<Mutex<()>>,
    /// The number that run or wait.
    count: AtomicUsize,
}

/// A caller's permit: no other look-up of that caller runs while it is held.
#[derive(Debug)]
pub(super) struct LookupPermit<'a> {
    _guard: OwnedMutexGuard<()>,
    _counted: Counted<'a>,
}

/// A look-up that is counted.
#[derive(Debug)]
struct Counted<'a> {
    lookups: &'a Lookups,
    owner: Owner,
    caller: Arc<CallerLookups>,
}

// === impl Lookups ===

impl Lookups {
    /// No look-ups yet. Their number depends on `sessions_per_caller`.
    pub(super) fn new(limits: Live<LimitsConfig>) -> Self {
        Self { callers: DashMap::new(), limits }
    }

    /// Waits for the permit of this caller; `None` if too many of its look-ups wait already.
    pub(super) async fn permit(&self, owner: Owner) -> Option<LookupPermit<'_>> {
        let caller = Arc::clone(&self.callers.entry(owner.clone()).or_default());
        let before = caller.count.fetch_add(1, Ordering::AcqRel);
        let counted = Counted { lookups: self, owner, caller };
        if before >= self.limits.get().sessions_per_caller.saturating_mul(LOOKUPS_PER_SESSION) {
            return None;
        }
        let guard = Arc::clone(&counted.caller.permit).lock_owned().await;
        Some(LookupPermit { _guard: guard, _counted: counted })
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.caller.count.fetch_sub(1, Ordering::AcqRel);
        // a task that gets the entry meanwhile has counted itself, or creates another
        let is_unused = |_: &Owner, caller: &Arc<CallerLookups>| {
            Arc::ptr_eq(caller, &self.caller) && Arc::strong_count(caller) == 2
        };
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
        let limits = LimitsConfig { sessions_per_caller: 1, ..LimitsConfig::default() };
        let lookups = Lookups::new(Live::new(limits));
        let first = lookups.permit(owner("ann")).await.unwrap();
        let mut waiting: Vec<_> = (1..LOOKUPS_PER_SESSION).map(|_| Box::pin(lookups.permit(owner("ann")))).collect();
        for next in &mut waiting {
            assert!(poll!(next).is_pending());
        }
        assert!(lookups.permit(owner("ann")).await.is_none(), "one more is too many");
        assert!(lookups.permit(owner("bob")).await.is_some());
        drop(first);
        for next in waiting {
            assert!(next.await.is_some());
        }
        assert!(lookups.callers.is_empty(), "nothing is kept of callers that wait for nothing");
    }
}
