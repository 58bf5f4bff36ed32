//! The names of the existing backends, which may change while the authorization server runs.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::model::BackendId;

/// The names of the existing backends. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct BackendNames(Arc<ArcSwap<Vec<BackendId>>>);

// === impl BackendNames ===

impl BackendNames {
    /// True if there is a backend of this name.
    pub fn contains(&self, name: &BackendId) -> bool {
        self.0.load().contains(name)
    }

    /// Replaces the names.
    pub fn replace(&self, names: Vec<BackendId>) {
        self.0.store(Arc::new(names));
    }
}

impl FromIterator<BackendId> for BackendNames {
    fn from_iter<T: IntoIterator<Item = BackendId>>(names: T) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(names.into_iter().collect())))
    }
}
