//! Whether the official schema of the client's version takes a message that the client gets.

use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex},
};

use jsonschema::Validator;
use lockkeeper::mcp::Revision;
use serde_json::Value;

use crate::translate::schemas;

type Validators = HashMap<(Revision, &'static str), Option<Validator>>;

/// The result of each method, by its name in the schemas.
const RESULTS: &[(&str, &str)] = &[
    ("initialize", "InitializeResult"),
    ("tools/list", "ListToolsResult"),
    ("prompts/list", "ListPromptsResult"),
    ("prompts/get", "GetPromptResult"),
    ("resources/list", "ListResourcesResult"),
    ("resources/templates/list", "ListResourceTemplatesResult"),
    ("resources/read", "ReadResourceResult"),
    ("completion/complete", "CompleteResult"),
    ("tasks/get", "GetTaskResult"),
    ("tasks/cancel", "CancelTaskResult"),
    ("tasks/list", "ListTasksResult"),
    ("ping", "EmptyResult"),
    ("logging/setLevel", "EmptyResult"),
    ("resources/subscribe", "EmptyResult"),
    ("resources/unsubscribe", "EmptyResult"),
];

static VALIDATORS: LazyLock<Mutex<Validators>> = LazyLock::new(Mutex::default);

/// The answer to a request of this method.
pub(super) fn answer(revision: Revision, method: &str, message: &Value) -> Result<(), String> {
    if message.get("error").is_some() {
        // from 2025-11-25 on under another name
        return valid(revision, "JSONRPCError", message)
            .and_then(|()| valid(revision, "JSONRPCErrorResponse", message));
    }
    let result = &message["result"];
    let definition = match RESULTS.iter().find(|(name, _)| *name == method) {
        Some((_, definition)) => definition,
        // a call that makes a task is answered by the task
        None if result.get("task").is_some() => "CreateTaskResult",
        None if method == "tools/call" || method == "tasks/result" => "CallToolResult",
        None => return Err(format!("no result is known for {method}")),
    };
    valid(revision, definition, result)
}

/// A question.
pub(super) fn request(revision: Revision, message: &Value) -> Result<(), String> {
    valid(revision, "JSONRPCRequest", message).and_then(|()| valid(revision, "ServerRequest", message))
}

/// A notification.
pub(super) fn notification(revision: Revision, message: &Value) -> Result<(), String> {
    valid(revision, "JSONRPCNotification", message).and_then(|()| valid(revision, "ServerNotification", message))
}

/// A definition that the version has not finds no fault.
fn valid(revision: Revision, definition: &'static str, message: &Value) -> Result<(), String> {
    let mut validators = VALIDATORS.lock().unwrap();
    let validator =
        validators.entry((revision, definition)).or_insert_with(|| schemas::validator(revision, definition));
    let Some(validator) = validator else { return Ok(()) };
    let faults: Vec<String> =
        validator.iter_errors(message).map(|fault| format!("{fault} at {}", fault.instance_path())).collect();
    if faults.is_empty() { Ok(()) } else { Err(format!("{revision} {definition}: {}: {message}", faults.join("; "))) }
}
