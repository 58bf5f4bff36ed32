//! The shapes of parameters and results: the members of each object, the versions that define them, and the form of
//! their values. One table serves all versions. The check of listed entries (`translate::entries`) and the strict
//! profile (`translate::strict`) read it.

use super::super::Revision;

use Form::{Each, Flag, Input, Key, Members, Number, Object, OneOf, OneOrMore, Output, SomeOf, Text, Texts, Value};
use Revision::{
    V2024_11_05 as OLDEST, V2025_03_26 as V2, V2025_06_18 as V3, V2025_11_25 as V4, V2026_07_28 as MODERN_OLDEST,
};

/// The members of one kind of object.
pub(in crate::mcp) type Shape = &'static [Member];

/// A member of an object.
pub(in crate::mcp) struct Member {
    pub(in crate::mcp) name: &'static str,
    /// The oldest and the newest version that define it.
    versions: (Revision, Revision),
    pub(in crate::mcp) form: Form,
}

/// The form that a value must have.
#[derive(Clone, Copy)]
pub(in crate::mcp) enum Form {
    /// A value that is not checked, because it belongs to the client or server or its form is not listed here.
    Value,
    Key,
    Text,
    Flag,
    Number,
    Object,
    /// An array of strings.
    Texts,
    OneOf(&'static [&'static str]),
    /// An array of some of these strings.
    SomeOf(&'static [&'static str]),
    Members(Shape),
    /// An array of objects.
    Each(Shape),
    /// An object, or an array of several.
    OneOrMore(Shape),
    /// A required JSON Schema for an object.
    Input,
    /// A JSON Schema; in the legacy versions for an object.
    Output,
}

// === impl Member ===

impl Member {
    /// True if this version defines the member.
    pub(in crate::mcp) const fn is_in(&self, revision: Revision) -> bool {
        self.versions.0 as u8 <= revision as u8 && revision as u8 <= self.versions.1 as u8
    }
}

// === impl Form ===

impl Form {
    /// The shape of the objects in the value; `None` if it holds none.
    pub(in crate::mcp) const fn inner(self) -> Option<Shape> {
        match self {
            Members(shape) | Each(shape) | OneOrMore(shape) => Some(shape),
            _ => None,
        }
    }
}

/// A member of every version.
const fn always(name: &'static str, form: Form) -> Member {
    since(OLDEST, name, form)
}

/// A member of this version and later ones.
const fn since(oldest: Revision, name: &'static str, form: Form) -> Member {
    Member { name, versions: (oldest, Revision::NEWEST), form }
}

/// A member of these versions and all between them.
const fn from_to(oldest: Revision, newest: Revision, name: &'static str, form: Form) -> Member {
    Member { name, versions: (oldest, newest), form }
}

// === parts ===

const ICONS: Shape =
    &[always("src", Key), always("mimeType", Text), always("sizes", Texts), always("theme", OneOf(&["light", "dark"]))];

const ANNOTATIONS: Shape =
    &[always("audience", SomeOf(&["user", "assistant"])), always("priority", Number), since(V3, "lastModified", Text)];

const IMPLEMENTATION: Shape = &[
    always("name", Value),
    always("version", Value),
    since(V3, "title", Value),
    since(V4, "description", Value),
    since(V4, "icons", Value),
    since(V4, "websiteUrl", Value),
];

const CONTENTS: Shape = &[
    always("uri", Value),
    always("mimeType", Value),
    always("text", Value),
    always("blob", Value),
    since(V3, "_meta", Value),
];

/// All kinds of blocks together: a strict client never gets a kind of block that its version lacks.
const BLOCK: Shape = &[
    always("type", Value),
    always("text", Value),
    always("data", Value),
    always("mimeType", Value),
    always("resource", Members(CONTENTS)),
    always("annotations", Members(ANNOTATIONS)),
    since(V3, "uri", Value),
    since(V3, "name", Value),
    since(V3, "title", Value),
    since(V3, "description", Value),
    since(V3, "size", Value),
    since(V3, "_meta", Value),
    since(V4, "icons", Value),
    since(V4, "id", Value),
    since(V4, "input", Value),
    since(V4, "toolUseId", Value),
    since(V4, "content", Value),
    since(V4, "structuredContent", Value),
    since(V4, "isError", Value),
];

const PROMPT_MESSAGE: Shape = &[always("role", Value), always("content", OneOrMore(BLOCK))];

const SAMPLING_MESSAGE: Shape =
    &[always("role", Value), always("content", OneOrMore(BLOCK)), since(V4, "_meta", Value)];

