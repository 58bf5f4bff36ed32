//! The official schemas of every revision.

use std::{collections::HashMap, fs};

use jsonschema::Validator;
use lockkeeper::mcp::{Method, Revision, translate::Kind};
use serde_json::{Value, json};

/// The schemas, and the validators that were built from them.
#[derive(Default)]
pub(super) struct Schemas {
    texts: HashMap<Revision, Value>,
    validators: HashMap<(Revision, &'static str), Option<Validator>>,
}

impl Schemas {
    /// Violations of the schema of `revision` in a payload; empty if it is valid, or has no definition.
    pub(super) fn faults(&mut self, revision: Revision, kind: Kind, method: &Method, payload: &Value) -> String {
        let Some(definition) = definition(kind, method) else { return String::new() };
        let text = self.texts.entry(revision).or_insert_with(|| read(revision));
        let validator = self.validators.entry((revision, definition)).or_insert_with(|| build(text, definition));
        let Some(validator) = validator else { return String::new() };
        let message = match kind {
            Kind::Result | Kind::Answer => payload.clone(),
            _ => {
                let mut message = json!({ "jsonrpc": "2.0", "id": 1, "method": method.as_str() });
                if !payload.is_null() {
                    message["params"] = payload.clone();
                }
                message
            }
        };
        let faults = validator.iter_errors(&message).map(|error| format!("{error} at {}", error.instance_path()));
        faults.collect::<Vec<_>>().join("\n")
    }
}

/// A validator of `definition`; `None` if the revision does not have it.
pub(crate) fn validator(revision: Revision, definition: &str) -> Option<Validator> {
    build(&read(revision), definition)
}

/// The members of `definition` in this revision.
pub(crate) fn members(revision: Revision, definition: &str) -> Vec<String> {
    let text = read(revision);
    let home = if text.get("$defs").is_some() { "$defs" } else { "definitions" };
    let members = text[home][definition]["properties"].as_object();
    members.unwrap_or_else(|| panic!("{definition} in {revision}")).keys().cloned().collect()
}

fn build(text: &Value, definition: &str) -> Option<Validator> {
    let home = if text.get("$defs").is_some() { "$defs" } else { "definitions" };
    text[home].get(definition)?;
    let mut schema = text.clone();
    // 2025-11-25 and older forget that numbers need not be integers
    schema[home].get_mut("ElicitResult").into_iter().for_each(loosen);
    schema["$ref"] = format!("#/{home}/{definition}").into();
    Some(jsonschema::validator_for(&schema).unwrap())
}

fn read(revision: Revision) -> Value {
    let path = format!("{}/tests/schema/{revision}/schema.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn loosen(schema: &mut Value) {
    if let Value::Object(members) = schema {
        members.values_mut().for_each(loosen);
    } else if let Value::Array(elements) = schema {
        elements.iter_mut().for_each(loosen);
    } else if schema == "integer" {
        *schema = "number".into();
    }
}

fn definition(kind: Kind, method: &Method) -> Option<&'static str> {
    Some(match (kind, method) {
        (Kind::Result, Method::ToolsList) => "ListToolsResult",
        (Kind::Result, Method::ToolsCall) => "CallToolResult",
        (Kind::Result, Method::PromptsList) => "ListPromptsResult",
        (Kind::Result, Method::PromptsGet) => "GetPromptResult",
        (Kind::Result, Method::ResourcesList) => "ListResourcesResult",
        (Kind::Result, Method::ResourceTemplatesList) => "ListResourceTemplatesResult",
        (Kind::Result, Method::ResourcesRead) => "ReadResourceResult",
        (Kind::Result, Method::Complete) => "CompleteResult",
        (Kind::Result, Method::Initialize) => "InitializeResult",
        (Kind::Result, Method::Discover) => "DiscoverResult",
        (Kind::Result, Method::TasksGet) => "GetTaskResult",
        (Kind::Request, Method::ToolsList) => "ListToolsRequest",
        (Kind::Request, Method::ToolsCall) => "CallToolRequest",
        (Kind::Request, Method::PromptsGet) => "GetPromptRequest",
        (Kind::Request, Method::ResourcesRead) => "ReadResourceRequest",
        (Kind::Request, Method::ResourcesList) => "ListResourcesRequest",
        (Kind::Request, Method::Complete) => "CompleteRequest",
        (Kind::ServerRequest, Method::CreateMessage) => "CreateMessageRequest",
        (Kind::ServerRequest, Method::Elicit) => "ElicitRequest",
        (Kind::ServerRequest, Method::RootsList) => "ListRootsRequest",
        (Kind::Answer, Method::CreateMessage) => "CreateMessageResult",
        (Kind::Answer, Method::Elicit) => "ElicitResult",
        (Kind::Answer, Method::RootsList) => "ListRootsResult",
        (Kind::Notification, Method::Progress) => "ProgressNotification",
        (Kind::Notification, Method::LoggingMessage) => "LoggingMessageNotification",
        (Kind::Notification, Method::ResourceUpdated) => "ResourceUpdatedNotification",
        (Kind::Notification, Method::ToolsListChanged) => "ToolListChangedNotification",
        _ => return None,
    })
}
