//! The table of methods: a row says what is special about a method, and `MethodRow::new` what is not.

use super::{
    super::Revision,
    controls,
    lists::ListKind::{Prompts, Resources, Templates, Tools},
    places,
    row::{
        Asks::{Always, InSessions},
        MethodAccess::{self, Any, OfServers, OwnTask, Tool, Undefined},
        MethodRow, MethodSubject, ResultShape,
    },
    shapes,
};

/// The versions with sessions.
const LEGACY: (Revision, Revision) = (Revision::V2024_11_05, Revision::V2025_11_25);
const SINCE_2025_06_18: (Revision, Revision) = (Revision::V2025_06_18, Revision::NEWEST);
const SINCE_2025_11_25: (Revision, Revision) = (Revision::V2025_11_25, Revision::NEWEST);
const ONLY_2025_11_25: (Revision, Revision) = (Revision::V2025_11_25, Revision::V2025_11_25);
const SINCE_2026_07_28: (Revision, Revision) = (Revision::V2026_07_28, Revision::NEWEST);

/// A method that MCP does not define: whatever a server may do for it, it may.
const CUSTOM: MethodRow = MethodRow { asks: InSessions, ..MethodRow::new("", Undefined) };

/// Declares the methods: the name on the wire, who may send it, and what else is special.
macro_rules! methods {
    ($($variant:ident = $name:literal, $access:ident { $($special:tt)* })*) => {
        /// A method of a request or notification. An unknown name is kept as it came.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum Method {
            $(#[doc = concat!("`", $name, "`.")] $variant,)*
            /// Any other name.
            Other(Box<str>),
        }

        impl Method {
            /// The names of all methods that a version knows, with their access classes.
            pub const DEFINED: &[(&str, MethodAccess)] = &[$(($name, $access)),*];

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
                    Self::Other(name) => name,
                    known => known.row().name,
                }
            }

            pub(super) const fn row(&self) -> &'static MethodRow {
                match self {
                    $(Self::$variant => const { &MethodRow { $($special)* ..MethodRow::new($name, $access) } },)*
                    Self::Other(_) => &CUSTOM,
                }
            }
        }
    };
}

