//! Rate limits (`OA-42`, `OA-127`, N-44).
//!
//! A limit is checked and charged in one step, before any await: of any number of concurrent requests, exactly as many
//! pass as the limit allows. Time comes from the given clock. Tables are bounded and keep the worst offenders, so
//! requests from many addresses do not reset any counter.

use std::{collections::HashMap, hash::Hash, time::Duration};

use parking_lot::Mutex;

use super::clock::Timestamp;

/// Maximum number of keys in a table.
const MAX_KEYS: usize = 100_000;

/// Number of times that the delay of [`Backoff`] doubles.
const MAX_DOUBLINGS: u32 = 5;

/// For each key a bucket that holds `burst` and refills by one each `period` (GCRA).
#[derive(Debug)]
pub struct Buckets<K> {
    burst: u32,
    period: Duration,
    /// The depth below empty that a bucket may reach, in full buckets: other processes took tokens in the meantime.
    debt: u32,
    /// For each key, when its bucket will be full again.
    full_at: Mutex<HashMap<K, Timestamp>>,
    /// Tokens taken since the other processes last got an update; `None` if this process counts by itself.
    untold: Option<Mutex<HashMap<K, i64>>>,
}

/// For each key, a number of failures without delay, then a delay that doubles with each failure.
#[derive(Debug)]
pub struct Backoff<K> {
    allowance: u32,
    delay: Duration,
    failures: Mutex<HashMap<K, Failures>>,
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    delayed_until: Timestamp,
    forgotten_at: Timestamp,
}

// === impl Buckets ===

impl<K: Hash + Eq + Clone> Buckets<K> {
    /// Full buckets of `burst` that refill by one each `period`.
    pub fn new(burst: u32, period: Duration) -> Self {
        Self { burst, period, debt: 0, full_at: Mutex::default(), untold: None }
    }

    /// The same, shared with other processes by [`Self::drain`] and [`Self::adopt`].
    pub fn shared(burst: u32, period: Duration) -> Self {
        Self { debt: 1, untold: Some(Mutex::default()), ..Self::new(burst, period) }
    }

    /// Takes one token out of the bucket of `key`, in one step. The error is the time until the next token; then
    /// nothing is taken.
    pub fn take(&self, key: K, now: Timestamp) -> Result<(), Duration> {
        let mut table = self.full_at.lock();
        let depth = self.period * self.burst;
        if let Some(full_at) = table.get_mut(&key) {
            // setting a clock back must not empty a bucket for longer than it takes to fill
            let refilled = (*full_at).max(now).min(now + depth * (1 + self.debt));
            let beyond = (refilled + self.period).since(now).saturating_sub(depth);
            *full_at = refilled;
            if !beyond.is_zero() {
                return Err(beyond);
            }
            *full_at = refilled + self.period;
        } else {
            make_room(&mut table, now, |full_at| *full_at);
            table.insert(key.clone(), now + self.period);
        }
        self.note(key, 1);
        Ok(())
    }

    /// Returns one token to the bucket of `key`, up to `burst`.
    pub fn give_back(&self, key: &K, now: Timestamp) {
        let mut table = self.full_at.lock();
        if let Some(full_at) = table.get_mut(key) {
            *full_at = *full_at - self.period;
            if *full_at <= now {
                table.remove(key);
            }
            self.note(key.clone(), -1);
        }
    }

    /// Returns the delay in milliseconds that this process added to each bucket's refill since the last call; at most
    /// `max` buckets.
    pub fn drain(&self, max: usize) -> Vec<(K, i64)> {
        let Some(untold) = &self.untold else { return Vec::new() };
        let mut untold = untold.lock();
        let keys: Vec<K> = untold.keys().take(max).cloned().collect();
        let told = keys.into_iter().filter_map(|key| untold.remove_entry(&key));
        told.map(|(key, taken)| (key, self.millis(taken))).collect()
    }

    /// Adopts the time when the bucket of `key` will be full, as computed from all processes.
    pub fn adopt(&self, key: K, full_at: Timestamp) {
        let mut table = self.full_at.lock();
        let taken = self.untold.as_ref().and_then(|untold| untold.lock().get(&key).copied());
        let full_at = Timestamp::from_millis(full_at.as_millis().saturating_add(self.millis(taken.unwrap_or(0))));
        if table.len() < MAX_KEYS || table.contains_key(&key) {
            table.insert(key, full_at);
        }
    }

    /// Notes the next update for the others, while the table is locked.
    fn note(&self, key: K, taken: i64) {
        if let Some(untold) = &self.untold {
            let mut untold = untold.lock();
            if untold.len() < MAX_KEYS {
                *untold.entry(key).or_default() += taken;
            }
        }
    }

    fn millis(&self, taken: i64) -> i64 {
        taken.saturating_mul(i64::try_from(self.period.as_millis()).unwrap_or(i64::MAX))
    }
}

// === impl Backoff ===

impl<K: Hash + Eq + Clone> Backoff<K> {
    /// No delay for `allowance` failures, `delay` after the next one, then twice as long each time, at most 32 times
    /// `delay`. Failures expire after that longest delay without one.
    pub fn new(allowance: u32, delay: Duration) -> Self {
        Self { allowance, delay, failures: Mutex::default() }
    }

