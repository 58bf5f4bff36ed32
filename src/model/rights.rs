//! Rights of a caller.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::BackendId;

/// Access to one backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Read-only tools, as configured, and everything that is not a tool.
    ReadOnly,
    Full,
}

/// Backends that a right covers. A group's name covers its endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AllowedBackends {
    /// Every backend, present and future.
    All,
    Only(BTreeMap<String, Access>),
}

/// Rights of a caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    /// Allowed servers. Rows of earlier versions have them as `backends`.
    #[serde(rename = "servers", alias = "backends")]
    pub backends: AllowedBackends,
    /// True if the gateway's state may be read and administered.
    pub admin: bool,
}

// === impl Access ===

impl Access {
    /// Access for reading, or full access.
    pub const fn unless_read_only(is_read_only: bool) -> Self {
        if is_read_only { Self::ReadOnly } else { Self::Full }
    }
}

// === impl Rights ===

impl Rights {
    /// No rights.
    pub fn none() -> Self {
        Self { backends: AllowedBackends::Only(BTreeMap::new()), admin: false }
    }

    /// Every backend, no administration.
    pub fn all_backends() -> Self {
        Self { backends: AllowedBackends::All, admin: false }
    }

    /// What they allow, in words: `all servers`, `git`, `docs:read`, `admin`.
    pub fn words(&self) -> Vec<String> {
        let mut words = match &self.backends {
            AllowedBackends::All => vec!["all servers".to_owned()],
            AllowedBackends::Only(backends) => backends
                .iter()
                .map(|(id, access)| if *access == Access::Full { id.clone() } else { format!("{id}:read") })
                .collect(),
        };
        words.extend(self.admin.then(|| "admin".to_owned()));
        words
    }

    /// Rights that both have.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        Self { backends: self.backends.intersect(&other.backends), admin: self.admin && other.admin }
    }

    /// Rights that either has.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self { backends: self.backends.union(&other.backends), admin: self.admin || other.admin }
    }

    /// True if `other` allows everything that this allows.
    pub fn is_within(&self, other: &Self) -> bool {
        self.intersect(other) == *self
    }
}

// === impl AllowedBackends ===

impl AllowedBackends {
    /// Access to `backend`, if any.
    pub fn access(&self, backend: &BackendId) -> Option<Access> {
        match self {
            Self::All => Some(Access::Full),
            Self::Only(backends) => backends.get(backend.as_str()).copied(),
        }
    }

    /// Adds access to `backend`; an existing wider one stays.
    pub fn allow(&mut self, backend: &BackendId, access: Access) {
        if let Self::Only(backends) = self {
            let held = backends.entry(backend.as_str().to_owned()).or_insert(access);
            *held = (*held).max(access);
        }
    }

    /// Restricts the rights to these backends.
    #[must_use]
    pub fn only<'a>(&self, backends: impl Iterator<Item = &'a BackendId>) -> Self {
        Self::Only(backends.filter_map(|id| Some((id.as_str().to_owned(), self.access(id)?))).collect())
    }

    fn union(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::Only(one), Self::Only(two)) => {
                let mut both = one.clone();
                for (id, access) in two {
                    let held = both.entry(id.clone()).or_insert(*access);
                    *held = (*held).max(*access);
                }
                Self::Only(both)
            }
        }
    }

    fn intersect(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::All, rest) | (rest, Self::All) => rest.clone(),
            (Self::Only(one), Self::Only(two)) => {
                Self::Only(one.iter().filter_map(|(id, a)| two.get(id).map(|b| (id.clone(), *a.min(b)))).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oa_113_an_intersection_is_never_wider_than_either() {
        let git = BackendId::parse("git").unwrap();
        let mut narrow = Rights::none();
        narrow.backends.allow(&git, Access::ReadOnly);
        let both = Rights { admin: true, ..Rights::all_backends() }.intersect(&narrow);
        assert_eq!(both.backends.access(&git), Some(Access::ReadOnly));
        assert_eq!(both.backends.access(&BackendId::parse("time").unwrap()), None);
        assert!(!both.admin);
    }

    #[test]
    fn a_union_has_the_wider_access_of_both() {
        let only = |id: &str, access| Rights {
            backends: AllowedBackends::Only(BTreeMap::from([(id.to_owned(), access)])),
            admin: false,
        };
        let both = only("git", Access::ReadOnly).union(&only("time", Access::Full)).union(&only("git", Access::Full));
        let access = |id| both.backends.access(&BackendId::parse(id).unwrap());
        assert_eq!((access("git"), access("time"), access("other")), (Some(Access::Full), Some(Access::Full), None));
        assert!(both.union(&Rights { admin: true, ..Rights::none() }).admin);
        assert_eq!(both.union(&Rights::all_backends()), Rights::all_backends());
    }

    #[test]
    fn a_right_is_within_another_that_allows_all_of_it() {
        let only = |access: &[(&str, Access)]| {
            let backends = access.iter().map(|(id, access)| ((*id).to_owned(), *access)).collect();
            Rights { backends: AllowedBackends::Only(backends), admin: false }
        };
        let (all, admin) = (Rights::all_backends(), Rights { admin: true, ..Rights::all_backends() });
        let (git, read) = (only(&[("git", Access::Full)]), only(&[("git", Access::ReadOnly)]));
        let two = only(&[("git", Access::Full), ("time", Access::Full)]);
        for (inner, outer) in [(&git, &git), (&read, &git), (&git, &two), (&two, &all), (&all, &admin)] {
            assert!(inner.is_within(outer), "{inner:?} {outer:?}");
        }
        for (inner, outer) in [(&git, &read), (&two, &git), (&all, &two), (&admin, &all)] {
            assert!(!inner.is_within(outer), "{inner:?} {outer:?}");
        }
    }
}
