//! State that the parts of the gateway share: the backends of the moment and how they are presented. Knows nothing of
//! calls.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::{broadcast, watch};

use super::{
    backends::{BackendEntry, Backends, VisibleBackend},
    catalog::{CatalogSettings, Change},
    cursor::Cursors,
    settings::{Deps, Mount, Settings},
};
use crate::model::{BackendId, Caller, Naming, Target};

/// The number of changes that a listen may be behind before it is told that everything changed.
const MAX_CHANGES_BEHIND: usize = 256;

/// The state.
pub(crate) struct Shared {
    pub(crate) backends: ArcSwap<Backends>,
    /// Counts the sets of backends that were put in place.
    pub(crate) generation: watch::Sender<u64>,
    pub(crate) changes: broadcast::Sender<Change>,
    pub(crate) cursors: Cursors,
    pub(crate) settings: Settings,
    pub(crate) deps: Deps,
}

/// The names in which backends are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// Those of the merged endpoint.
    Merged,
    /// The backend's own.
    Own,
}

// === impl Shared ===

impl Shared {
    /// No backends yet.
    pub(crate) fn new(settings: Settings, deps: Deps) -> Self {
        Self {
            backends: ArcSwap::default(),
            generation: watch::Sender::new(0),
            changes: broadcast::Sender::new(MAX_CHANGES_BEHIND),
            cursors: Cursors::new(&*deps.random),
            settings,
            deps,
        }
    }

    /// Puts other backends in place and gives those that were not there before. What is known of a backend whose server
    /// stays the same object is kept; the others are stopped.
    pub(crate) fn replace(&self, mounts: Vec<Mount>) -> Vec<Arc<BackendEntry>> {
        let old = self.backends.load_full();
        let settings = CatalogSettings {
            refresh: self.settings.refresh,
            changes: self.changes.clone(),
            observer: self.deps.observer.clone(),
            tracker: self.deps.tracker.clone(),
            cancel: self.deps.cancel.clone(),
        };
        let entries: Vec<Arc<BackendEntry>> = mounts
            .into_iter()
            .map(|mount| {
                let kept = old.find(mount.id.as_str()).filter(|kept| kept.is(&mount));
                kept.cloned().unwrap_or_else(|| Arc::new(BackendEntry::new(mount, settings.clone())))
            })
            .collect();
        let is_in =
            |one: &Arc<BackendEntry>, set: &[Arc<BackendEntry>]| set.iter().any(|other| Arc::ptr_eq(one, other));
        for gone in old.entries.iter().filter(|gone| !is_in(gone, &entries)) {
            gone.stop.cancel();
        }
        let new = entries.iter().filter(|new| !is_in(new, &old.entries)).cloned().collect();
        self.backends.store(Arc::new(Backends::new(entries)));
        self.generation.send_modify(|generation| *generation += 1);
        new
    }

    /// The one backend that the merged endpoint stands for, if it does so with that backend's own names.
    pub(crate) fn plain(&self) -> Option<BackendId> {
        match (self.settings.naming, self.backends.load().entries.as_slice()) {
            (Naming::Plain, [one]) => Some(one.id.clone()),
            _ => None,
        }
    }

    /// The names in which the backends at `target` are shown, and those of them that this caller may see.
    pub(crate) fn visible(&self, target: &Target, caller: &Caller) -> (View, Vec<VisibleBackend>) {
        let one = match target {
            Target::Backend(id) => Some(id.clone()),
            Target::Merged => self.plain(),
        };
        match one {
            Some(id) => (View::Own, self.backends.load().visible(caller, id.as_str()).into_iter().collect()),
            None => (View::Merged, self.backends.load().all_visible(caller)),
        }
    }
}
