//! The official schemas of every version. Knows nothing of translation.

use std::{cell::RefCell, collections::HashMap};

use jsonschema::Validator;
use lockkeeper::mcp::{Method, Revision, translate::Kind};
use serde_json::{Value, json};

/// Kinds of payloads, with their methods and the names of their definitions.
pub const PAYLOADS: &[(Kind, Method, &str)] = &[
    (Kind::Result, Method::ToolsList, "ListToolsResult"),
    (Kind::Result, Method::ToolsCall, "CallToolResult"),
    (Kind::Result, Method::PromptsList, "ListPromptsResult"),
    (Kind::Result, Method::PromptsGet, "GetPromptResult"),
    (Kind::Result, Method::ResourcesList, "ListResourcesResult"),
    (Kind::Result, Method::ResourceTemplatesList, "ListResourceTemplatesResult"),
    (Kind::Result, Method::ResourcesRead, "ReadResourceResult"),
    (Kind::Result, Method::Complete, "CompleteResult"),
    (Kind::Request, Method::ToolsList, "ListToolsRequest"),
    (Kind::Request, Method::ToolsCall, "CallToolRequest"),
    (Kind::Request, Method::PromptsGet, "GetPromptRequest"),
    (Kind::Request, Method::ResourcesRead, "ReadResourceRequest"),
    (Kind::Request, Method::Complete, "CompleteRequest"),
    (Kind::Notification, Method::Progress, "ProgressNotification"),
    (Kind::Notification, Method::LoggingMessage, "LoggingMessageNotification"),
    (Kind::Notification, Method::ResourceUpdated, "ResourceUpdatedNotification"),
    (Kind::ServerRequest, Method::CreateMessage, "CreateMessageRequest"),
    (Kind::ServerRequest, Method::Elicit, "ElicitRequest"),
    (Kind::ServerRequest, Method::RootsList, "ListRootsRequest"),
    (Kind::Answer, Method::CreateMessage, "CreateMessageResult"),
    (Kind::Answer, Method::Elicit, "ElicitResult"),
    (Kind::Answer, Method::RootsList, "ListRootsResult"),
    // no definition of its own in every version
    (Kind::Result, Method::Initialize, "InitializeResult"),
    (Kind::Result, Method::TasksGet, "-"),
    (Kind::Result, Method::TasksResult, "-"),
    (Kind::Notification, Method::TaskStatus, "-"),
    (Kind::Request, Method::Listen, "-"),
    (Kind::Result, Method::Ping, "-"),
];

/// The place of a payload in [`PAYLOADS`].
pub fn place_of(kind: Kind, method: &Method) -> Option<usize> {
    PAYLOADS.iter().position(|(of, name, _)| *of == kind && name == method)
}

/// Violations of the schema of `revision` in a payload; `None` if the revision has no definition of it.
pub fn faults(revision: Revision, place: usize, payload: Option<&Value>) -> Option<Vec<String>> {
    thread_local!(static VALIDATORS: RefCell<HashMap<(Revision, &'static str), Option<Validator>>> = RefCell::default());
    let (kind, method, definition) = &PAYLOADS[place];
    let message = match kind {
        Kind::Result | Kind::Answer => payload.cloned().unwrap_or_default(),
        _ => {
            let mut message = json!({ "jsonrpc": "2.0", "id": 1, "method": method.as_str() });
            if let Some(payload) = payload {
                message["params"] = payload.clone();
            }
            message
        }
    };
    VALIDATORS.with_borrow_mut(|validators| {
        let validator = validators.entry((revision, definition)).or_insert_with(|| build(revision, definition));
        let found = validator.as_ref()?.iter_errors(&message);
        Some(found.map(|fault| format!("{fault} at {}", fault.instance_path())).collect())
    })
}

fn build(revision: Revision, definition: &str) -> Option<Validator> {
    let mut schema: Value = serde_json::from_str(text(revision)).ok()?;
    let home = if schema.get("$defs").is_some() { "$defs" } else { "definitions" };
    schema[home].get(definition)?;
    // 2025-11-25 and older forget that numbers need not be integers
    schema[home].get_mut("ElicitResult").into_iter().for_each(loosen);
    schema["$ref"] = format!("#/{home}/{definition}").into();
    // only the older drafts do it by themselves
    jsonschema::options().should_validate_formats(true).build(&schema).ok()
}

fn loosen(schema: &mut Value) {
    match schema {
        Value::Object(members) => members.values_mut().for_each(loosen),
        Value::Array(elements) => elements.iter_mut().for_each(loosen),
        other if other == "integer" => *other = "number".into(),
        _ => {}
    }
}

const fn text(revision: Revision) -> &'static str {
    match revision {
        Revision::V2024_11_05 => include_str!("../../tests/schema/2024-11-05/schema.json"),
        Revision::V2025_03_26 => include_str!("../../tests/schema/2025-03-26/schema.json"),
        Revision::V2025_06_18 => include_str!("../../tests/schema/2025-06-18/schema.json"),
        Revision::V2025_11_25 => include_str!("../../tests/schema/2025-11-25/schema.json"),
        Revision::V2026_07_28 => include_str!("../../tests/schema/2026-07-28/schema.json"),
    }
}
