//! The strict profile: only members that the target's schema defines, for clients that refuse what they do not know.
//! Values that belong to the peers (arguments, schemas, structured content, `_meta`) are not looked into.

use super::{
    super::{Method, Revision, json::draft::Draft},
    facts::Kind,
    translation::Translation,
};

use Revision::{V2024_11_05 as V1, V2025_03_26 as V2, V2025_06_18 as V3, V2025_11_25 as V4, V2026_07_28 as V5};

/// The members of one kind of object.
type StrictShape = &'static [StrictMember];

/// One member: its name, the first and the last revision that have it, and what it holds.
struct StrictMember(&'static str, Revision, Revision, Holds);

/// Content of a member.
enum Holds {
    /// A value that is not looked into.
    Value,
    /// An object of this shape, or several: an array is taken element by element.
    Shaped(StrictShape),
}

use Holds::{Shaped, Value};

const ANNOTATIONS: StrictShape = &[
    StrictMember("audience", V1, V5, Value),
    StrictMember("priority", V1, V5, Value),
    StrictMember("lastModified", V3, V5, Value),
];

const TOOL: StrictShape = &[
    StrictMember("name", V1, V5, Value),
    StrictMember("description", V1, V5, Value),
    StrictMember("inputSchema", V1, V5, Value),
    StrictMember("annotations", V2, V5, Value),
    StrictMember("title", V3, V5, Value),
    StrictMember("outputSchema", V3, V5, Value),
    StrictMember("_meta", V3, V5, Value),
    StrictMember("icons", V4, V5, Value),
    StrictMember("execution", V4, V4, Value),
];

const RESOURCE: StrictShape = &[
    StrictMember("uri", V1, V5, Value),
    StrictMember("uriTemplate", V1, V5, Value),
    StrictMember("name", V1, V5, Value),
    StrictMember("description", V1, V5, Value),
    StrictMember("mimeType", V1, V5, Value),
    StrictMember("size", V1, V5, Value),
    StrictMember("annotations", V1, V5, Shaped(ANNOTATIONS)),
    StrictMember("title", V3, V5, Value),
    StrictMember("_meta", V3, V5, Value),
    StrictMember("icons", V4, V5, Value),
];

const CONTENTS: StrictShape = &[
    StrictMember("uri", V1, V5, Value),
    StrictMember("mimeType", V1, V5, Value),
    StrictMember("text", V1, V5, Value),
    StrictMember("blob", V1, V5, Value),
    StrictMember("_meta", V3, V5, Value),
];

const ARGUMENT: StrictShape = &[
    StrictMember("name", V1, V5, Value),
    StrictMember("description", V1, V5, Value),
    StrictMember("required", V1, V5, Value),
    StrictMember("title", V3, V5, Value),
];

const PROMPT: StrictShape = &[
    StrictMember("name", V1, V5, Value),
    StrictMember("description", V1, V5, Value),
    StrictMember("arguments", V1, V5, Shaped(ARGUMENT)),
    StrictMember("title", V3, V5, Value),
    StrictMember("_meta", V3, V5, Value),
    StrictMember("icons", V4, V5, Value),
];

/// All kinds of blocks in one: a strict reader never meets a member of another kind.
const BLOCK: StrictShape = &[
    StrictMember("type", V1, V5, Value),
    StrictMember("text", V1, V5, Value),
    StrictMember("data", V1, V5, Value),
    StrictMember("mimeType", V1, V5, Value),
    StrictMember("resource", V1, V5, Shaped(CONTENTS)),
    StrictMember("annotations", V1, V5, Shaped(ANNOTATIONS)),
    StrictMember("uri", V3, V5, Value),
    StrictMember("name", V3, V5, Value),
    StrictMember("title", V3, V5, Value),
    StrictMember("description", V3, V5, Value),
    StrictMember("size", V3, V5, Value),
    StrictMember("_meta", V3, V5, Value),
    StrictMember("icons", V4, V5, Value),
    StrictMember("id", V4, V5, Value),
    StrictMember("input", V4, V5, Value),
    StrictMember("toolUseId", V4, V5, Value),
    StrictMember("content", V4, V5, Value),
    StrictMember("structuredContent", V4, V5, Value),
    StrictMember("isError", V4, V5, Value),
];

const PROMPT_MESSAGE: StrictShape =
    &[StrictMember("role", V1, V5, Value), StrictMember("content", V1, V5, Shaped(BLOCK))];

const SAMPLING_MESSAGE: StrictShape = &[
    StrictMember("role", V1, V5, Value),
    StrictMember("content", V1, V5, Shaped(BLOCK)),
    StrictMember("_meta", V4, V5, Value),
];

const ROOT: StrictShape =
    &[StrictMember("uri", V1, V5, Value), StrictMember("name", V1, V5, Value), StrictMember("_meta", V3, V5, Value)];

const REFERENCE: StrictShape = &[
    StrictMember("type", V1, V5, Value),
    StrictMember("uri", V1, V5, Value),
    StrictMember("name", V1, V5, Value),
    StrictMember("title", V3, V5, Value),
];

const IMPLEMENTATION: StrictShape = &[
    StrictMember("name", V1, V5, Value),
    StrictMember("version", V1, V5, Value),
    StrictMember("title", V3, V5, Value),
    StrictMember("description", V4, V5, Value),
    StrictMember("icons", V4, V5, Value),
    StrictMember("websiteUrl", V4, V5, Value),
];

/// Members of every result.
const ENVELOPE: [StrictMember; 6] = [
    StrictMember("_meta", V1, V5, Value),
    StrictMember("nextCursor", V1, V5, Value),
    StrictMember("resultType", V5, V5, Value),
    StrictMember("ttlMs", V5, V5, Value),
    StrictMember("cacheScope", V5, V5, Value),
    StrictMember("description", V1, V5, Value),
];

/// Removes what the target does not define. Payloads of methods that have nothing of the kind stay as they are.
pub(super) fn prune(draft: &mut Draft<'_>, translation: &Translation<'_>) {
    let Some((shape, common)) = shape(translation.facts.kind, translation.facts.method) else { return };
    // a task stands in the place of the result, in a shape of its extension
    if !draft.has("taskId") {
        keep(draft, shape, common, translation.to);
    }
}

fn keep(object: &mut Draft<'_>, shape: StrictShape, common: &[StrictMember], target: Revision) {
    object.retain_members(|name, value| {
        let mut members = shape.iter().chain(common);
        let Some(member) = members.find(|member| member.0 == name && member.1 <= target && target <= member.2) else {
            return false;
        };
        if let Shaped(inner) = member.3 {
            if value.is_array() {
                value.each_element(|element| keep(element, inner, &[], target));
            } else {
                keep(value, inner, &[], target);
            }
        }
        true
    });
}

/// The shape of a payload, and what is common to its kind.
fn shape(kind: Kind, method: &Method) -> Option<(StrictShape, &'static [StrictMember])> {
    match kind {
        Kind::Result => Some((result_shape(method)?, &ENVELOPE)),
        _ => Some((message_shape(kind, method)?, &[])),
    }
}

fn result_shape(method: &Method) -> Option<StrictShape> {
    Some(match method {
        Method::ToolsList => const { &[StrictMember("tools", V1, V5, Shaped(TOOL))] },
        Method::ResourcesList => const { &[StrictMember("resources", V1, V5, Shaped(RESOURCE))] },
        Method::ResourceTemplatesList => const { &[StrictMember("resourceTemplates", V1, V5, Shaped(RESOURCE))] },
        Method::ResourcesRead => const { &[StrictMember("contents", V1, V5, Shaped(CONTENTS))] },
        Method::PromptsList => const { &[StrictMember("prompts", V1, V5, Shaped(PROMPT))] },
        Method::PromptsGet => const { &[StrictMember("messages", V1, V5, Shaped(PROMPT_MESSAGE))] },
        Method::ToolsCall => {
            const {
                &[
                    StrictMember("content", V1, V5, Shaped(BLOCK)),
                    StrictMember("isError", V1, V5, Value),
                    StrictMember("structuredContent", V3, V5, Value),
                    StrictMember("task", V4, V4, Value),
                ]
            }
        }
        Method::Initialize => {
            const {
                &[
                    StrictMember("protocolVersion", V1, V4, Value),
                    StrictMember("capabilities", V1, V4, Value),
                    StrictMember("serverInfo", V1, V4, Shaped(IMPLEMENTATION)),
                    StrictMember("instructions", V1, V4, Value),
                ]
            }
        }
        _ => return None,
    })
}

/// The shape of a request, a notification, or an answer to a server.
fn message_shape(kind: Kind, method: &Method) -> Option<StrictShape> {
    Some(match (kind, method) {
        (Kind::Request, Method::Complete) => {
            const {
                &[
                    StrictMember("ref", V1, V5, Shaped(REFERENCE)),
                    StrictMember("argument", V1, V5, Value),
                    StrictMember("context", V3, V5, Value),
                    StrictMember("_meta", V1, V5, Value),
                ]
            }
        }
        (Kind::Notification | Kind::ClientNotification, Method::Progress) => {
            const {
                &[
                    StrictMember("progressToken", V1, V5, Value),
                    StrictMember("progress", V1, V5, Value),
                    StrictMember("total", V1, V5, Value),
                    StrictMember("message", V2, V5, Value),
                    StrictMember("_meta", V1, V5, Value),
                ]
            }
        }
        (Kind::ServerRequest, Method::CreateMessage) => {
            const {
                &[
                    StrictMember("messages", V1, V5, Shaped(SAMPLING_MESSAGE)),
                    StrictMember("modelPreferences", V1, V5, Value),
                    StrictMember("systemPrompt", V1, V5, Value),
                    StrictMember("includeContext", V1, V5, Value),
                    StrictMember("temperature", V1, V5, Value),
                    StrictMember("maxTokens", V1, V5, Value),
                    StrictMember("stopSequences", V1, V5, Value),
                    StrictMember("metadata", V1, V5, Value),
                    StrictMember("tools", V4, V5, Value),
                    StrictMember("toolChoice", V4, V5, Value),
                    StrictMember("task", V4, V4, Value),
                    StrictMember("_meta", V1, V5, Value),
                ]
            }
        }
        (Kind::Answer, Method::RootsList) => {
            const { &[StrictMember("roots", V1, V5, Shaped(ROOT)), StrictMember("_meta", V1, V4, Value)] }
        }
        _ => return None,
    })
}
