//! Features that each version lacks compared with the newest, and the specification's deprecations with their dates.

use super::{Revision, json::Object};

/// Features that each version introduced, by their common names.
const INTRODUCED: [(Revision, &[&str]); 4] = [
    (Revision::V2025_03_26, &["Streamable HTTP", "audio", "tool annotations", "messages in progress"]),
    (Revision::V2025_06_18, &["structured output", "elicitation", "resource links", "titles", "context in completion"]),
    (Revision::V2025_11_25, &["elicitation by URL", "icons", "tools in sampling", "resumable polling"]),
    (
        Revision::V2026_07_28,
        &["stateless requests", "questions that survive a restart", "cache hints", "structured output of any type"],
    ),
];

/// Deprecated features whose use by a server is visible (2026-07-28, deprecated).
const DEPRECATED: [Deprecation; 1] = [Deprecation {
    capability: "logging",
    since: Revision::V2026_07_28,
    removable: "2027-07-28",
    instead: "write logs to standard error, or use OpenTelemetry",
}];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Deprecation {
    capability: &'static str,
    since: Revision,
    /// The first revision released on or after this day may drop it.
    removable: &'static str,
    instead: &'static str,
}

impl Revision {
    /// Features of the newest version that this one lacks, oldest first.
    pub fn lacks(self) -> Vec<&'static str> {
        INTRODUCED
            .iter()
            .filter(|(since, _)| *since > self)
            .flat_map(|(_, features)| features.iter().copied())
            .collect()
    }

    /// The version that replaced this one; its name is a date. `None` for the newest.
    pub fn successor(self) -> Option<Self> {
        Self::ALL.into_iter().find(|later| *later > self)
    }
}

/// Notices for the operator about a server with this version and these capabilities: how old the version is, and which
/// deprecated features are in use.
pub fn notices(revision: Revision, capabilities: &Object<'_>) -> Vec<String> {
    let superseded = revision.successor().map(|successor| {
        let newest = Revision::ALL.into_iter().max().unwrap_or(Revision::NEWEST_LEGACY);
        format!("MCP {revision} is final: it was superseded on {successor}, and the current version is {newest}")
    });
    let deprecated = DEPRECATED.iter().filter(|one| capabilities.get(one.capability).is_some()).map(|one| {
        let Deprecation { capability, since, removable, instead } = one;
        format!("`{capability}` is deprecated since MCP {since} and may be removed from {removable} on: {instead}")
    });
    superseded.into_iter().chain(deprecated).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_lacks_what_came_after_it() {
        assert!(Revision::V2026_07_28.lacks().is_empty());
        assert_eq!(Revision::V2025_11_25.lacks().first(), Some(&"stateless requests"));
        let lacking = Revision::ALL.map(|revision| revision.lacks().len());
        assert!(lacking.is_sorted_by(|older, newer| older > newer), "{lacking:?}");
    }

    #[test]
    fn an_operator_is_told_what_is_old_and_what_will_go() {
        let capabilities = Object::parse(br#"{"logging":{},"tools":{}}"#).unwrap();
        insta::assert_snapshot!(notices(Revision::V2025_06_18, &capabilities).join("\n"), @r"
        MCP 2025-06-18 is final: it was superseded on 2025-11-25, and the current version is 2026-07-28
        `logging` is deprecated since MCP 2026-07-28 and may be removed from 2027-07-28 on: write logs to standard error, or use OpenTelemetry
        ");
        let none = Object::parse(b"{}").unwrap();
        assert!(notices(Revision::V2026_07_28, &none).is_empty());
    }
}
