//! The four lists of a server, and their names in the protocol. Knows nothing of entries.

use crate::mcp::Method;

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

    /// The kind that `method` lists.
    pub(crate) const fn listed_by(method: &Method) -> Option<Self> {
        Some(match method {
            Method::ToolsList => Self::Tools,
            Method::PromptsList => Self::Prompts,
            Method::ResourcesList => Self::Resources,
            Method::ResourceTemplatesList => Self::Templates,
            _ => return None,
        })
    }

    /// The kinds that a notification says have changed.
    pub(crate) const fn changed_by(method: &Method) -> &'static [Self] {
        match method {
            Method::ToolsListChanged => &[Self::Tools],
            Method::PromptsListChanged => &[Self::Prompts],
            Method::ResourcesListChanged => &[Self::Resources, Self::Templates],
            _ => &[],
        }
    }

    /// The method that lists it.
    pub(crate) const fn method(self) -> Method {
        match self {
            Self::Tools => Method::ToolsList,
            Self::Prompts => Method::PromptsList,
            Self::Resources => Method::ResourcesList,
            Self::Templates => Method::ResourceTemplatesList,
        }
    }

    /// The notification of a change.
    pub(crate) const fn change(self) -> Method {
        match self {
            Self::Tools => Method::ToolsListChanged,
            Self::Prompts => Method::PromptsListChanged,
            Self::Resources | Self::Templates => Method::ResourcesListChanged,
        }
    }

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
}
