//! The current backends and their groups, without regard to callers: `access` decides which caller sees which.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use url::Origin;

use super::{catalog::Catalog, configured_backend::ConfiguredBackend};
use crate::{
    layers::{Beneath, stacked},
    mcp::{Server, hearers::Hearers},
    model::{BackendId, GroupSpec, Groups, Naming, Share, Target},
    support::FastMap,
};

/// The current backends, in configured order. The set never changes; a new one replaces it.
pub(crate) struct Backends {
    pub(crate) entries: Vec<Arc<BackendEntry>>,
    index: FastMap<String, usize>,
    /// Positions of the backends whose servers do not announce their events to all clients.
    silent: Vec<usize>,
    /// The clients registered for events of all other servers; `None` if no server announces its events.
    hearers: Option<Arc<Hearers>>,
    groups: BTreeMap<BackendId, BackendGroup>,
    /// True if some server may describe itself differently to each user.
    differ_by_user: bool,
    naming: Naming,
}

/// A group and the positions of its backends.
pub(crate) struct BackendGroup {
    pub(crate) spec: Arc<GroupSpec>,
    members: Vec<usize>,
}

/// The names under which backends are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameView {
    Merged,
    Own,
}

pub(crate) struct BackendEntry {
    pub(crate) id: BackendId,
    pub(crate) configured: ConfiguredBackend,
    /// Its server, with the layers around it.
    pub(crate) server: Arc<dyn Server>,
    /// The tools that a read-only right covers.
    pub(crate) read_only_tools: HashSet<String>,
    /// Origin of its own URL; web addresses with this origin belong to it. `None` if it has no URL.
    pub(crate) origin: Option<Origin>,
    pub(crate) catalog: Arc<Catalog>,
}

// === impl Backends ===

impl Backends {
    /// Creates the set. The first of several with the same name wins; the configuration prevents that.
    pub(crate) fn new(entries: Vec<Arc<BackendEntry>>, groups: &Groups, naming: Naming) -> Self {
        let index: FastMap<_, _> =
            entries.iter().enumerate().rev().map(|(at, entry)| (entry.id.to_string(), at)).collect();
        let group = |spec: &GroupSpec| {
            let members = spec.servers.iter().filter_map(|id| index.get(id.as_str()).copied()).collect();
            (spec.id.clone(), BackendGroup { spec: Arc::new(spec.clone()), members })
        };
        let groups = groups.iter().map(group).collect();
        let told_by = |entry: &Arc<BackendEntry>| entry.configured.announcer.as_ref().map(|server| server.hearers());
        let hearers = entries.iter().find_map(told_by);
        let is_silent = |entry| match (told_by(entry), &hearers) {
            (Some(one), Some(all)) => !Arc::ptr_eq(&one, all),
            _ => true,
        };
        let silent = (0..entries.len()).filter(|at| is_silent(&entries[*at])).collect();
        let differ_by_user = entries.iter().any(|entry| entry.configured.lists_shared() != Share::All);
        Self { entries, index, silent, hearers, groups, differ_by_user, naming }
    }

    /// True if some server may describe itself differently to each user.
    pub(crate) const fn differ_by_user(&self) -> bool {
        self.differ_by_user
    }

    /// The names under which `target` shows its backends. The merged endpoint may show a single backend under its own
    /// names.
    pub(crate) fn view(&self, target: &Target) -> NameView {
        match target {
            Target::Merged if self.naming != Naming::Plain || self.entries.len() != 1 => NameView::Merged,
            Target::Backend(id) if self.groups.contains_key(id) => NameView::Merged,
            Target::Merged | Target::Backend(_) => NameView::Own,
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<BackendEntry>> {
        self.index.get(name).map(|at| &self.entries[*at])
    }

    /// The group at `target`, if there is one.
    pub(crate) fn group(&self, target: &Target) -> Option<&BackendGroup> {
        match target {
            Target::Merged => None,
            Target::Backend(id) => self.groups.get(id),
        }
    }

    /// The backend with this name in a group.
    pub(crate) fn find_in(&self, group: &BackendGroup, name: &str) -> Option<&Arc<BackendEntry>> {
        let at = self.index.get(name).filter(|at| group.members.contains(at))?;
        Some(&self.entries[*at])
    }

    /// The backends of a group, in its order.
    pub(crate) fn members(&self, group: &BackendGroup) -> impl Iterator<Item = &Arc<BackendEntry>> {
        group.members.iter().map(|at| &self.entries[*at])
    }

    /// The clients registered for the events of all servers except [`Self::silent`].
    pub(crate) const fn hearers(&self) -> Option<&Arc<Hearers>> {
        self.hearers.as_ref()
    }

    /// The backends that need a listen of their own from each client.
    pub(crate) fn silent(&self) -> impl Iterator<Item = &Arc<BackendEntry>> {
        self.silent.iter().map(|at| &self.entries[*at])
    }

    /// Number of backends in the group with this name, or of all backends without a name; `None` if there is no such
    /// group.
    pub(crate) fn count(&self, group: Option<&BackendId>) -> Option<usize> {
        match group {
            None => Some(self.entries.len()),
            Some(id) => self.groups.get(id).map(|group| group.members.len()),
        }
    }

    pub(crate) fn group_ids(&self) -> Vec<BackendId> {
        self.groups.keys().cloned().collect()
    }

    pub(crate) fn has(&self, id: &BackendId) -> bool {
        self.index.contains_key(id.as_str()) || self.groups.contains_key(id)
    }
}

// === impl BackendEntry ===

impl BackendEntry {
    /// Creates the entry of a backend, with the lists of its server.
    pub(crate) fn new(configured: ConfiguredBackend, catalog: Arc<Catalog>) -> Self {
        let (backend, server) = (configured.id(), Arc::clone(&configured.server));
        let server = stacked(&configured.layers, Beneath { backend, server, facts: catalog.facts() });
        Self {
            id: backend.clone(),
            server,
            read_only_tools: configured.spec.read_only_tools.iter().cloned().collect(),
            origin: configured.spec.transport.origin(),
            configured,
            catalog,
        }
    }
}
