//! Groups of backends: each has an endpoint of its own, with a part of the tools. Knows nothing of running backends.
//!
//! A group has a name like a backend, and no backend has the same. So an endpoint, a scope and a right name either of them
//! alike, and a right to a group is none to its backends elsewhere.

use std::sync::Arc;

use super::{AllowedBackends, BackendId, Rights, Target, ToolRules};

/// One configured group, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupSpec {
    /// Its name on this gateway.
    pub id: BackendId,
    /// Its backends, in the order of their lists.
    pub servers: Vec<BackendId>,
    /// The tools that there are, by their names on the merged endpoint; `None`: all.
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

    /// True if `rights` open the endpoint: a backend by a right to it, a group by one to it or to any of its backends,
    /// the merged endpoint by one to a backend. Rights to nothing at all open the merged endpoint, which is empty then.
    pub fn are_opened(&self, rights: &AllowedBackends, target: &Target) -> bool {
        match (rights, target) {
            (AllowedBackends::All, _) => true,
            (AllowedBackends::Only(allowed), Target::Merged) => {
                let is_group = |name: &String| self.0.iter().any(|group| group.id.as_str() == name);
                allowed.is_empty() || !allowed.keys().all(is_group)
            }
            (rights, Target::Backend(id)) => {
                rights.access(id).is_some() || self.servers(id).iter().any(|server| rights.access(server).is_some())
            }
        }
    }

    /// The rights of scopes at `target`: at the endpoint of a group, its scope covers each of its backends.
    #[must_use]
    pub fn rights_at(&self, target: &Target, mut rights: Rights) -> Rights {
        if let Target::Backend(id) = target
            && let Some(access) = rights.backends.access(id)
        {
            self.servers(id).iter().for_each(|server| rights.backends.allow(server, access));
        }
        rights
    }
}

impl FromIterator<GroupSpec> for Groups {
    fn from_iter<I: IntoIterator<Item = GroupSpec>>(groups: I) -> Self {
        Self(groups.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Access;

    fn id(name: &str) -> BackendId {
        BackendId::parse(name).unwrap()
    }

    fn work() -> Groups {
        let servers = vec![id("git"), id("files")];
        std::iter::once(GroupSpec { id: id("work"), servers, tools: None }).collect()
    }

    fn rights(allowed: &[&str]) -> AllowedBackends {
        AllowedBackends::Only(allowed.iter().map(|name| ((*name).to_owned(), Access::Full)).collect())
    }

    #[test]
    fn a_group_is_opened_by_a_right_to_it_or_to_one_of_its_backends() {
        let opened = |allowed: &[&str]| {
            ["work", "git", "time"].map(|name| work().are_opened(&rights(allowed), &Target::Backend(id(name))))
        };
        assert_eq!(opened(&["work"]), [true, false, false], "and opens no other endpoint");
        assert_eq!(opened(&["git"]), [true, true, false]);
        assert_eq!(opened(&["time"]), [false, false, true]);
        let merged = |allowed: &[&str]| work().are_opened(&rights(allowed), &Target::Merged);
        assert_eq!([merged(&["work"]), merged(&["work", "git"]), merged(&[])], [false, true, true]);
    }

    #[test]
    fn the_scope_of_a_group_covers_its_backends_at_its_endpoint_alone() {
        let scope = || Rights { backends: rights(&["work"]), admin: false };
        let at_work = work().rights_at(&Target::Backend(id("work")), scope());
        assert_eq!(at_work.backends, rights(&["files", "git", "work"]));
        for other in [Target::Merged, Target::Backend(id("git"))] {
            assert_eq!(work().rights_at(&other, scope()), scope());
        }
    }
}
