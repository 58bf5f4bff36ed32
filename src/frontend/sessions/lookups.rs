//! Permits to look up a session in the store. Each user has one permit, so a user who sends invented session ids delays
//! only their own look-ups.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use dashmap::DashMap;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::{
    model::{LimitsConfig, UserId},
    support::Live,
};

/// Number of look-ups that may wait for each session that a user may have. After a restart of the gateway, a client
/// sends a few requests at once.
const LOOKUPS_PER_SESSION: usize = 4;

/// The look-ups that are running or waiting.
#[derive(Debug)]
pub(super) struct Lookups {
    users: DashMap<UserId, Arc<UserLookups>>,
    /// The limits of sessions, from which the limit of look-ups follows.
    limits: Live<LimitsConfig>,
}

/// The look-ups of one user.
#[derive(Debug, Default)]
struct UserLookups {
    permit: Arc<Mutex<()>>,
    /// The number of running and waiting look-ups.
    count: AtomicUsize,
}

/// A user's permit. While it is held, no other look-up of that user runs.
#[derive(Debug)]
pub(super) struct LookupPermit<'a> {
    _guard: OwnedMutexGuard<()>,
    _counted: Counted<'a>,
}

#[derive(Debug)]
struct Counted<'a> {
    lookups: &'a Lookups,
    user: UserId,
    theirs: Arc<UserLookups>,
}

// === impl Lookups ===

impl Lookups {
    /// Creates an empty table. The number of look-ups depends on `sessions_per_user`.
    pub(super) fn new(limits: Live<LimitsConfig>) -> Self {
        Self { users: DashMap::new(), limits }
    }

    /// Waits for this user's permit; `None` if too many of the user's look-ups are waiting.
    pub(super) async fn permit(&self, user: &UserId) -> Option<LookupPermit<'_>> {
        let theirs = Arc::clone(&self.users.entry(user.clone()).or_default());
        let before = theirs.count.fetch_add(1, Ordering::AcqRel);
        let counted = Counted { lookups: self, user: user.clone(), theirs };
        if before >= self.limits.get().sessions_per_user.saturating_mul(LOOKUPS_PER_SESSION) {
            return None;
        }
        let guard = Arc::clone(&counted.theirs.permit).lock_owned().await;
        Some(LookupPermit { _guard: guard, _counted: counted })
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.theirs.count.fetch_sub(1, Ordering::AcqRel);
        // a task that takes the entry in the meantime has counted itself, or creates a new one
        let is_unused =
            |_: &UserId, theirs: &Arc<UserLookups>| Arc::ptr_eq(theirs, &self.theirs) && Arc::strong_count(theirs) == 2;
        self.lookups.users.remove_if(&self.user, is_unused);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn each_user_waits_for_their_own_alone_and_in_bounds() {
        let limits = LimitsConfig { sessions_per_user: 1, ..LimitsConfig::default() };
        let (lookups, ann) = (Lookups::new(Live::new(limits)), UserId::new("ann"));
        let first = lookups.permit(&ann).await.unwrap();
        let mut waiting: Vec<_> = (1..LOOKUPS_PER_SESSION).map(|_| Box::pin(lookups.permit(&ann))).collect();
        for next in &mut waiting {
            assert!(poll!(next).is_pending());
        }
        assert!(lookups.permit(&ann).await.is_none(), "one more is too many");
        assert!(lookups.permit(&UserId::new("bob")).await.is_some());
        drop(first);
        for next in waiting {
            assert!(next.await.is_some());
        }
        assert!(lookups.users.is_empty(), "nothing is kept of users who wait for nothing");
    }
}
