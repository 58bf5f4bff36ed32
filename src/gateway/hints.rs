//! How long a list may be kept by its reader, and by whom (2026-07-28, caching). Knows nothing of who reads it.

use crate::mcp::{Feature, Payload};

/// The longest time, in milliseconds, that a list is kept in which a backend is missing.
const INCOMPLETE: u64 = 5_000;

/// The cache hints of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CacheHints {
    /// For how many milliseconds it is fresh.
    pub(crate) ttl: u64,
    /// Who may keep it.
    pub(crate) scope: CacheScope,
}

/// Who may keep a result; the narrower one is the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CacheScope {
    /// Anybody, for anybody.
    Public,
    /// Whoever asked, for the same authorization.
    Private,
}

// === impl CacheHints ===

impl CacheHints {
    /// What is said of lists that nothing is known of: those of legacy servers.
    pub(crate) const NONE: Self = Self { ttl: 0, scope: CacheScope::Private };

    /// What a server says of one page. Legacy servers say nothing, and what cannot be read says nothing.
    pub(crate) fn of(page: &Payload) -> Self {
        let Some(object) = page.object().filter(|_| page.revision.has(Feature::CacheHints)) else { return Self::NONE };
        let ttl = object.get("ttlMs").and_then(|text| text.parse().ok()).unwrap_or_default();
        let public = object.string("cacheScope").is_some_and(|scope| scope == CacheScope::Public.as_str());
        Self { ttl, scope: if public { CacheScope::Public } else { CacheScope::Private } }
    }

    /// What holds for both of two parts.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { ttl: self.ttl.min(other.ttl), scope: self.scope.max(other.scope) }
    }

    /// What holds where a part is missing.
    pub(crate) fn of_incomplete(self) -> Self {
        Self { ttl: self.ttl.min(INCOMPLETE), ..self }
    }

    /// The same within a narrower scope.
    pub(crate) fn within(self, scope: CacheScope) -> Self {
        Self { scope: self.scope.max(scope), ..self }
    }
}

// === impl CacheScope ===

impl CacheScope {
    /// The word on the wire.
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
