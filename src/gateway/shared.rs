//! State shared by the parts of the gateway.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::{
    backends::{BackendEntry, Backends},
    catalog::{Catalog, CatalogSettings, ListChanges},
    configured_backend::ConfiguredBackend,
    cursor::Cursors,
    descriptions::Descriptions,
    gateway_settings::{GatewayDeps, GatewaySettings},
};
use crate::model::Groups;

/// Maximum number of changes that a listen may lag behind; then everything counts as changed.
const MAX_CHANGES_BEHIND: usize = 256;

pub(crate) struct GatewayState {
    pub(crate) backends: ArcSwap<Backends>,
    /// Number of sets of backends installed so far.
    pub(crate) generation: watch::Sender<u64>,
    pub(crate) changes: ListChanges,
    pub(crate) descriptions: Arc<Descriptions>,
    pub(crate) cursors: Cursors,
    pub(crate) settings: GatewaySettings,
    pub(crate) deps: GatewayDeps,
}

// === impl GatewayState ===

impl GatewayState {
    pub(crate) fn new(settings: GatewaySettings, deps: GatewayDeps) -> Self {
        Self {
            backends: ArcSwap::from_pointee(Backends::new(Vec::new(), &Groups::default(), settings.naming)),
            generation: watch::Sender::new(0),
            changes: ListChanges::new(MAX_CHANGES_BEHIND),
            descriptions: Descriptions::new(deps.budget.process()),
            cursors: Cursors::new(&*deps.random),
            settings,
            deps,
        }
    }

    /// Installs new backends and groups, and returns the new catalogs. A backend that offers the same lists keeps its
    /// catalog; one with the same settings stays as it is. Removed catalogs are stopped.
    pub(crate) fn replace(&self, backends: Vec<ConfiguredBackend>, groups: &Groups) -> Vec<Arc<Catalog>> {
        let old = self.backends.load_full();
        let entry = |configured: ConfiguredBackend| match old.find(configured.id().as_str()) {
            Some(kept) if kept.configured.is(&configured) => Arc::clone(kept),
            Some(before) if before.configured.lists_as(&configured) => {
                Arc::new(BackendEntry::new(configured, Arc::clone(&before.catalog)))
            }
            _ => {
                let catalog = Arc::new(Catalog::new(&configured, self.catalog_settings()));
                Arc::new(BackendEntry::new(configured, catalog))
            }
        };
        let entries: Vec<Arc<BackendEntry>> = backends.into_iter().map(entry).collect();
        let is_in = |one: &BackendEntry, set: &[Arc<BackendEntry>]| {
            set.iter().any(|other| Arc::ptr_eq(&one.catalog, &other.catalog))
        };
        for gone in old.entries.iter().filter(|gone| !is_in(gone, &entries)) {
            gone.catalog.stop().cancel();
        }
        let new = entries.iter().filter(|new| !is_in(new, &old.entries)).map(|new| Arc::clone(&new.catalog)).collect();
        self.backends.store(Arc::new(Backends::new(entries, groups, self.settings.naming)));
        self.descriptions.forget(None);
        self.generation.send_modify(|generation| *generation += 1);
        new
    }

    fn catalog_settings(&self) -> CatalogSettings {
        CatalogSettings {
            refresh: self.settings.refresh,
            longest_name: self.settings.longest_name,
            changes: self.changes.clone(),
            descriptions: Arc::clone(&self.descriptions),
            observer: self.deps.observer.clone(),
            budget: self.deps.budget.clone(),
            list_store: self.deps.list_store.clone(),
            tracker: self.deps.tracker.clone(),
            cancel: self.deps.cancel.child_token(),
        }
    }
}
