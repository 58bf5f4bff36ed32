//! Converts tasks between 2025-11-25 and the extension for 2026-07-28.

use super::{
    super::{Method, json::draft::Draft},
    facts::Kind,
};

/// Members that a task has only in the extension.
const OUTCOME: &[&str] = &["result", "error", "inputRequests"];

/// True for a `CreateTaskResult` of 2025-11-25.
pub(super) fn is_created(result: &mut Draft<'_>) -> bool {
    result.get("task").is_some_and(|task| task.is_object()) && !result.has("content")
}

/// True if the payload is a task, or a notification of a task's status.
pub(super) fn is_task(kind: Kind, method: &Method) -> bool {
    match kind {
        Kind::Result => matches!(method, Method::TasksGet | Method::TasksCancel),
        Kind::Notification | Kind::ClientNotification => matches!(method, Method::TaskStatus | Method::Tasks),
        _ => false,
    }
}

/// Converts the extension's flat result to the nested result of 2025-11-25.
pub(super) fn nest(result: &mut Draft<'_>) {
    lower(result);
    let mut task = result.clone();
    task.remove("_meta");
    result.retain_members(|name, _| name == "_meta");
    result.set("task", task.text());
}

/// Converts the nested result of 2025-11-25 to the extension's flat result.
pub(super) fn flatten(result: &mut Draft<'_>) {
    let Some(task) = result.get("task") else { return };
    let members = task.members().map(|(name, value)| (name.into_owned(), value.text()));
    let members: Vec<(String, String)> = members.filter(|(name, _)| name != "_meta").collect();
    result.remove("task");
    result.add_all(members);
    raise(result);
}

/// Converts a task of the extension for 2025-11-25. A tool call that ends with `isError` has completed in the
/// extension, but failed in 2025-11-25.
pub(super) fn lower(task: &mut Draft<'_>) {
    let is_error = task
        .get("result")
        .is_some_and(|result| result.get("isError").is_some_and(|is_error| is_error.is_literal("true")));
    if is_error && task.get("status").is_some_and(|status| status.is("completed")) {
        task.set("status", "\"failed\"");
    }
    for outcome in OUTCOME {
        task.remove(outcome);
    }
    task.rename("ttlMs", "ttl");
    task.rename("pollIntervalMs", "pollInterval");
}

/// Converts a task of 2025-11-25 for the extension. The caller adds the result, which it has to fetch.
pub(super) fn raise(task: &mut Draft<'_>) {
    task.rename("ttl", "ttlMs");
    task.rename("pollInterval", "pollIntervalMs");
}
