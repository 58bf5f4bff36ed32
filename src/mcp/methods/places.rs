//! Paths to names, URIs and task ids in messages (`translation` section 5), by kind of message: the rows of methods say
//! which ones apply. Paths for extensions are in the extensions' files.

use super::{
    super::{
        json::At::{self, Each, Key},
        meta,
    },
    controls::TASK_IDS,
};

/// A set of paths into a message.
pub(crate) type Paths = &'static [&'static [At]];

const META: At = Key("_meta");
const RESOURCE: At = Key("resource");
const URI: At = Key("uri");

pub(crate) const RESOURCE_URIS: Paths = &[RESOURCE_URI];
/// In an entry of `resources/templates/list`.
pub(crate) const TEMPLATE_URIS: Paths = &[&[Key("uriTemplate")]];

/// In a `CallToolResult`: resource links and embedded resources. Extensions add more.
pub(in crate::mcp) const TOOL_CONTENT: Paths = &[&[Key("content"), Each, URI], &[Key("content"), Each, RESOURCE, URI]];
pub(super) const READ_RESULT: Paths = &[&[Key("contents"), Each, URI]];
pub(super) const PROMPT_RESULT: Paths =
    &[&[Key("messages"), Each, Key("content"), URI], &[Key("messages"), Each, Key("content"), RESOURCE, URI]];
/// In a sampling request: tool results in its messages (2025-11-25), with content of their own.
pub(super) const SAMPLING: Paths = &[
    &[Key("messages"), Each, Key("content"), RESOURCE, URI],
    &[Key("messages"), Each, Key("content"), Key("content"), Each, URI],
    &[Key("messages"), Each, Key("content"), Key("content"), Each, RESOURCE, URI],
    &[Key("messages"), Each, Key("content"), Each, RESOURCE, URI],
    &[Key("messages"), Each, Key("content"), Each, Key("content"), Each, URI],
    &[Key("messages"), Each, Key("content"), Each, Key("content"), Each, RESOURCE, URI],
];

/// The tool or prompt named by `tools/call` or `prompts/get`.
pub(crate) const NAME: &[At] = &[Key("name")];
/// The URI in requests about a resource.
pub(crate) const RESOURCE_URI: &[At] = &[URI];
/// The prompt that `completion/complete` completes an argument for.
pub(crate) const REF_NAME: &[At] = &[Key("ref"), Key("name")];
/// The resource template that `completion/complete` completes an argument for.
pub(crate) const REF_URI: &[At] = &[Key("ref"), URI];
/// The task id in requests about a task.
pub(crate) const TASK_ID: &[At] = &[Key("taskId")];

/// The task that any message may belong to (2025-11-25, tasks, *Related Task Metadata*).
const RELATED: &[At] = &[META, Key(meta::RELATED_TASK), Key("taskId")];
pub(super) const RELATED_TASK: Paths = &[RELATED];
pub(in crate::mcp) const TASK_ID_OR_RELATED: Paths = &[TASK_ID, RELATED];
/// The task that a call created (2025-11-25).
pub(super) const CREATED_TASK: Paths = &[&[Key("task"), Key("taskId")], RELATED];
/// The tasks in a `subscriptions/listen` request or its acknowledgement (tasks extension, *Task Status Notifications*).
pub(super) const LISTENED_TASKS: Paths = &[&[Key("notifications"), Key(TASK_IDS), Each]];
