//! Protocol versions, and the features of each. Only this file and the translation steps decide by version. Other
//! modules ask for a [`Feature`], and compare versions only to offer one in a handshake.

use std::fmt;

pub use crate::model::Era;

/// A protocol version of MCP, ordered from old to new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// 2024-11-05: HTTP+SSE and stdio.
    V2024_11_05,
    /// 2025-03-26: Streamable HTTP, batches, audio, tool annotations.
    V2025_03_26,
    /// 2025-06-18: structured output, elicitation, resource links, the version header.
    V2025_06_18,
    /// 2025-11-25: tasks, URL elicitation, icons, tools in sampling, resumable polling.
    V2025_11_25,
    /// 2026-07-28: stateless; every request carries its own version and capabilities.
    V2026_07_28,
}

/// A rule of the protocol that some versions have and others do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// A message may be an array of messages (only 2025-03-26).
    Batches,
    /// Clients send `MCP-Protocol-Version` after the handshake (2025-06-18 and later).
    ProtocolVersionHeader,
    /// An error for an unreadable request has no `id`, where other versions write `null` (2025-11-25 and later).
    IdlessErrors,
    /// Streams begin with an empty event that carries an id (only 2025-11-25).
    PrimingEvent,
    /// Servers declare the capability `completions` (2025-03-26 and later).
    CompletionsCapability,
    /// Elicitation has modes; the mode `url` sends the user to a web page (2025-11-25 and later).
    UrlElicitation,
    /// Lists have cache hints (2026-07-28 and later).
    CacheHints,
    /// Tasks are part of the core protocol, with the capability `tasks` (only 2025-11-25).
    CoreTasks,
    /// Client and server share a session (up to 2025-11-25).
    Sessions,
    /// Results have a `resultType` (2026-07-28 and later).
    ResultTypes,
    /// Results name their server in `_meta` (2026-07-28 and later).
    NamedServers,
    /// Headers repeat some parameters of a call (2026-07-28 and later).
    MirroredParams,
    /// Structured output of a tool may be any value, not only an object (2026-07-28 and later).
    AnyOutput,
}

impl Revision {
    /// Every version, oldest first.
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];

    /// The versions that have the `initialize` handshake, oldest first.
    pub const LEGACY: [Self; 4] = [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25];

    /// The versions without sessions, oldest first.
    pub const MODERN: [Self; 1] = [Self::V2026_07_28];

    pub const NEWEST: Self = Self::V2026_07_28;

    /// The newest version that has the `initialize` handshake.
    pub const NEWEST_LEGACY: Self = Self::V2025_11_25;

    /// The newest version without a handshake.
    pub const NEWEST_MODERN: Self = Self::V2026_07_28;

    /// The version that a server assumes if the HTTP header is absent (2025-06-18 and 2025-11-25, transports).
    pub const ASSUMED: Self = Self::V2025_03_26;

    /// The version with exactly this name. No other spelling is accepted.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == name)
    }

    /// The name in a message.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The era of the version: with sessions or without.
    pub const fn era(self) -> Era {
        match self {
            Self::V2026_07_28 => Era::Modern,
            Self::V2024_11_05 | Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => Era::Legacy,
        }
    }

    /// The version to answer an `initialize` for `requested` with: the same one if it is a known legacy version,
    /// otherwise the newest legacy version.
    pub fn negotiate(requested: &str) -> Self {
        Self::parse(requested).filter(|revision| revision.era() == Era::Legacy).unwrap_or(Self::NEWEST_LEGACY)
    }

    /// True if tasks are part of the core protocol in this version.
    pub fn has_core_tasks(self) -> bool {
        self.has(Feature::CoreTasks)
    }

    /// True if this version has `feature`.
    pub fn has(self, feature: Feature) -> bool {
        match feature {
            Feature::Batches => self == Self::V2025_03_26,
            Feature::CompletionsCapability => self >= Self::V2025_03_26,
            Feature::ProtocolVersionHeader => self >= Self::V2025_06_18,
            Feature::PrimingEvent | Feature::CoreTasks => self == Self::V2025_11_25,
            Feature::IdlessErrors | Feature::UrlElicitation => self >= Self::V2025_11_25,
            Feature::Sessions => self <= Self::NEWEST_LEGACY,
            Feature::ResultTypes
            | Feature::NamedServers
            | Feature::CacheHints
            | Feature::MirroredParams
            | Feature::AnyOutput => self >= Self::V2026_07_28,
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_legacy_version_is_answered_with_itself_and_the_rest_with_the_newest() {
        for revision in Revision::ALL {
            let expected = if revision.era() == Era::Legacy { revision } else { Revision::V2025_11_25 };
            assert_eq!(Revision::negotiate(revision.as_str()), expected);
        }
        for unknown in ["2099-01-01", "", "2025-06-18 ", "1.0"] {
            assert_eq!(Revision::negotiate(unknown), Revision::V2025_11_25);
        }
    }
}
