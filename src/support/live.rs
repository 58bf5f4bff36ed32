//! A value that may be replaced while in use: settings that a reload changes.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

/// A value that may be replaced while others use it. Clones share it. Read it at each use: work begun under the old
/// value ends under it.
#[derive(Debug)]
pub struct Live<T>(Arc<ArcSwap<T>>);

// === impl Live ===

impl<T> Live<T> {
    /// This value, until it is replaced.
    pub fn new(value: T) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(value)))
    }

    pub fn get(&self) -> Guard<Arc<T>> {
        self.0.load()
    }

    /// Replaces the value for all clones.
    pub fn replace(&self, value: T) {
        self.0.store(Arc::new(value));
    }
}

impl<T> Clone for Live<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Default> Default for Live<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}
