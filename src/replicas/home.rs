//! The home: the single replica that runs the servers shared by all replicas (`home = "one"`). A replica becomes the
//! home if there is none, and stays it until its end.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, AtomicI64, Ordering},
};

use arc_swap::ArcSwap;

use crate::{
    model::{Endpoint, ReplicaNumber, Target},
    support::Latch,
};

/// A replica's knowledge of the home.
#[derive(Debug, Default)]
pub(super) struct Home {
    /// The endpoints with shared servers.
    targets: ArcSwap<BTreeSet<Target>>,
    /// True if this replica is about to end.
    is_closing: AtomicBool,
    /// Open if this replica is the home.
    here: Latch,
    /// The other replica that was the home at the last look, or 0.
    other: AtomicI64,
}

// === impl Home ===

impl Home {
    /// Open once this replica is the home.
    pub(super) fn here(&self) -> &Latch {
        &self.here
    }

    /// Replaces the endpoints that need the home.
    pub(super) fn set_targets(&self, targets: BTreeSet<Target>) {
        self.targets.store(targets.into());
    }

    /// True if the endpoint with this path needs the home.
    pub(super) fn serves(&self, path: &str) -> bool {
        let targets = self.targets.load();
        !targets.is_empty() && Endpoint::from_path(path).is_some_and(|endpoint| targets.contains(&endpoint.target))
    }

    /// This replica is about to end: it no longer becomes the home.
    pub(super) fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    /// True if this replica should become the home, since there is none.
    pub(super) fn is_wanted(&self) -> bool {
        !self.here.is_open() && !self.is_closing.load(Ordering::Relaxed) && !self.targets.load().is_empty()
    }

    /// Notes which other replica is the home.
    pub(super) fn set_other(&self, other: Option<ReplicaNumber>) {
        self.other.store(other.map_or(0, ReplicaNumber::get), Ordering::Relaxed);
    }

    /// The home, if it is another replica.
    pub(super) fn other(&self) -> Option<ReplicaNumber> {
        let other = self.other.load(Ordering::Relaxed);
        (other != 0).then(|| ReplicaNumber::new(other))
    }
}
