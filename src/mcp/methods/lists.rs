//! The four lists of a server, and their names in the protocol.

use super::places::{self, Paths};

/// One of the four lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ListKind {
    /// `tools/list`.
    Tools,
    /// `prompts/list`.
    Prompts,
    /// `resources/list`.
    Resources,
    /// `resources/templates/list`.
    Templates,
}

// === impl ListKind ===

impl ListKind {
    /// Every kind.
    pub(crate) const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// The member of the result that holds the entries.
    pub(crate) const fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// The server capability that it belongs to.
    pub(crate) const fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::Templates => "resources",
        }
    }

    /// The member of an entry that identifies it.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    /// The places of URIs in an entry.
    pub(crate) const fn uris(self) -> Paths {
        match self {
            Self::Tools => places::TOOL_URIS,
            Self::Prompts => &[],
            Self::Resources => places::RESOURCE_URIS,
            Self::Templates => places::TEMPLATE_URIS,
        }
    }
}