    /// Counts a failure, in one step. The error is the time until the next failure counts; earlier ones are refused
    /// uncounted.
    pub fn fail(&self, key: K, now: Timestamp) -> Result<(), Duration> {
        let mut table = self.failures.lock();
        let longest = self.delay * 2_u32.pow(MAX_DOUBLINGS);
        let known = table.get(&key).filter(|known| now < known.forgotten_at);
        if let Some(known) = known
            && now < known.delayed_until
        {
            return Err(known.delayed_until.since(now).min(longest));
        }
        let count = known.map_or(0, |known| known.count).saturating_add(1);
        let beyond = count.checked_sub(self.allowance + 1);
        let delay = beyond.map_or(Duration::ZERO, |beyond| self.delay * 2_u32.pow(beyond.min(MAX_DOUBLINGS)));
        if !table.contains_key(&key) {
            make_room(&mut table, now, |failures| failures.forgotten_at);
        }
        let forgotten_at = now + delay + longest;
        table.insert(key, Failures { count, delayed_until: now + delay, forgotten_at });
        if delay.is_zero() { Ok(()) } else { Err(delay) }
    }
}

/// Frees space for one entry in a full table: removes expired entries, and then the eighth that expires first, which
/// belongs to the mildest offenders.
fn make_room<K: Hash + Eq + Clone, V>(table: &mut HashMap<K, V>, now: Timestamp, end: impl Fn(&V) -> Timestamp) {
    if table.len() < MAX_KEYS {
        return;
    }
    table.retain(|_, value| end(value) > now);
    if table.len() < MAX_KEYS {
        return;
    }
    let mut entries: Vec<(Timestamp, K)> = table.iter().map(|(key, value)| (end(value), key.clone())).collect();
    entries.select_nth_unstable_by_key(MAX_KEYS / 8, |(end, _)| *end);
    for (_, key) in entries.into_iter().take(MAX_KEYS / 8) {
        table.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(10);
    const START: Timestamp = Timestamp::from_seconds(1_000_000);

    #[test]
    fn a_bucket_runs_empty_and_refills() {
        let buckets = Buckets::new(3, PERIOD);
        for _ in 0..3 {
            assert_eq!(buckets.take("a", START), Ok(()));
        }
        assert_eq!(buckets.take("a", START), Err(PERIOD));
        assert_eq!(buckets.take("a", START), Err(PERIOD), "a refusal is not charged");
        assert_eq!(buckets.take("b", START), Ok(()));
        assert_eq!(buckets.take("a", START + PERIOD), Ok(()));
        assert_eq!(buckets.take("a", START + PERIOD), Err(PERIOD));
    }

    #[test]
    fn a_returned_token_can_be_taken_once() {
        let buckets = Buckets::new(2, PERIOD);
        assert_eq!(buckets.take("a", START), Ok(()));
        buckets.give_back(&"a", START);
        buckets.give_back(&"a", START);
        assert_eq!([0; 3].map(|_| buckets.take("a", START)), [Ok(()), Ok(()), Err(PERIOD)]);
    }

    #[test]
    fn what_several_processes_took_is_paid_back() {
        let (here, there) = (Buckets::shared(2, PERIOD), Buckets::shared(2, PERIOD));
        for buckets in [&here, &there] {
            assert_eq!([buckets.take("a", START), buckets.take("a", START)], [Ok(()), Ok(())], "nobody knows yet");
        }
        let told: Vec<_> = [&here, &there].into_iter().flat_map(|buckets| buckets.drain(10)).collect();
        assert_eq!(told, [("a", 20_000), ("a", 20_000)]);
        let full_at = START + PERIOD * 4;
        for buckets in [&here, &there] {
            buckets.adopt("a", full_at);
            assert_eq!(buckets.take("a", START + PERIOD * 2), Err(PERIOD));
            assert!(buckets.drain(10).is_empty(), "a refusal is not charged");
        }
        assert_eq!(here.take("a", START + PERIOD * 3), Ok(()));
        here.adopt("a", full_at);
        assert_eq!(here.take("a", START + PERIOD * 3), Err(PERIOD), "its own are counted before they are told");
    }

    #[test]
    fn a_clock_set_back_blocks_nobody_longer_than_one_refill() {
        let buckets = Buckets::new(2, PERIOD);
        let later = START + Duration::from_hours(24);
        assert_eq!(buckets.take("a", later), Ok(()));
        assert_eq!(buckets.take("a", START), Err(PERIOD));
        assert_eq!(buckets.take("a", START + PERIOD), Ok(()));
    }

    #[test]
    fn many_keys_do_not_reset_the_counter_of_one_that_is_empty() {
        let buckets = Buckets::new(2, PERIOD);
        let empty = u32::MAX;
        let _ = [buckets.take(empty, START), buckets.take(empty, START)];
        let keys = u32::try_from(MAX_KEYS).unwrap() * 2;
        for key in 0..keys {
            assert_eq!(buckets.take(key, START), Ok(()));
        }
        assert_eq!(buckets.take(empty, START), Err(PERIOD));
        assert!(buckets.full_at.lock().len() <= MAX_KEYS);
    }

    #[test]
    fn delays_double_and_are_forgotten() {
        let backoff = Backoff::new(2, PERIOD);
        assert_eq!([backoff.fail("a", START), backoff.fail("a", START)], [Ok(()), Ok(())]);
        assert_eq!(backoff.fail("a", START), Err(PERIOD));
        let half = START + PERIOD / 2;
        assert_eq!(backoff.fail("a", half), Err(PERIOD / 2), "not counted");
        assert_eq!(backoff.fail("a", START + PERIOD), Err(PERIOD * 2));
        assert_eq!(backoff.fail("b", START + PERIOD), Ok(()));
        assert_eq!(backoff.fail("a", START + PERIOD * 3), Err(PERIOD * 4));
        assert_eq!(backoff.fail("a", START + Duration::from_hours(1)), Ok(()));
    }
}
