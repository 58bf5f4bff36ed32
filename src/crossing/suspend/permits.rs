//! Counts suspended calls against their limits, for one user and for all.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use crate::{
    model::{LimitsConfig, UserId},
    support::Live,
};

/// The limits, and the number of suspended calls.
#[derive(Debug)]
pub(super) struct SuspensionPermits {
    limits: Live<LimitsConfig>,
    counts: Mutex<SuspendedCounts>,
}

#[derive(Debug, Default)]
struct SuspendedCounts {
    users: HashMap<UserId, usize>,
    all: usize,
}

/// The right to suspend one call. Dropping it frees its place.
#[derive(Debug)]
pub(super) struct SuspensionPermit {
    limits: Arc<SuspensionPermits>,
    user: UserId,
}

// === impl SuspensionPermits ===

impl SuspensionPermits {
    /// No suspended calls yet.
    pub(super) fn new(limits: Live<LimitsConfig>) -> Arc<Self> {
        Arc::new(Self { limits, counts: Mutex::default() })
    }

    /// Counts a call of this user.
    ///
    /// # Errors
    ///
    /// A text that names the limit, if it is reached.
    pub(super) fn begin(self: &Arc<Self>, user: &UserId) -> Result<SuspensionPermit, String> {
        let (of_user, of_all) = {
            let limits = self.limits.get();
            (limits.suspended_calls_per_user, limits.suspended_calls)
        };
        let mut counts = self.counts.lock();
        if counts.users.get(user).is_some_and(|count| *count >= of_user) {
            return Err(refusal("of yours", "suspended_calls_per_user", of_user));
        }
        if counts.all >= of_all {
            return Err(refusal("of all users", "suspended_calls", of_all));
        }
        counts.all += 1;
        *counts.users.entry(user.clone()).or_default() += 1;
        drop(counts);
        Ok(SuspensionPermit { limits: Arc::clone(self), user: user.clone() })
    }
}

impl Drop for SuspensionPermit {
    fn drop(&mut self) {
        let mut counts = self.limits.counts.lock();
        counts.all -= 1;
        if let Some(count) = counts.users.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                counts.users.remove(&self.user);
            }
        }
    }
}

/// A text that names the limit and the remedy.
fn refusal(whose: &str, option: &'static str, max: usize) -> String {
    metrics::counter!("lockkeeper_frontend_limited_total", "limit" => option).increment(1);
    format!(
        "too many calls wait for answers of their clients {whose} (limits.{option} = {max}): \
         answer some, or wait until they expire, or ask the operator to raise the limit"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_a_limit_and_all_users_have_one() {
        let limits = LimitsConfig { suspended_calls_per_user: 2, suspended_calls: 3, ..LimitsConfig::default() };
        let limits = SuspensionPermits::new(Live::new(limits));
        let begin = |user: &str| limits.begin(&UserId::new(user));
        let anns = [begin("ann").unwrap(), begin("ann").unwrap()];
        assert!(begin("ann").unwrap_err().contains("of yours (limits.suspended_calls_per_user = 2)"));
        let _bobs = begin("bob").unwrap();
        assert!(begin("bob").unwrap_err().contains("of all users (limits.suspended_calls = 3)"));
        drop(anns);
        assert!(begin("bob").is_ok());
        assert_eq!(limits.counts.lock().users.len(), 1, "nothing is kept of users that have nothing");
    }
}
