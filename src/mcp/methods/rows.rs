//! The table of methods. A row lists only what is special about a method; `MethodRow::new` fills in the defaults. Rows
//! for extensions are in the extensions' files.

use super::{
    super::{
        Revision,
        extensions::{self, tasks},
    },
    controls,
    lists::ListKind::{Prompts, Resources, Templates, Tools},
    places,
    row::{
        Asks::{Always, InSessions},
        MethodAccess::{self, Any, OfServers, OwnTask, Tool, Undefined},
        MethodRow, MethodSubject, ResultShape,
        UriPlaces::{self, In},
    },
    shapes,
};

/// The versions with sessions.
const LEGACY: (Revision, Revision) = (Revision::V2024_11_05, Revision::V2025_11_25);
const SINCE_2025_06_18: (Revision, Revision) = (Revision::V2025_06_18, Revision::NEWEST);
const SINCE_2025_11_25: (Revision, Revision) = (Revision::V2025_11_25, Revision::NEWEST);
const ONLY_2025_11_25: (Revision, Revision) = (Revision::V2025_11_25, Revision::V2025_11_25);
const SINCE_2026_07_28: (Revision, Revision) = (Revision::V2026_07_28, Revision::NEWEST);

/// The row of a method that MCP does not define. It allows everything that some other method allows.
const CUSTOM: MethodRow = MethodRow { asks: InSessions, ..MethodRow::new("", Undefined) };

/// The row of this method; `None` if no extension defines it.
fn extended(name: &str) -> Option<&'static MethodRow> {
    extensions::methods().find(|row| row.name == name)
}

/// Declares the methods: the name in a message, the allowed senders, and special properties. The methods of extensions
/// that the gateway itself reads or writes follow with their rows; all others are [`Method::Extended`].
macro_rules! methods {
    ($($variant:ident = $name:literal, $access:ident { $($special:tt)* })*; extensions { $($named:ident = $row:path)* }) => {
        /// A method of a request or notification. An unknown name is kept as received.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum Method {
            $(#[doc = concat!("`", $name, "`.")] $variant,)*
            $(#[doc = concat!("Of an extension: `", stringify!($row), "`.")] $named,)*
            /// Any other method of an extension, with the name from its row.
            Extended(&'static str),
            Other(Box<str>),
        }

        impl Method {
            /// The names of all methods that a version or an extension knows, with their access classes.
            pub fn defined() -> impl Iterator<Item = (&'static str, MethodAccess)> {
                let of_extensions = extensions::methods().map(|row| (row.name, row.access));
                [$(($name, $access)),*].into_iter().chain(of_extensions)
            }

            /// The method with this name.
            pub fn parse(name: &str) -> Self {
                match name {
                    $($name => Self::$variant,)*
                    $(_ if name == $row.name => Self::$named,)*
                    _ => match extended(name) {
                        Some(row) => Self::Extended(row.name),
                        None => Self::Other(name.into()),
                    },
                }
            }

            /// The name in a message.
            pub fn as_str(&self) -> &str {
                match self {
                    Self::Other(name) => name,
                    Self::Extended(name) => name,
                    known => known.row().name,
                }
            }

            pub(super) fn row(&self) -> &'static MethodRow {
                match self {
                    $(Self::$variant => const { &MethodRow { $($special)* ..MethodRow::new($name, $access) } },)*
                    $(Self::$named => const { &$row },)*
                    Self::Extended(name) => extended(name).unwrap_or(&CUSTOM),
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
        result_shape: Some(shapes::TOOL_CONTENT), controls: controls::TOOL_CALL, uris: UriPlaces::ToolResult, task_ids: places::CREATED_TASK,
    }
    PromptsList = "prompts/list", Any {
        lists: &[Prompts], is_cacheable: true, result_shape: Some(shapes::PROMPTS), controls: controls::LIST,
    }
    PromptsGet = "prompts/get", Any {
        subject: Some(MethodSubject::Prompt), asks: Always, is_bounded: true, result: ResultShape::Prompt,
        result_shape: Some(shapes::PROMPT_MESSAGES), controls: controls::PROMPT, uris: In(places::PROMPT_RESULT),
    }
    ResourcesList = "resources/list", Any {
        lists: &[Resources], is_cacheable: true, result_shape: Some(shapes::RESOURCES), controls: controls::LIST,
    }
    ResourceTemplatesList = "resources/templates/list", Any {
        lists: &[Templates], is_cacheable: true, result_shape: Some(shapes::TEMPLATES), controls: controls::LIST,
    }
    ResourcesRead = "resources/read", Any {
        subject: Some(MethodSubject::Resource), asks: Always, is_bounded: true, is_cacheable: true,
        result_shape: Some(shapes::RESOURCE_CONTENTS), controls: controls::READ, uris: In(places::READ_RESULT),
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
        versions: SINCE_2025_11_25, subject: Some(MethodSubject::Task), controls: controls::TASK, uris: UriPlaces::Task,
        holds_input_requests: true, task_ids: places::TASK_ID_OR_RELATED,
    }
    TasksResult = "tasks/result", OwnTask {
        versions: ONLY_2025_11_25, subject: Some(MethodSubject::Task), asks: InSessions, result: ResultShape::Tool,
        controls: controls::TASK, uris: UriPlaces::ToolResult,
    }
    TasksList = "tasks/list", OwnTask { versions: ONLY_2025_11_25, controls: controls::LIST, }
    TasksCancel = "tasks/cancel", OwnTask {
        versions: SINCE_2025_11_25, subject: Some(MethodSubject::Task), controls: controls::TASK,
        task_ids: places::TASK_ID_OR_RELATED,
    }
    CreateMessage = "sampling/createMessage", OfServers { params_shape: Some(shapes::SAMPLING), uris: In(places::SAMPLING), }
    Elicit = "elicitation/create", OfServers { versions: SINCE_2025_06_18, }
    RootsList = "roots/list", OfServers { result_shape: Some(shapes::ROOTS), }
    Initialized = "notifications/initialized", Any { versions: LEGACY, }
    Cancelled = "notifications/cancelled", Any { controls: controls::CANCELLED, }
    Progress = "notifications/progress", Any { params_shape: Some(shapes::PROGRESS), controls: controls::PROGRESS, }
    LoggingMessage = "notifications/message", OfServers {}
    ToolsListChanged = "notifications/tools/list_changed", OfServers { lists: &[Tools], }
    PromptsListChanged = "notifications/prompts/list_changed", OfServers { lists: &[Prompts], }
    ResourcesListChanged = "notifications/resources/list_changed", OfServers { lists: &[Resources, Templates], }
    ResourceUpdated = "notifications/resources/updated", OfServers { uris: In(places::RESOURCE_URIS), }
    RootsListChanged = "notifications/roots/list_changed", Any { versions: LEGACY, }
    TaskStatus = "notifications/tasks/status", Any {
        versions: ONLY_2025_11_25, controls: controls::TASK, task_ids: places::TASK_ID_OR_RELATED,
    }
    ElicitationComplete = "notifications/elicitation/complete", OfServers { versions: ONLY_2025_11_25, }
    SubscriptionsAcknowledged = "notifications/subscriptions/acknowledged", OfServers {
        versions: SINCE_2026_07_28, task_ids: places::LISTENED_TASKS,
    };
    extensions {
        TasksUpdate = tasks::UPDATE
        Tasks = tasks::STATUS
    }
}
