//! The method names of every version. Knows nothing of their parameters.

use std::fmt;

use super::{Era, Revision, spelling};

/// Declares the methods with their names on the wire.
macro_rules! methods {
    ($($(#[$doc:meta])* $variant:ident = $name:literal),* $(,)?) => {
        /// A method of a request or notification. An unknown name is kept as it came.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum Method {
            $(#[doc = concat!("`", $name, "`.")] $(#[$doc])* $variant,)*
            /// Any other name.
            Other(Box<str>),
        }

        impl Method {
            /// The names of all methods that a version knows.
            const NAMES: &[&str] = &[$($name),*];

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
        }
    };
}

methods! {
    Initialize = "initialize",
    Ping = "ping",
    Discover = "server/discover",
    Listen = "subscriptions/listen",
    ToolsList = "tools/list",
    ToolsCall = "tools/call",
    PromptsList = "prompts/list",
    PromptsGet = "prompts/get",
    ResourcesList = "resources/list",
    ResourceTemplatesList = "resources/templates/list",
    ResourcesRead = "resources/read",
    ResourcesSubscribe = "resources/subscribe",
    ResourcesUnsubscribe = "resources/unsubscribe",
    Complete = "completion/complete",
    SetLevel = "logging/setLevel",
    TasksGet = "tasks/get",
    TasksResult = "tasks/result",
    TasksList = "tasks/list",
    TasksCancel = "tasks/cancel",
    TasksUpdate = "tasks/update",
    CreateMessage = "sampling/createMessage",
    Elicit = "elicitation/create",
    RootsList = "roots/list",
    Initialized = "notifications/initialized",
    Cancelled = "notifications/cancelled",
    Progress = "notifications/progress",
    LoggingMessage = "notifications/message",
    ToolsListChanged = "notifications/tools/list_changed",
    PromptsListChanged = "notifications/prompts/list_changed",
    ResourcesListChanged = "notifications/resources/list_changed",
    ResourceUpdated = "notifications/resources/updated",
    RootsListChanged = "notifications/roots/list_changed",
    TaskStatus = "notifications/tasks/status",
    Tasks = "notifications/tasks",
    ElicitationComplete = "notifications/elicitation/complete",
    SubscriptionsAcknowledged = "notifications/subscriptions/acknowledged",
}

impl Method {
    /// True if some readers take this unknown name for that of a known method.
    pub fn is_misspelled(&self) -> bool {
        let Self::Other(name) = self else { return false };
        Self::NAMES.iter().any(|known| spelling::is_other_spelling(name, known))
    }

    /// True for the task methods of 2025-11-25, which servers of other legacy versions do not know.
    pub const fn is_of_core_tasks(&self) -> bool {
        matches!(self, Self::TasksGet | Self::TasksResult | Self::TasksList | Self::TasksCancel)
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
        for name in ["Tools/Call", "logging/setlevel", "tool\u{17f}/call", "tas\u{212a}s/get"] {
            assert!(Method::parse(name).is_misspelled(), "{name}");
        }
        for name in ["tools/call", "tools/calls", "x-vendor/Do"] {
            assert!(!Method::parse(name).is_misspelled(), "{name}");
        }
    }
}
