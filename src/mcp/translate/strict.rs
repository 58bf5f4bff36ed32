//! The strict profile: only members that the target's schema defines, for clients that refuse what they do not know.
//! Values that belong to the peers (arguments, schemas, structured content, `_meta`) are not looked into.

use super::{
    super::{Method, Revision, json::draft::Draft},
    facts::Kind,
    translation::Translation,
};

use Revision::{V2024_11_05 as V1, V2025_03_26 as V2, V2025_06_18 as V3, V2025_11_25 as V4, V2026_07_28 as V5};

/// The members of one kind of object.
type Shape = &'static [Member];

/// One member: its name, the first and the last revision that have it, and what it holds.
struct Member(&'static str, Revision, Revision, Holds);

/// What a member holds.
enum Holds {
    /// A value that is not looked into.
    Value,
    /// An object of this shape, or several: an array is taken element by element.
    Shaped(Shape),
}

use Holds::{Shaped, Value};

const ANNOTATIONS: Shape =
    &[Member("audience", V1, V5, Value), Member("priority", V1, V5, Value), Member("lastModified", V3, V5, Value)];

const TOOL: Shape = &[
    Member("name", V1, V5, Value),
    Member("description", V1, V5, Value),
    Member("inputSchema", V1, V5, Value),
    Member("annotations", V2, V5, Value),
    Member("title", V3, V5, Value),
    Member("outputSchema", V3, V5, Value),
    Member("_meta", V3, V5, Value),
    Member("icons", V4, V5, Value),
    Member("execution", V4, V4, Value),
];

const RESOURCE: Shape = &[
    Member("uri", V1, V5, Value),
    Member("uriTemplate", V1, V5, Value),
    Member("name", V1, V5, Value),
    Member("description", V1, V5, Value),
    Member("mimeType", V1, V5, Value),
    Member("size", V1, V5, Value),
    Member("annotations", V1, V5, Shaped(ANNOTATIONS)),
    Member("title", V3, V5, Value),
    Member("_meta", V3, V5, Value),
    Member("icons", V4, V5, Value),
];

const CONTENTS: Shape = &[
    Member("uri", V1, V5, Value),
    Member("mimeType", V1, V5, Value),
    Member("text", V1, V5, Value),
    Member("blob", V1, V5, Value),
    Member("_meta", V3, V5, Value),
];

const ARGUMENT: Shape = &[
    Member("name", V1, V5, Value),
    Member("description", V1, V5, Value),
    Member("required", V1, V5, Value),
    Member("title", V3, V5, Value),
];

const PROMPT: Shape = &[
    Member("name", V1, V5, Value),
    Member("description", V1, V5, Value),
    Member("arguments", V1, V5, Shaped(ARGUMENT)),
    Member("title", V3, V5, Value),
    Member("_meta", V3, V5, Value),
    Member("icons", V4, V5, Value),
];

/// Every kind of block in one: a member that belongs to another kind is nothing that a strict reader meets.
const BLOCK: Shape = &[
    Member("type", V1, V5, Value),
    Member("text", V1, V5, Value),
    Member("data", V1, V5, Value),
    Member("mimeType", V1, V5, Value),
    Member("resource", V1, V5, Shaped(CONTENTS)),
    Member("annotations", V1, V5, Shaped(ANNOTATIONS)),
    Member("uri", V3, V5, Value),
    Member("name", V3, V5, Value),
    Member("title", V3, V5, Value),
    Member("description", V3, V5, Value),
    Member("size", V3, V5, Value),
    Member("_meta", V3, V5, Value),
    Member("icons", V4, V5, Value),
    Member("id", V4, V5, Value),
    Member("input", V4, V5, Value),
    Member("toolUseId", V4, V5, Value),
    Member("content", V4, V5, Value),
    Member("structuredContent", V4, V5, Value),
    Member("isError", V4, V5, Value),
];

const PROMPT_MESSAGE: Shape = &[Member("role", V1, V5, Value), Member("content", V1, V5, Shaped(BLOCK))];

const SAMPLING_MESSAGE: Shape =
    &[Member("role", V1, V5, Value), Member("content", V1, V5, Shaped(BLOCK)), Member("_meta", V4, V5, Value)];

const ROOT: Shape = &[Member("uri", V1, V5, Value), Member("name", V1, V5, Value), Member("_meta", V3, V5, Value)];

const REFERENCE: Shape = &[
    Member("type", V1, V5, Value),
    Member("uri", V1, V5, Value),
    Member("name", V1, V5, Value),
    Member("title", V3, V5, Value),
];

const IMPLEMENTATION: Shape = &[
    Member("name", V1, V5, Value),
    Member("version", V1, V5, Value),
    Member("title", V3, V5, Value),
    Member("description", V4, V5, Value),
    Member("icons", V4, V5, Value),
    Member("websiteUrl", V4, V5, Value),
];

/// What every result has.
const ENVELOPE: [Member; 6] = [
    Member("_meta", V1, V5, Value),
    Member("nextCursor", V1, V5, Value),
    Member("resultType", V5, V5, Value),
    Member("ttlMs", V5, V5, Value),
    Member("cacheScope", V5, V5, Value),
    Member("description", V1, V5, Value),
];

/// Removes what the target does not define. Payloads of methods that have nothing of the kind stay as they are.
pub(super) fn prune(draft: &mut Draft<'_>, translation: &Translation<'_>) {
    let Some((shape, common)) = shape(translation.facts.kind, translation.facts.method) else { return };
    // a task stands in the place of the result, in a shape of its extension
    if draft.get("taskId").is_none() {
        keep(draft, shape, common, translation.to);
    }
}

fn keep(object: &mut Draft<'_>, shape: Shape, common: &[Member], target: Revision) {
    object.retain_members(|name, value| {
        let mut members = shape.iter().chain(common);
        let Some(member) = members.find(|member| member.0 == name && member.1 <= target && target <= member.2) else {
            return false;
        };
        if let Shaped(inner) = member.3 {
            if value.is_array() {
                value.elements().for_each(|element| keep(element, inner, &[], target));
            } else {
                keep(value, inner, &[], target);
            }
        }
        true
    });
}

/// The shape of a payload, and what is common to its kind.
fn shape(kind: Kind, method: &Method) -> Option<(Shape, &'static [Member])> {
    match kind {
        Kind::Result => Some((result_shape(method)?, &ENVELOPE)),
        _ => Some((message_shape(kind, method)?, &[])),
    }
}

fn result_shape(method: &Method) -> Option<Shape> {
    Some(match method {
        Method::ToolsList => const { &[Member("tools", V1, V5, Shaped(TOOL))] },
        Method::ResourcesList => const { &[Member("resources", V1, V5, Shaped(RESOURCE))] },
        Method::ResourceTemplatesList => const { &[Member("resourceTemplates", V1, V5, Shaped(RESOURCE))] },
        Method::ResourcesRead => const { &[Member("contents", V1, V5, Shaped(CONTENTS))] },
        Method::PromptsList => const { &[Member("prompts", V1, V5, Shaped(PROMPT))] },
        Method::PromptsGet => const { &[Member("messages", V1, V5, Shaped(PROMPT_MESSAGE))] },
        Method::ToolsCall => {
            const {
                &[
                    Member("content", V1, V5, Shaped(BLOCK)),
                    Member("isError", V1, V5, Value),
                    Member("structuredContent", V3, V5, Value),
                    Member("task", V4, V4, Value),
                ]
            }
        }
        Method::Initialize => {
            const {
                &[
                    Member("protocolVersion", V1, V4, Value),
                    Member("capabilities", V1, V4, Value),
                    Member("serverInfo", V1, V4, Shaped(IMPLEMENTATION)),
                    Member("instructions", V1, V4, Value),
                ]
            }
        }
        _ => return None,
    })
}

/// The shape of what is asked, told, or answered to a server.
fn message_shape(kind: Kind, method: &Method) -> Option<Shape> {
    Some(match (kind, method) {
        (Kind::Request, Method::Complete) => {
            const {
                &[
                    Member("ref", V1, V5, Shaped(REFERENCE)),
                    Member("argument", V1, V5, Value),
                    Member("context", V3, V5, Value),
                    Member("_meta", V1, V5, Value),
                ]
            }
        }
        (Kind::Notification | Kind::ClientNotification, Method::Progress) => {
            const {
                &[
                    Member("progressToken", V1, V5, Value),
                    Member("progress", V1, V5, Value),
                    Member("total", V1, V5, Value),
                    Member("message", V2, V5, Value),
                    Member("_meta", V1, V5, Value),
                ]
            }
        }
        (Kind::Question, Method::CreateMessage) => {
            const {
                &[
                    Member("messages", V1, V5, Shaped(SAMPLING_MESSAGE)),
                    Member("modelPreferences", V1, V5, Value),
                    Member("systemPrompt", V1, V5, Value),
                    Member("includeContext", V1, V5, Value),
                    Member("temperature", V1, V5, Value),
                    Member("maxTokens", V1, V5, Value),
                    Member("stopSequences", V1, V5, Value),
                    Member("metadata", V1, V5, Value),
                    Member("tools", V4, V5, Value),
                    Member("toolChoice", V4, V5, Value),
                    Member("task", V4, V4, Value),
                    Member("_meta", V1, V5, Value),
                ]
            }
        }
        (Kind::Answer, Method::RootsList) => {
            const { &[Member("roots", V1, V5, Shaped(ROOT)), Member("_meta", V1, V4, Value)] }
        }
        _ => return None,
    })
}
