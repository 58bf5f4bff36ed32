//! OAuth scopes of this gateway (RFC 6749 3.3).

use std::{collections::BTreeSet, fmt};

use super::{Access, AllowedBackends, BackendId, Rights};

/// A scope that the gateway knows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// `mcp:use`: every backend that the user may use; the baseline of the merged endpoint.
    Use,
    /// `mcp:<backend>`: one backend, or one group at its endpoint.
    Backend(BackendId),
    /// `mcp:<backend>:read`: the read-only tools of one backend or group, as configured.
    BackendRead(BackendId),
    /// `mcp:admin`: status and administration of the gateway. Granted only if requested by name.
    Admin,
}

/// A set of known scopes. Displays in the form of RFC 6749, separated by spaces, in a fixed order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scopes(BTreeSet<Scope>);

/// A scope string with a character that RFC 6749 3.3 forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a scope has a character that RFC 6749 3.3 does not allow")]
pub struct InvalidScope;

// === impl Scope ===

impl Scope {
    /// Parses a scope; `None` if the gateway does not know it.
    pub fn parse(name: &str) -> Option<Self> {
        match name.strip_prefix("mcp:")? {
            "use" => Some(Self::Use),
            "admin" => Some(Self::Admin),
            rest => match rest.strip_suffix(":read") {
                Some(backend) => BackendId::parse(backend).ok().map(Self::BackendRead),
                None => BackendId::parse(rest).ok().map(Self::Backend),
            },
        }
    }
}

impl Scope {
    /// The scope of one backend or group.
    pub fn of(backend: BackendId, access: Access) -> Self {
        match access {
            Access::Full => Self::Backend(backend),
            Access::ReadOnly => Self::BackendRead(backend),
        }
    }

    /// Why no backend or group may have this name: its scope or its path would be one of the gateway's own. `None` for
    /// every other name.
    pub fn reservation(backend: &BackendId) -> Option<&'static str> {
        match backend.as_str() {
            "use" => Some("`use` is reserved: `mcp:use` is the scope of all servers"),
            "admin" => Some("`admin` is reserved: `mcp:admin` is the scope that administers the gateway"),
            "server-card" => Some("`server-card` is reserved: /mcp/server-card describes the gateway"),
            _ => None,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Use => f.write_str("mcp:use"),
            Self::Backend(backend) => write!(f, "mcp:{backend}"),
            Self::BackendRead(backend) => write!(f, "mcp:{backend}:read"),
            Self::Admin => f.write_str("mcp:admin"),
        }
    }
}

// === impl Scopes ===

impl Scopes {
    /// Reads a `scope` parameter. Unknown names are dropped; a forbidden character is an error.
    pub fn parse(text: &str) -> Result<Self, InvalidScope> {
        let allowed = |c: char| matches!(c, '\x20'..='\x7e') && c != '"' && c != '\\';
        if !text.chars().all(allowed) {
            return Err(InvalidScope);
        }
        Ok(text.split(' ').filter_map(Scope::parse).collect())
    }

    /// True if there is no scope.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The scopes in their fixed order.
    pub fn iter(&self) -> impl Iterator<Item = &Scope> {
        self.0.iter()
    }

    /// True if the set has exactly this scope; for implied rights see [`Self::rights`].
    pub fn contains(&self, scope: &Scope) -> bool {
        self.0.contains(scope)
    }

    /// True if every scope of `other` is in this set.
    pub fn includes(&self, other: &Self) -> bool {
        other.0.is_subset(&self.0)
    }

    /// Rights of these scopes; the caller intersects them with the user's.
    pub fn rights(&self) -> Rights {
        let mut rights = Rights::none();
        for scope in &self.0 {
            match scope {
                Scope::Use => rights.backends = AllowedBackends::All,
                Scope::Admin => rights.admin = true,
                Scope::Backend(id) => rights.backends.allow(id, Access::Full),
                Scope::BackendRead(id) => rights.backends.allow(id, Access::ReadOnly),
            }
        }
        rights
    }

    /// A scope for each server and group named by rights; for all servers it is `mcp:use`.
    pub fn of(backends: &AllowedBackends) -> Self {
        let AllowedBackends::Only(names) = backends else { return std::iter::once(Scope::Use).collect() };
        let scope = |(name, access): (&String, &Access)| Some(Scope::of(BackendId::parse(name).ok()?, *access));
        names.iter().filter_map(scope).collect()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().collect())
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, scope) in self.0.iter().enumerate() {
            write!(f, "{}{scope}", if index == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_scopes_are_dropped_and_the_rest_is_ordered() {
        let scopes = Scopes::parse("openid mcp:git:read mcp:use claudeai mcp:admin").unwrap();
        assert_eq!(scopes.to_string(), "mcp:use mcp:git:read mcp:admin");
        assert_eq!(Scopes::parse("mcp:use \"x\""), Err(InvalidScope));
        assert!(Scopes::parse("").unwrap().is_empty());
    }

    #[test]
    fn a_name_is_reserved_if_its_scope_parses_as_another() {
        for name in ["use", "admin", "read", "git", "user", "admin-2"] {
            let backend = BackendId::parse(name).unwrap();
            let read = Scope::parse(&Scope::Backend(backend.clone()).to_string());
            assert_eq!(Scope::reservation(&backend).is_some(), read != Some(Scope::Backend(backend)), "{name}");
        }
    }

    #[test]
    fn oa_112_a_backend_scope_reaches_that_backend_alone() {
        let rights = Scopes::parse("mcp:git:read mcp:time").unwrap().rights();
        let access = |name| rights.backends.access(&BackendId::parse(name).unwrap());
        assert_eq!(access("git"), Some(Access::ReadOnly));
        assert_eq!(access("time"), Some(Access::Full));
        assert_eq!(access("fetch"), None);
        assert!(!rights.admin);
    }
}
