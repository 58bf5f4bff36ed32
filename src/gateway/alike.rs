//! Equal values, such as equal lists of several users, stored only once.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

/// Values in use, by key. Only values under the same key are compared.
pub(super) struct Alike<K, T>(Mutex<AlikeByKey<K, T>>);

struct AlikeByKey<K, T> {
    values: HashMap<K, Weak<T>>,
    /// Number of values at which unused ones are removed.
    sweep_at: usize,
}

// === impl Alike ===

impl<K: Hash + Eq, T> Alike<K, T> {
    /// The value already in use under this key, if `is_same` confirms it; otherwise this one, which later callers will
    /// share.
    pub(super) fn shared(&self, key: K, value: T, is_same: impl FnOnce(&T, &T) -> bool) -> Arc<T> {
        let value = Arc::new(value);
        let mut known = self.0.lock();
        if let Some(same) = known.values.get(&key).and_then(Weak::upgrade).filter(|same| is_same(same, &value)) {
            drop(known);
            return same;
        }
        known.values.insert(key, Arc::downgrade(&value));
        if known.values.len() > known.sweep_at {
            known.values.retain(|_, value| value.strong_count() > 0);
            known.sweep_at = 2 * known.values.len() + 16;
        }
        value
    }
}

impl<K, T> Default for Alike<K, T> {
    fn default() -> Self {
        Self(Mutex::new(AlikeByKey { values: HashMap::new(), sweep_at: 0 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(alike: &Alike<String, String>, key: &str, value: &str) -> Arc<String> {
        alike.shared(key.to_owned(), value.to_owned(), PartialEq::eq)
    }

    #[test]
    fn values_that_are_alike_are_one_as_long_as_anybody_holds_it() {
        let alike = Alike::default();
        let first = shared(&alike, "a", "1");
        assert!(Arc::ptr_eq(&first, &shared(&alike, "a", "1")));
        assert!(!Arc::ptr_eq(&first, &shared(&alike, "b", "1")));
        assert_eq!(*shared(&alike, "a", "2"), "2", "alike by its key alone");
        let gone = Arc::downgrade(&first);
        drop(first);
        assert!(gone.upgrade().is_none());
        for number in 0..1_000 {
            shared(&alike, &number.to_string(), "1");
        }
        assert!(alike.0.lock().values.len() < 100, "those that nobody holds are forgotten");
    }
}
