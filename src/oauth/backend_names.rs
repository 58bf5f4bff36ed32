//! The names of the existing backends and groups, which may change while the authorization server runs.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::model::{AccessSubject, BackendId, EndpointVerdict, Groups, Scopes, Target};

/// The names of the existing backends, and their groups. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct BackendNames(Arc<ArcSwap<ExistingNames>>);

/// The existing names at one moment.
#[derive(Debug, Default)]
struct ExistingNames {
    backends: Vec<BackendId>,
    groups: Groups,
}

// === impl BackendNames ===

impl BackendNames {
    /// True if there is a backend with this name.
    pub fn contains(&self, name: &BackendId) -> bool {
        self.0.load().backends.contains(name)
    }

    /// True if there is such an endpoint.
    pub fn have(&self, target: &Target) -> bool {
        match target {
            Target::Merged => true,
            Target::Backend(id) => {
                let names = self.0.load();
                names.backends.contains(id) || names.groups.find(id).is_some()
            }
        }
    }

    /// The names of all backends, in configured order.
    pub fn servers(&self) -> Vec<BackendId> {
        self.0.load().backends.clone()
    }

    /// The names of all backends, then of all groups.
    pub fn all(&self) -> Vec<BackendId> {
        let names = self.0.load();
        names.backends.iter().chain(names.groups.iter().map(|group| &group.id)).cloned().collect()
    }

    pub fn groups(&self) -> Groups {
        self.0.load().groups.clone()
    }

    /// The verdict on an endpoint, from [`AccessSubject::endpoint`] with the groups of this moment.
    pub fn verdict(&self, subject: AccessSubject<'_>, target: &Target, scopes: Option<&Scopes>) -> EndpointVerdict {
        subject.endpoint(target, || self.groups(), scopes)
    }

    pub fn replace(&self, backends: Vec<BackendId>, groups: Groups) {
        self.0.store(Arc::new(ExistingNames { backends, groups }));
    }
}

impl FromIterator<BackendId> for BackendNames {
    fn from_iter<T: IntoIterator<Item = BackendId>>(names: T) -> Self {
        let names = ExistingNames { backends: names.into_iter().collect(), groups: Groups::default() };
        Self(Arc::new(ArcSwap::from_pointee(names)))
    }
}
