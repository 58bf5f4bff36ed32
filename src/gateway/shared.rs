//! State that the parts of the gateway share. Knows nothing of calls.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::{broadcast, watch};

use super::{
    backends::{BackendEntry, Backends},
    catalog::{CatalogSettings, Change},
    configured_backend::ConfiguredBackend,
    cursor::Cursors,
    gateway_settings::{GatewayDeps, GatewaySettings},
    task_owners::TaskOwners,
};
use crate::model::Groups;

/// Maximum number of changes that a listen may lag behind before everything counts as changed.
const MAX_CHANGES_BEHIND: usize = 256;

/// The state.
pub(crate) struct GatewayState {
    pub(crate) backends: ArcSwap<Backends>,
    /// Counts the sets of backends that were put in place.
    pub(crate) generation: watch::Sender<u64>,
    pub(crate) changes: broadcast::Sender<Change>,
    pub(crate) cursors: Cursors,
    pub(crate) task_owners: TaskOwners,
    pub(crate) settings: GatewaySettings,
    pub(crate) deps: GatewayDeps,
}

// === impl GatewayState ===

impl GatewayState {
    /// No backends yet.
    pub(crate) fn new(settings: GatewaySettings, deps: GatewayDeps) -> Self {
        let background = (deps.tracker.clone(), deps.cancel.clone());
        let task_owners = TaskOwners::new(deps.task_owners.clone(), background);
        Self {
            backends: ArcSwap::from_pointee(Backends::new(Vec::new(), &Groups::default(), settings.naming)),
            generation: watch::Sender::new(0),
            changes: broadcast::Sender::new(MAX_CHANGES_BEHIND),
            cursors: Cursors::new(&*deps.random),
            task_owners,
            settings,
            deps,
        }
    }

    /// Installs other backends and groups, and returns the new ones. State of a backend whose server object stays is kept; the
    /// others are stopped.
    pub(crate) fn replace(&self, backends: Vec<ConfiguredBackend>, groups: &Groups) -> Vec<Arc<BackendEntry>> {
        let old = self.backends.load_full();
        let settings = CatalogSettings {
            refresh: self.settings.refresh,
            longest_name: self.settings.longest_name,
            changes: self.changes.clone(),
            observer: self.deps.observer.clone(),
            tracker: self.deps.tracker.clone(),
            cancel: self.deps.cancel.clone(),
        };
        let entries: Vec<Arc<BackendEntry>> = backends
            .into_iter()
            .map(|configured| {
                let kept = old.find(configured.id.as_str()).filter(|kept| kept.is(&configured));
                kept.cloned().unwrap_or_else(|| {
                    let owners = self.task_owners.at(configured.tasks);
                    Arc::new(BackendEntry::new(configured, settings.clone(), owners))
                })
            })
            .collect();
        let is_in =
            |one: &Arc<BackendEntry>, set: &[Arc<BackendEntry>]| set.iter().any(|other| Arc::ptr_eq(one, other));
        for gone in old.entries.iter().filter(|gone| !is_in(gone, &entries)) {
            gone.stop.cancel();
        }
        let new = entries.iter().filter(|new| !is_in(new, &old.entries)).cloned().collect();
        self.backends.store(Arc::new(Backends::new(entries, groups, self.settings.naming)));
        self.generation.send_modify(|generation| *generation += 1);
        new
    }
}
