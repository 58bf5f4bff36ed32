//! Places of names, URIs and task ids in the messages of each method (`translation` section 5).
//! Knows nothing of what they are rewritten to.

use crate::mcp::{
    Method, Payload,
    json::At::{self, Each, Key},
    listen::TASK_IDS,
    meta,
};

/// A set of places.
pub(crate) type Paths = &'static [&'static [At]];

const META: At = Key("_meta");
const RESOURCE: At = Key("resource");
const URI: At = Key("uri");

/// In a tool: the page that a host of MCP Apps, or of its forerunner (`openai/…`), shows for it.
pub(crate) const TOOL_URIS: Paths =
    &[&[META, Key("ui"), Key("resourceUri")], &[META, Key("ui/resourceUri")], &[META, Key("openai/outputTemplate")]];
/// In a resource.
pub(crate) const RESOURCE_URIS: Paths = &[RESOURCE_URI];
/// In a resource template.
pub(crate) const TEMPLATE_URIS: Paths = &[&[Key("uriTemplate")]];

/// In a `CallToolResult`: resource links and embedded resources, and the page it is shown by.
const TOOL_RESULT: Paths = &[
    &[Key("content"), Each, URI],
    &[Key("content"), Each, RESOURCE, URI],
    &[META, Key("ui"), Key("resourceUri")],
    &[META, Key("ui/resourceUri")],
    &[META, Key("openai/outputTemplate")],
];
/// In a task of the extension of 2026-07-28 that is done: what the tool gave.
const TASK: Paths = &[
    &[Key("result"), Key("content"), Each, URI],
    &[Key("result"), Key("content"), Each, RESOURCE, URI],
    &[Key("result"), META, Key("ui"), Key("resourceUri")],
    &[Key("result"), META, Key("ui/resourceUri")],
    &[Key("result"), META, Key("openai/outputTemplate")],
];
const READ_RESULT: Paths = &[&[Key("contents"), Each, URI]];
const PROMPT_RESULT: Paths =
    &[&[Key("messages"), Each, Key("content"), URI], &[Key("messages"), Each, Key("content"), RESOURCE, URI]];
/// In a sampling request: tool results in its messages (2025-11-25), with content of their own.
const SAMPLING: Paths = &[
    &[Key("messages"), Each, Key("content"), RESOURCE, URI],
    &[Key("messages"), Each, Key("content"), Key("content"), Each, URI],
    &[Key("messages"), Each, Key("content"), Key("content"), Each, RESOURCE, URI],
    &[Key("messages"), Each, Key("content"), Each, RESOURCE, URI],
    &[Key("messages"), Each, Key("content"), Each, Key("content"), Each, URI],
    &[Key("messages"), Each, Key("content"), Each, Key("content"), Each, RESOURCE, URI],
];

/// The name that `tools/call` and `prompts/get` are for.
pub(crate) const NAME: &[At] = &[Key("name")];
/// The URI that requests for resources are for.
pub(crate) const RESOURCE_URI: &[At] = &[URI];
/// The prompt that `completion/complete` is for.
pub(crate) const REF_NAME: &[At] = &[Key("ref"), Key("name")];
/// The template that `completion/complete` is for.
pub(crate) const REF_URI: &[At] = &[Key("ref"), URI];
/// The task that the requests about a task are for.
pub(crate) const TASK_ID: &[At] = &[Key("taskId")];

/// The task that any message may belong to (2025-11-25, tasks, *Related Task Metadata*).
const RELATED: &[At] = &[META, Key(meta::RELATED_TASK), Key("taskId")];
/// The tasks of a listen, or of its acknowledgement (tasks extension, *Task Status Notifications*).
const LISTENED: &[At] = &[Key("notifications"), Key(TASK_IDS), Each];
/// The task that a call made (2025-11-25).
const CREATED: &[At] = &[Key("task"), Key("taskId")];

/// The places of URIs in the result of a request.
pub(crate) const fn uris_in_result(method: &Method) -> Paths {
    match method {
        Method::ToolsCall | Method::TasksResult => TOOL_RESULT,
        Method::TasksGet => TASK,
        Method::ResourcesRead => READ_RESULT,
        Method::PromptsGet => PROMPT_RESULT,
        _ => &[],
    }
}

/// The places of URIs in the parameters of a server's notification or request.
pub(crate) const fn uris_from_server(method: &Method) -> Paths {
    match method {
        Method::ResourceUpdated => RESOURCE_URIS,
        Method::Tasks => TASK,
        Method::CreateMessage => SAMPLING,
        _ => &[],
    }
}

/// The places of task ids in this result. A tool may have a custom `taskId` with another meaning.
pub(crate) fn task_ids_in_result(method: &Method, result: &Payload) -> Paths {
    match method {
        Method::ToolsCall if result.string("resultType").as_deref() == Some("task") => &[TASK_ID, RELATED],
        Method::ToolsCall => &[CREATED, RELATED],
        Method::TasksGet | Method::TasksCancel => &[TASK_ID, RELATED],
        _ => &[RELATED],
    }
}

/// The places of task ids in the parameters of a server's notification or request.
pub(crate) const fn task_ids_from_server(method: &Method) -> Paths {
    match method {
        Method::TaskStatus | Method::Tasks => &[TASK_ID, RELATED],
        Method::SubscriptionsAcknowledged => &[LISTENED],
        _ => &[RELATED],
    }
}
