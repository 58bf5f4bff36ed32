//! Caches of one backend, by owner and capabilities: as many as the memory for the server allows.

use std::sync::{Arc, atomic::Ordering};

use super::cache::{ListCache, ListCacheKey};
use crate::support::{Account, FastMap, memory::Charge};

/// Bytes charged for a cache without its lists.
const CACHE: usize = 4 * 1024;

/// Caches by key. If there is no memory for another, the least recently used one is removed.
pub(super) struct CacheTable {
    caches: FastMap<ListCacheKey, Arc<ListCache>>,
    charge: Charge,
}

// === impl CacheTable ===

impl CacheTable {
    /// An empty table, charged to this account.
    pub(super) fn new(account: Account) -> Self {
        Self { caches: FastMap::default(), charge: Charge::nothing(account) }
    }

    pub(super) fn get(&self, key: &ListCacheKey) -> Option<&Arc<ListCache>> {
        self.caches.get(key)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Arc<ListCache>> {
        self.caches.values()
    }

    /// The cache with this key; created if there is none.
    pub(super) fn get_or_insert(
        &mut self,
        key: ListCacheKey,
        make: impl FnOnce(ListCacheKey) -> ListCache,
    ) -> Arc<ListCache> {
        if let Some(cache) = self.caches.get(&key) {
            return Arc::clone(cache);
        }
        if self.charge.grow(CACHE).is_err() {
            // the gateway's own cache stays
            let others = self.caches.values().filter(|cache| !cache.is_own());
            let oldest = others.min_by_key(|cache| cache.used.load(Ordering::Relaxed)).map(|cache| cache.key.clone());
            // the new cache takes over the charge of the removed one
            oldest.and_then(|key| self.caches.remove(&key));
        }
        let cache = Arc::new(make(key.clone()));
        self.caches.insert(key, Arc::clone(&cache));
        cache
    }

    pub(super) fn remove(&mut self, key: &ListCacheKey) {
        self.retain(|other| other != key);
    }

    /// Keeps only the caches whose keys satisfy `is_kept`.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&ListCacheKey) -> bool) {
        self.caches.retain(|key, _| is_kept(key));
        // a cache created without memory was not charged
        let paid = self.charge.bytes().min(self.caches.len() * CACHE);
        self.charge.shrink(self.charge.bytes() - paid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        gateway::catalog::cache::CacheOwner,
        mcp::{ClientInfo, Context},
        model::UserId,
        support::MemoryBudget,
    };

    fn insert(table: &mut CacheTable, user: &str, at: u64) {
        let context = Context::of_gateway(ClientInfo::gateway(), Account::unbounded());
        table.get_or_insert(key(user), |key| ListCache::new(key, context, at));
    }

    fn key(user: &str) -> ListCacheKey {
        let owner = if user.is_empty() { CacheOwner::Base } else { CacheOwner::User(UserId::new(user)) };
        ListCacheKey { owner, capabilities: String::new() }
    }

    #[test]
    fn there_are_as_many_caches_as_the_memory_allows_and_the_gateways_own_stays() {
        let budget = MemoryBudget::new(16 << 20);
        let mut table = CacheTable::new(budget.server("s"));
        insert(&mut table, "", 0);
        for number in 1..=2_000 {
            insert(&mut table, &number.to_string(), number);
        }
        assert_eq!(table.values().count(), 2_001, "thousands of users are no reason to fetch their lists again");
        for number in 2_001..=4_300 {
            insert(&mut table, &number.to_string(), number);
        }
        let count = table.values().count();
        assert!(count * CACHE <= 16 << 20 && count > 2_001, "{count}");
        assert!(table.get(&key("1")).is_none() && table.get(&key("4300")).is_some() && table.get(&key("")).is_some());
        table.retain(|_| false);
        assert_eq!(budget.in_use().held, 0);
    }
}
