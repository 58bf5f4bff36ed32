//! Where URIs and names stand in the messages of each method (`translation` section 5, "rewrite everywhere"). Knows
//! nothing of what they are rewritten to.

use crate::mcp::{
    Method,
    json::At::{self, Each, Key},
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
pub(crate) const RESOURCE_URIS: Paths = &[&[URI]];
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
/// In a question for a sample: tool results among its messages (2025-11-25), which hold content of their own.
const SAMPLING: Paths = &[
    &[Key("messages"), Each, Key("content"), RESOURCE, URI],
    &[Key("messages"), Each, Key("content"), Key("content"), Each, URI],
    &[Key("messages"), Each, Key("content"), Key("content"), Each, RESOURCE, URI],
    &[Key("messages"), Each, Key("content"), Each, RESOURCE, URI],
    &[Key("messages"), Each, Key("content"), Each, Key("content"), Each, URI],
    &[Key("messages"), Each, Key("content"), Each, Key("content"), Each, RESOURCE, URI],
];

/// Where URIs stand in the result of a request.
pub(crate) const fn in_result(method: &Method) -> Paths {
    match method {
        Method::ToolsCall | Method::TasksResult => TOOL_RESULT,
        Method::TasksGet => TASK,
        Method::ResourcesRead => READ_RESULT,
        Method::PromptsGet => PROMPT_RESULT,
        _ => &[],
    }
}

/// Where URIs stand in the parameters of what a backend tells or asks.
pub(crate) const fn from_server(method: &Method) -> Paths {
    match method {
        Method::ResourceUpdated => RESOURCE_URIS,
        Method::Tasks => TASK,
        Method::CreateMessage => SAMPLING,
        _ => &[],
    }
}
