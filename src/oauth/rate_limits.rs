//! Rate limits, counted by this process or jointly by all gateways on one database.
//!
//! A shared limit is checked with what this process knows, without the database. Every 500 ms, the process adds its
//! counts to the others' and reads theirs. In between, each gateway may let a full bucket pass. The excess is paid back
//! later, up to a second full bucket.

use std::{
    fmt::Display,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use super::{error::OAuthError, secrets::pepper::Pepper};
use crate::{
    model::RateLimitScope,
    storage::{LimitCount, Storage},
    support::{Digest, Timestamp, limits::Buckets},
};

/// Maximum number of counts of one limit in one exchange. The rest waits for the next.
const MAX_EXCHANGED: usize = 500;
/// Allowance for differing clocks of gateways, and for the length of a transaction.
const OVERLAP: Duration = Duration::from_secs(5);

/// The limits of the authorization server.
pub(super) struct RateLimits {
    storage: Storage,
    pepper: Arc<Pepper>,
    scope: RateLimitScope,
    limits: Mutex<Vec<RateLimit>>,
    /// Start of the last exchange.
    exchanged: AtomicI64,
}

/// Has a bucket for each key. A bucket holds a burst, and refills by one in each period.
#[derive(Clone)]
pub(super) struct RateLimit {
    name: &'static str,
    pepper: Arc<Pepper>,
    buckets: Arc<Buckets<Digest>>,
}

// === impl RateLimits ===

impl RateLimits {
    pub(super) fn new(storage: &Storage, pepper: Arc<Pepper>, scope: RateLimitScope) -> Self {
        let scope = if storage.is_shared() { scope } else { RateLimitScope::Replica };
        let storage = storage.for_rounds();
        Self { storage, pepper, scope, limits: Mutex::default(), exchanged: AtomicI64::new(0) }
    }

    /// A limit of this name: full buckets of `burst` that refill by one each `period`.
    pub(super) fn limit(&self, name: &'static str, burst: u32, period: Duration) -> RateLimit {
        let buckets = match self.scope {
            RateLimitScope::Shared => Buckets::shared(burst, period),
            RateLimitScope::Replica => Buckets::new(burst, period),
        };
        let limit = RateLimit { name, pepper: Arc::clone(&self.pepper), buckets: Arc::new(buckets) };
        self.limits.lock().push(limit.clone());
        limit
    }

    /// Adds the counts of this process to the others', and reads theirs.
    pub(super) async fn exchange(&self, now: Timestamp) -> Result<(), OAuthError> {
        if self.scope == RateLimitScope::Replica {
            return Ok(());
        }
        let limits = self.limits.lock().clone();
        for limit in &limits {
            let counted = limit.buckets.drain(MAX_EXCHANGED);
            if counted.is_empty() {
                continue;
            }
            let count = |(key, added)| LimitCount { name: limit.name.to_owned(), key, value: added };
            let counts = counted.into_iter().map(count).collect();
            for count in self.storage.limit_counts().add(counts, now).await? {
                limit.buckets.adopt(count.key, Timestamp::from_millis(count.value));
            }
        }
        let since = Timestamp::from_millis(self.exchanged.load(Ordering::Relaxed)) - OVERLAP;
        for count in self.storage.limit_counts().changed_since(since).await? {
            if let Some(limit) = limits.iter().find(|limit| limit.name == count.name) {
                limit.buckets.adopt(count.key, Timestamp::from_millis(count.value));
            }
        }
        self.exchanged.store(now.as_millis(), Ordering::Relaxed);
        Ok(())
    }
}

// === impl RateLimit ===

impl RateLimit {
    /// Takes one token out of the bucket of `key`. The error is the time until the next one.
    pub(super) fn take(&self, key: impl Display, now: Timestamp) -> Result<(), Duration> {
        self.buckets.take(self.key(key), now)
    }

    /// Returns one token to the bucket of `key`.
    pub(super) fn give_back(&self, key: impl Display, now: Timestamp) {
        self.buckets.give_back(&self.key(key), now);
    }

    /// A MAC, because the database must not reveal addresses.
    fn key(&self, key: impl Display) -> Digest {
        self.pepper.mac(&format!("limit {} {key}", self.name))
    }
}
