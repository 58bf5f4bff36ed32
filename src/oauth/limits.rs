//! How often somebody may fail, or register (`OA-42`, `OA-127`). Knows nothing of what is counted.
//!
//! A failure is charged after the fact and looked at before the next try, and only the given clock counts; so this is an
//! own bucket (GCRA, one moment per key), where elsewhere a limiter crate does.

use std::{collections::HashMap, hash::Hash, time::Duration};

use parking_lot::Mutex;

use crate::support::Timestamp;

/// How many keys are remembered; the table is cleared of full buckets, then of all, when it would grow beyond.
const MOST_KEYS: usize = 100_000;

/// For each key a bucket that holds `burst` and refills by one each `period`.
#[derive(Debug)]
pub struct Buckets<K> {
    burst: u32,
    period: Duration,
    /// For each key, when its bucket will be full again.
    full_at: Mutex<HashMap<K, Timestamp>>,
}

impl<K: Hash + Eq> Buckets<K> {
    /// Full buckets of `burst` that refill by one each `period`.
    pub fn new(burst: u32, period: Duration) -> Self {
        Self { burst, period, full_at: Mutex::default() }
    }

    /// How long until the bucket of `key` holds one; `None` where it does now.
    pub fn wait(&self, key: &K, now: Timestamp) -> Option<Duration> {
        let full_at = self.full_at.lock().get(key).copied().unwrap_or(now);
        let room = self.period * self.burst.saturating_sub(1);
        let wait = full_at.since(now).saturating_sub(room);
        (!wait.is_zero()).then_some(wait)
    }

    /// Takes one out of the bucket of `key`, below empty too, to at most twice its depth.
    pub fn charge(&self, key: K, now: Timestamp) {
        let mut table = self.full_at.lock();
        if table.len() >= MOST_KEYS {
            table.retain(|_, full_at| *full_at > now);
            if table.len() >= MOST_KEYS {
                table.clear();
            }
        }
        let deepest = now + self.period * self.burst.saturating_mul(2);
        let full_at = table.entry(key).or_insert(now);
        *full_at = ((*full_at).max(now) + self.period).min(deepest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_runs_empty_and_refills() {
        let buckets = Buckets::new(3, Duration::from_secs(10));
        let start = Timestamp::from_seconds(0);
        for _ in 0..3 {
            assert_eq!(buckets.wait(&"a", start), None);
            buckets.charge("a", start);
        }
        assert_eq!(buckets.wait(&"a", start), Some(Duration::from_secs(10)));
        assert_eq!(buckets.wait(&"b", start), None);
        assert_eq!(buckets.wait(&"a", start + Duration::from_secs(10)), None);
    }
}
