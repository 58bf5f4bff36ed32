//! Groups of backends: each has an endpoint of its own, with a part of the tools.
//!
//! A group has a name like a backend, but never the same. So endpoints, scopes and rights name both in the same way,
//! and a right to a group gives no right to its backends elsewhere.

use std::sync::Arc;

use super::{BackendId, ToolRules};

/// One configured group, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupSpec {
    /// Its name on this gateway.
    pub id: BackendId,
    /// Its backends, in the order of their lists.
    pub servers: Vec<BackendId>,
    /// The offered tools, by their names on the merged endpoint; `None`: all.
    pub tools: Option<ToolRules>,
}

/// The groups, in configured order. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Groups(Arc<[GroupSpec]>);

// === impl GroupSpec ===

impl GroupSpec {
    /// True if the group has the tool with this name on the merged endpoint.
    pub fn offers(&self, merged_name: &str) -> bool {
        self.tools.as_ref().is_none_or(|rules| rules.offers(merged_name))
    }
}

// === impl Groups ===

impl Groups {
    /// The group with this name.
    pub fn find(&self, id: &BackendId) -> Option<&GroupSpec> {
        self.0.iter().find(|group| group.id == *id)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &GroupSpec> {
        self.0.iter()
    }

    /// The backends of the group with this name; none if there is no such group.
    pub fn servers(&self, id: &BackendId) -> &[BackendId] {
        self.find(id).map_or(&[], |group| &group.servers)
    }
}

impl FromIterator<GroupSpec> for Groups {
    fn from_iter<I: IntoIterator<Item = GroupSpec>>(groups: I) -> Self {
        Self(groups.into_iter().collect())
    }
}