methods! {
    Initialize = "initialize", Any {
        versions: LEGACY, result_shape: Some(shapes::HANDSHAKE), controls: controls::HANDSHAKE,
    }
    Ping = "ping", Any { versions: LEGACY, result: ResultShape::Empty, }
    Discover = "server/discover", Any { versions: SINCE_2026_07_28, is_cacheable: true, }
    Listen = "subscriptions/listen", Any { versions: SINCE_2026_07_28, controls: controls::LISTEN, }
    ToolsList = "tools/list", Any {
        lists: &[Tools], is_cacheable: true, result_shape: Some(shapes::TOOLS), controls: controls::LIST,
    }
    ToolsCall = "tools/call", Tool {
        subject: Some(MethodSubject::Tool), asks: Always, is_bounded: true, result: ResultShape::Tool,
        result_shape: Some(shapes::TOOL_CONTENT), controls: controls::TOOL_CALL, uris: places::TOOL_RESULT, task_ids: places::CREATED_TASK,
    }
    PromptsList = "prompts/list", Any {
        lists: &[Prompts], is_cacheable: true, result_shape: Some(shapes::PROMPTS), controls: controls::LIST,
    }
    PromptsGet = "prompts/get", Any {
        subject: Some(MethodSubject::Prompt), asks: Always, is_bounded: true, result: ResultShape::Prompt,
        result_shape: Some(shapes::PROMPT_MESSAGES), controls: controls::PROMPT, uris: places::PROMPT_RESULT,
    }
    ResourcesList = "resources/list", Any {
        lists: &[Resources], is_cacheable: true, result_shape: Some(shapes::RESOURCES), controls: controls::LIST,
    }
    ResourceTemplatesList = "resources/templates/list", Any {
        lists: &[Templates], is_cacheable: true, result_shape: Some(shapes::TEMPLATES), controls: controls::LIST,
    }
    ResourcesRead = "resources/read", Any {
        subject: Some(MethodSubject::Resource), asks: Always, is_bounded: true, is_cacheable: true,
        result_shape: Some(shapes::RESOURCE_CONTENTS), controls: controls::READ, uris: places::READ_RESULT,
    }
    ResourcesSubscribe = "resources/subscribe", Any {
        versions: LEGACY, subject: Some(MethodSubject::Resource), result: ResultShape::Empty, controls: controls::SUBSCRIPTION,
    }
    ResourcesUnsubscribe = "resources/unsubscribe", Any {
        versions: LEGACY, subject: Some(MethodSubject::Resource), result: ResultShape::Empty, controls: controls::SUBSCRIPTION,
    }
    Complete = "completion/complete", Any {
        subject: Some(MethodSubject::Reference), asks: InSessions, is_bounded: true, params_shape: Some(shapes::COMPLETION),
        controls: controls::COMPLETION,
    }
    SetLevel = "logging/setLevel", Any { versions: LEGACY, result: ResultShape::Empty, controls: controls::LEVEL, }
    TasksGet = "tasks/get", OwnTask {
        versions: SINCE_2025_11_25, subject: Some(MethodSubject::Task), controls: controls::TASK, uris: places::TASK,
        task_ids: places::TASK_ID_OR_RELATED,
    }
    TasksResult = "tasks/result", OwnTask {
        versions: ONLY_2025_11_25, subject: Some(MethodSubject::Task), asks: InSessions, result: ResultShape::Tool,
        controls: controls::TASK, uris: places::TOOL_RESULT,
    }
    TasksList = "tasks/list", OwnTask { versions: ONLY_2025_11_25, controls: controls::LIST, }
    TasksCancel = "tasks/cancel", OwnTask {
        versions: SINCE_2025_11_25, subject: Some(MethodSubject::Task), controls: controls::TASK,
        task_ids: places::TASK_ID_OR_RELATED,
    }
    TasksUpdate = "tasks/update", OwnTask {
        versions: SINCE_2026_07_28, subject: Some(MethodSubject::Task), controls: controls::TASK_UPDATE,
    }
    CreateMessage = "sampling/createMessage", OfServers { params_shape: Some(shapes::SAMPLING), uris: places::SAMPLING, }
    Elicit = "elicitation/create", OfServers { versions: SINCE_2025_06_18, }
    RootsList = "roots/list", OfServers { result_shape: Some(shapes::ROOTS), }
    Initialized = "notifications/initialized", Any { versions: LEGACY, }
    Cancelled = "notifications/cancelled", Any { controls: controls::CANCELLED, }
    Progress = "notifications/progress", Any { params_shape: Some(shapes::PROGRESS), controls: controls::PROGRESS, }
    LoggingMessage = "notifications/message", OfServers {}
    ToolsListChanged = "notifications/tools/list_changed", OfServers { lists: &[Tools], }
    PromptsListChanged = "notifications/prompts/list_changed", OfServers { lists: &[Prompts], }
    ResourcesListChanged = "notifications/resources/list_changed", OfServers { lists: &[Resources, Templates], }
    ResourceUpdated = "notifications/resources/updated", OfServers { uris: places::RESOURCE_URIS, }
    RootsListChanged = "notifications/roots/list_changed", Any { versions: LEGACY, }
    TaskStatus = "notifications/tasks/status", Any {
        versions: ONLY_2025_11_25, controls: controls::TASK, task_ids: places::TASK_ID_OR_RELATED,
    }
    Tasks = "notifications/tasks", OfServers {
        versions: SINCE_2026_07_28, uris: places::TASK, task_ids: places::TASK_ID_OR_RELATED,
    }
    ElicitationComplete = "notifications/elicitation/complete", OfServers { versions: ONLY_2025_11_25, }
    SubscriptionsAcknowledged = "notifications/subscriptions/acknowledged", OfServers {
        versions: SINCE_2026_07_28, task_ids: places::LISTENED_TASKS,
    }
}