const ROOT: Shape = &[always("uri", Value), always("name", Value), since(V3, "_meta", Value)];

const REFERENCE: Shape =
    &[always("type", Value), always("uri", Value), always("name", Value), since(V3, "title", Value)];

// === entries of lists ===

const HINTS: Shape = &[
    always("title", Text),
    always("readOnlyHint", Flag),
    always("destructiveHint", Flag),
    always("idempotentHint", Flag),
    always("openWorldHint", Flag),
];

const EXECUTION: Shape = &[always("taskSupport", OneOf(&["forbidden", "optional", "required"]))];

const TOOL: Shape = &[
    always("name", Key),
    always("description", Text),
    always("inputSchema", Input),
    since(V2, "annotations", Members(HINTS)),
    since(V3, "title", Text),
    since(V3, "outputSchema", Output),
    since(V3, "_meta", Object),
    since(V4, "icons", Each(ICONS)),
    from_to(V4, V4, "execution", Members(EXECUTION)),
];

const ARGUMENT: Shape =
    &[always("name", Key), always("description", Text), always("required", Flag), since(V3, "title", Text)];

const PROMPT: Shape = &[
    always("name", Key),
    always("description", Text),
    always("arguments", Each(ARGUMENT)),
    since(V3, "title", Text),
    since(V3, "_meta", Object),
    since(V4, "icons", Each(ICONS)),
];

const RESOURCE: Shape = &[
    always("uri", Key),
    always("name", Key),
    always("description", Text),
    always("mimeType", Text),
    always("size", Number),
    always("annotations", Members(ANNOTATIONS)),
    since(V3, "title", Text),
    since(V3, "_meta", Object),
    since(V4, "icons", Each(ICONS)),
];

const TEMPLATE: Shape = &[
    always("uriTemplate", Key),
    always("name", Key),
    always("description", Text),
    always("mimeType", Text),
    always("annotations", Members(ANNOTATIONS)),
    since(V3, "title", Text),
    since(V3, "_meta", Object),
    since(V4, "icons", Each(ICONS)),
];

// === results ===

/// Members of every result.
pub(in crate::mcp) const ENVELOPE: Shape = &[
    always("_meta", Value),
    always("nextCursor", Value),
    always("description", Value),
    since(MODERN_OLDEST, "resultType", Value),
    since(MODERN_OLDEST, "ttlMs", Value),
    since(MODERN_OLDEST, "cacheScope", Value),
];

pub(super) const TOOLS: Shape = &[always("tools", Each(TOOL))];
pub(super) const PROMPTS: Shape = &[always("prompts", Each(PROMPT))];
pub(super) const RESOURCES: Shape = &[always("resources", Each(RESOURCE))];
pub(super) const TEMPLATES: Shape = &[always("resourceTemplates", Each(TEMPLATE))];
pub(super) const RESOURCE_CONTENTS: Shape = &[always("contents", Each(CONTENTS))];
pub(super) const PROMPT_MESSAGES: Shape = &[always("messages", Each(PROMPT_MESSAGE))];
pub(super) const TOOL_CONTENT: Shape = &[
    always("content", Each(BLOCK)),
    always("isError", Value),
    since(V3, "structuredContent", Value),
    from_to(V4, V4, "task", Value),
];
pub(super) const HANDSHAKE: Shape = &[
    from_to(OLDEST, V4, "protocolVersion", Value),
    from_to(OLDEST, V4, "capabilities", Value),
    from_to(OLDEST, V4, "serverInfo", Members(IMPLEMENTATION)),
    from_to(OLDEST, V4, "instructions", Value),
];
/// A client's answer to `roots/list`.
pub(super) const ROOTS: Shape = &[always("roots", Each(ROOT)), from_to(OLDEST, V4, "_meta", Value)];

// === parameters ===

pub(super) const COMPLETION: Shape = &[
    always("ref", Members(REFERENCE)),
    always("argument", Value),
    since(V3, "context", Value),
    always("_meta", Value),
];
pub(super) const PROGRESS: Shape = &[
    always("progressToken", Value),
    always("progress", Value),
    always("total", Value),
    since(V2, "message", Value),
    always("_meta", Value),
];
pub(super) const SAMPLING: Shape = &[
    always("messages", Each(SAMPLING_MESSAGE)),
    always("modelPreferences", Value),
    always("systemPrompt", Value),
    always("includeContext", Value),
    always("temperature", Value),
    always("maxTokens", Value),
    always("stopSequences", Value),
    always("metadata", Value),
    since(V4, "tools", Value),
    since(V4, "toolChoice", Value),
    from_to(V4, V4, "task", Value),
    always("_meta", Value),
];
