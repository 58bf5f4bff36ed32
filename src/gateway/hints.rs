//! Cache hints of lists (2026-07-28, caching).

use crate::mcp::{Feature, Payload};

/// Maximum lifetime of a list while a backend is missing in it, in milliseconds.
const INCOMPLETE: u64 = 5_000;

/// Cache hints of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CacheHints {
    /// Lifetime of the result at a client, in milliseconds.
    pub(crate) ttl: u64,
    pub(crate) scope: CacheScope,
}

/// Scope of a cache. Ordered: the narrower scope is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CacheScope {
    Public,
    /// Only the requesting client, with the same authorization.
    Private,
}

// === impl CacheHints ===

impl CacheHints {
    /// Hints for legacy servers, which send none.
    pub(crate) const NONE: Self = Self { ttl: 0, scope: CacheScope::Private };

    /// Hints in one page; [`Self::NONE`] if its server is a legacy one or they are invalid.
    pub(crate) fn of(page: &Payload) -> Self {
        let Some(object) = page.object().filter(|_| page.revision.has(Feature::CacheHints)) else { return Self::NONE };
        let ttl = object.get("ttlMs").and_then(|text| text.parse().ok()).unwrap_or_default();
        let public = object.string("cacheScope").is_some_and(|scope| scope == CacheScope::Public.as_str());
        Self { ttl, scope: if public { CacheScope::Public } else { CacheScope::Private } }
    }

    /// True if the server marks this page as private to its reader.
    pub(crate) fn is_for_reader_only(page: &Payload) -> bool {
        let object = page.object().filter(|_| page.revision.has(Feature::CacheHints));
        let scope = object.and_then(|object| object.string("cacheScope"));
        scope.is_some_and(|scope| scope == CacheScope::Private.as_str())
    }

    /// Hints that hold for both lists.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { ttl: self.ttl.min(other.ttl), scope: self.scope.max(other.scope) }
    }

    /// The hints for a list while a backend is missing in it.
    pub(crate) fn of_incomplete(self) -> Self {
        Self { ttl: self.ttl.min(INCOMPLETE), ..self }
    }

    /// The same hints, with this scope or a narrower one.
    pub(crate) fn within(self, scope: CacheScope) -> Self {
        Self { scope: self.scope.max(scope), ..self }
    }
}

// === impl CacheScope ===

impl CacheScope {
    /// Value on the wire.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::Revision;

    #[test]
    fn what_is_not_said_plainly_is_not_kept() {
        let of = |revision, text: &'static str| CacheHints::of(&Payload::new(revision, text.as_bytes().into()));
        let good = r#"{"ttlMs":300,"cacheScope":"public"}"#;
        assert_eq!(of(Revision::V2026_07_28, good), CacheHints { ttl: 300, scope: CacheScope::Public });
        assert_eq!(of(Revision::V2025_11_25, good), CacheHints::NONE);
        for bad in ["{}", "7", r#"{"ttlMs":-1,"cacheScope":"Public"}"#, r#"{"ttlMs":"9","cacheScope":null}"#] {
            assert_eq!(of(Revision::V2026_07_28, bad), CacheHints::NONE, "{bad}");
        }
    }
}
