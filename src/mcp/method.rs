//! The method names of every version. Knows nothing of their parameters.

use std::fmt;

use super::{Era, Revision, spelling};

/// The callers whose messages of a method reach a server. `docs/authorization.md` lists the methods of each class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodAccess {
    /// Every caller with a right to the server.
    Any,
    /// Every caller with a right to the server, for the tools that this right covers.
    Tool,
    /// Every caller with a right to the server, for the tasks of its own calls.
    OwnTask,
    /// Callers with full rights: the message is one of servers, and no client has to send it.
    OfServers,
    /// Callers with full rights at a server without tool rules, and every caller if the operator opens the method: MCP
    /// does not define it.
    Undefined,
}

/// Declares the methods with their names on the wire and their access classes.
macro_rules! methods {
    ($($(#[$doc:meta])* $variant:ident = $name:literal: $access:ident),* $(,)?) => {
        /// A method of a request or notification. An unknown name is kept as it came.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum Method {
            $(#[doc = concat!("`", $name, "`.")] $(#[$doc])* $variant,)*
            /// Any other name.
            Other(Box<str>),
        }

        impl Method {
            /// The names of all methods that a version knows, with their access classes.
            pub const DEFINED: &[(&str, MethodAccess)] = &[$(($name, MethodAccess::$access)),*];

            /// The method of this name.
            pub fn parse(name: &str) -> Self {
                match name {
                    $($name => Self::$variant,)*
                    _ => Self::Other(name.into()),
                }
            }

            /// The name on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Other(name) => name,
                }
            }

            /// The callers that may send it.
            pub const fn access(&self) -> MethodAccess {
                match self {
                    $(Self::$variant => MethodAccess::$access,)*
                    Self::Other(_) => MethodAccess::Undefined,
                }
            }
        }
    };
}

methods! {
    Initialize = "initialize": Any,
    Ping = "ping": Any,
    Discover = "server/discover": Any,
    Listen = "subscriptions/listen": Any,
    ToolsList = "tools/list": Any,
    ToolsCall = "tools/call": Tool,
    PromptsList = "prompts/list": Any,
    PromptsGet = "prompts/get": Any,
    ResourcesList = "resources/list": Any,
    ResourceTemplatesList = "resources/templates/list": Any,
    ResourcesRead = "resources/read": Any,
    ResourcesSubscribe = "resources/subscribe": Any,
    ResourcesUnsubscribe = "resources/unsubscribe": Any,
    Complete = "completion/complete": Any,
    SetLevel = "logging/setLevel": Any,
    TasksGet = "tasks/get": OwnTask,
    TasksResult = "tasks/result": OwnTask,
    TasksList = "tasks/list": OwnTask,
    TasksCancel = "tasks/cancel": OwnTask,
    TasksUpdate = "tasks/update": OwnTask,
    CreateMessage = "sampling/createMessage": OfServers,
    Elicit = "elicitation/create": OfServers,
    RootsList = "roots/list": OfServers,
    Initialized = "notifications/initialized": Any,
    Cancelled = "notifications/cancelled": Any,
    Progress = "notifications/progress": Any,
    LoggingMessage = "notifications/message": OfServers,
    ToolsListChanged = "notifications/tools/list_changed": OfServers,
    PromptsListChanged = "notifications/prompts/list_changed": OfServers,
    ResourcesListChanged = "notifications/resources/list_changed": OfServers,
    ResourceUpdated = "notifications/resources/updated": OfServers,
    RootsListChanged = "notifications/roots/list_changed": Any,
    TaskStatus = "notifications/tasks/status": Any,
    Tasks = "notifications/tasks": OfServers,
    ElicitationComplete = "notifications/elicitation/complete": OfServers,
    SubscriptionsAcknowledged = "notifications/subscriptions/acknowledged": OfServers,
}

impl Method {
    /// True if some readers take this unknown name for that of a known method.
    pub fn is_misspelled(&self) -> bool {
        let Self::Other(name) = self else { return false };
        let folded = spelling::folded(name);
        Self::DEFINED.iter().any(|(known, _)| known.eq_ignore_ascii_case(&folded))
    }

    /// True for the task methods of 2025-11-25, which servers of other legacy versions do not know.
    pub const fn is_of_core_tasks(&self) -> bool {
        matches!(self, Self::TasksGet | Self::TasksResult | Self::TasksList | Self::TasksCancel)
    }

    /// True for the task methods of the tasks extension.
    pub const fn is_of_tasks_extension(&self) -> bool {
        matches!(self, Self::TasksGet | Self::TasksUpdate | Self::TasksCancel)
    }

    /// True for requests about tasks, known or not.
    pub fn is_about_tasks(&self) -> bool {
        self.as_str().starts_with("tasks/")
    }

    /// The name that a client of `revision` knows it by: how a task is has one in 2025-11-25 and another in the extension
    /// for 2026-07-28.
    #[must_use]
    pub fn of_tasks_in(self, revision: Revision) -> Self {
        match (self, revision.era()) {
            (Self::Tasks, Era::Legacy) => Self::TaskStatus,
            (Self::TaskStatus, Era::Modern) => Self::Tasks,
            (method, _) => method,
        }
    }

    /// True if only 2026-07-28 has it, so that it is invalid in a session.
    pub const fn is_sessionless(&self) -> bool {
        matches!(self, Self::Discover | Self::Listen | Self::TasksUpdate)
    }

    /// True if a server may send its client requests while it serves a request of this method. Lists and settings do
    /// not allow it, nor do the task methods except the one that waits for the result.
    pub const fn may_ask(&self) -> bool {
        matches!(
            self,
            Self::ToolsCall
                | Self::PromptsGet
                | Self::ResourcesRead
                | Self::Complete
                | Self::TasksResult
                | Self::Other(_)
        )
    }

    /// True if a server of 2026-07-28 may end a request of this method with server requests (2026-07-28, multi
    /// round-trip requests).
    pub const fn may_require_input(&self) -> bool {
        matches!(self, Self::ToolsCall | Self::PromptsGet | Self::ResourcesRead)
    }

    /// True if messages of this method have no answer.
    pub fn is_notification(&self) -> bool {
        self.as_str().starts_with("notifications/")
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_nobody_knows_is_kept() {
        assert_eq!(Method::parse("tools/call"), Method::ToolsCall);
        assert_eq!(Method::parse("x-vendor/do").as_str(), "x-vendor/do");
        assert!(Method::parse("notifications/x-vendor").is_notification());
    }

    #[test]
    fn a_name_that_reads_like_a_methods_is_found() {
        for name in [
            "Tools/Call",
            "logging/setlevel",
            "tool\u{17f}/call",
            "tas\u{212a}s/get",
            "tools//call",
            " tools/call\u{a0}",
            "tools/call\0",
            "\u{ff54}ools\u{ff0f}call",
            "to\u{200b}ols/call",
            "notifications/me\u{df}age",
        ] {
            assert!(Method::parse(name).is_misspelled(), "{name}");
        }
        for name in ["tools/call", "tools/calls", "x-vendor/Do"] {
            assert!(!Method::parse(name).is_misspelled(), "{name}");
        }
    }
}
