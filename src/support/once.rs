//! One-time values: digests that this process has seen, each until a given time.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::{Digest, Timestamp};

/// Maximum number of remembered digests; the first to expire goes first.
const MAX_SPENT: usize = 100_000;

/// Used digests. Another gateway on the same database does not know them.
#[derive(Debug, Default)]
pub struct SpentDigests(Mutex<HashMap<Digest, Timestamp>>);

// === impl SpentDigests ===

impl SpentDigests {
    /// Uses a digest that is valid until `end`; false if it was used before.
    pub fn spend(&self, digest: Digest, end: Timestamp, now: Timestamp) -> bool {
        let mut spent = self.0.lock();
        if spent.contains_key(&digest) {
            return false;
        }
        if spent.len() >= MAX_SPENT {
            spent.retain(|_, end| now < *end);
        }
        if spent.len() >= MAX_SPENT
            && let Some(first) = spent.iter().min_by_key(|(_, end)| **end).map(|(digest, _)| *digest)
        {
            spent.remove(&first);
        }
        spent.insert(digest, end);
        true
    }
}
