//! Validation of messages from the gateway against the official schema of the receiver's version.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex},
};

use jsonschema::Validator;
use lockkeeper::mcp::Revision;
use serde_json::Value;

use crate::translate::schemas;

type Validators = HashMap<(Revision, &'static str), Option<Arc<Validator>>>;

/// The results of methods, by their names in the schemas.
const RESULTS: &[(&str, &str)] = &[
    ("initialize", "InitializeResult"),
    ("server/discover", "DiscoverResult"),
    ("subscriptions/listen", "SubscriptionsListenResult"),
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

/// The answers to server requests, by their names in the schemas.
const ANSWERS: &[(&str, &str)] = &[
    ("sampling/createMessage", "CreateMessageResult"),
    ("elicitation/create", "ElicitResult"),
    ("roots/list", "ListRootsResult"),
    ("ping", "EmptyResult"),
    ("tasks/get", "GetTaskResult"),
    ("tasks/result", "GetTaskPayloadResult"),
];

/// The methods of the tasks extension, which are not in the schema of 2026-07-28.
const EXTENSION: [&str; 3] = ["tasks/get", "tasks/update", "tasks/cancel"];

/// Prefixes of methods that tests invent, which are in no schema.
const MADE_UP: [&str; 3] = ["notifications/x/", "x/", "tasks/nothing"];

/// Validates the answer to a client's request of this method.
pub(crate) fn answer(revision: Revision, method: &str, message: &Value) -> Result<(), String> {
    envelope(revision, message)?;
    let Some(result) = message.get("result") else { return Ok(()) };
    let definition = match RESULTS.iter().find(|(name, _)| *name == method) {
        Some((_, definition)) => definition,
        // the answer to a call that creates a task is the task
        None if result.get("task").is_some() => "CreateTaskResult",
        None if method == "tools/call" || method == "tasks/result" => "CallToolResult",
        None => return Err(format!("no result is known for {method}")),
    };
    valid(revision, definition, result)
}

/// Validates a result with server requests (2026-07-28, MRTR).
pub(crate) fn asking(revision: Revision, message: &Value) -> Result<(), String> {
    envelope(revision, message)?;
    valid(revision, "InputRequiredResult", &message["result"])?;
    let requests = message["result"]["inputRequests"].as_object();
    requests.into_iter().flatten().try_for_each(|(_, request)| {
        let definition = match request["method"].as_str() {
            Some("sampling/createMessage") => "CreateMessageRequest",
            Some("elicitation/create") => "ElicitRequest",
            Some("roots/list") => "ListRootsRequest",
            _ => return Err(format!("no such question: {request}")),
        };
        match request.get("id").or(request.get("jsonrpc")) {
            Some(_) => Err(format!("a question in a result is no message: {request}")),
            None => valid(revision, definition, request),
        }
    })
}

/// Validates a server request for a client.
pub(crate) fn request(revision: Revision, message: &Value) -> Result<(), String> {
    valid(revision, "JSONRPCRequest", message).and_then(|()| valid(revision, "ServerRequest", message))
}

/// Validates a notification for a client.
pub(crate) fn notification(revision: Revision, message: &Value) -> Result<(), String> {
    valid(revision, "JSONRPCNotification", message).and_then(|()| valid(revision, "ServerNotification", message))
}

/// Validates a message for a server; `question` is the method of the server's own request that it answers, if any.
pub(crate) fn to_server(revision: Revision, question: Option<&str>, message: &Value) -> Result<(), String> {
    match (message["method"].as_str(), message.get("id")) {
        (Some(method), _) if MADE_UP.iter().any(|made_up| method.starts_with(made_up)) => Ok(()),
        (Some(method), Some(_)) if revision == Revision::V2026_07_28 && EXTENSION.contains(&method) => {
            valid(revision, "JSONRPCRequest", message)?;
            let declared = &message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"];
            let is_declared = declared["io.modelcontextprotocol/tasks"].is_object();
            if is_declared { Ok(()) } else { Err(format!("the extension is not declared: {message}")) }
        }
        (Some(_), None) => valid(revision, "JSONRPCNotification", message)
            .and_then(|()| valid(revision, "ClientNotification", message)),
        (Some(_), Some(_)) => {
            valid(revision, "JSONRPCRequest", message).and_then(|()| valid(revision, "ClientRequest", message))
        }
        (None, _) => {
            envelope(revision, message)?;
            let (Some(question), Some(result)) = (question, message.get("result")) else { return Ok(()) };
            let definition = match ANSWERS.iter().find(|(name, _)| *name == question) {
                // the answer to a server request that creates a task is the task
                _ if result.get("task").is_some() => "CreateTaskResult",
                Some((_, definition)) => definition,
                None => return Err(format!("no answer is known to {question}")),
            };
            valid(revision, definition, result)
        }
    }
}

/// Validates the envelope of a result or an error.
fn envelope(revision: Revision, message: &Value) -> Result<(), String> {
    let definitions: &[&'static str] = if message.get("error").is_some() {
        // renamed in 2025-11-25
        &["JSONRPCError", "JSONRPCErrorResponse"]
    } else {
        &["JSONRPCResponse", "JSONRPCResultResponse"]
    };
    definitions.iter().try_for_each(|definition| valid(revision, definition, message))
}

/// A definition that the version does not have accepts everything.
fn valid(revision: Revision, definition: &'static str, message: &Value) -> Result<(), String> {
    let validator = {
        let mut validators = VALIDATORS.lock().unwrap();
        let built = || schemas::validator(revision, definition).map(Arc::new);
        validators.entry((revision, definition)).or_insert_with(built).clone()
    };
    let Some(validator) = validator else { return Ok(()) };
    let faults: Vec<String> =
        validator.iter_errors(message).map(|fault| format!("{fault} at {}", fault.instance_path())).collect();
    if faults.is_empty() { Ok(()) } else { Err(format!("{revision} {definition}: {}: {message}", faults.join("; "))) }
}
