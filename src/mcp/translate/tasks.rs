//! Tasks: the objects of 2025-11-25 and of the extension for 2026-07-28.

use super::{
    super::{Method, json::draft::Draft},
    facts::Kind,
};

/// Members of the extension that the task itself does not have.
const OUTCOME: &[&str] = &["result", "error", "inputRequests"];

/// True for a `CreateTaskResult` of 2025-11-25.
pub(super) fn is_created(result: &mut Draft<'_>) -> bool {
    result.get("task").is_some_and(|task| task.is_object()) && !result.has("content")
}

/// True if a payload is a task, or a notification of one.
pub(super) fn is_task(kind: Kind, method: &Method) -> bool {
    match kind {
        Kind::Result => matches!(method, Method::TasksGet | Method::TasksCancel),
        Kind::Notification | Kind::ClientNotification => matches!(method, Method::TaskStatus | Method::Tasks),
        _ => false,
    }
}

/// Turns the extension's flat result into the nested one of 2025-11-25.
pub(super) fn nest(result: &mut Draft<'_>) {
    lower(result);
    let mut task = result.clone();
    task.remove("_meta");
    result.retain_members(|name, _| name == "_meta");
    result.set("task", task.text());
}

/// The nested result of 2025-11-25 as the extension's flat one.
pub(super) fn flatten(result: &mut Draft<'_>) {
    let Some(task) = result.get("task") else { return };
    let members = task.members().map(|(name, value)| (name.into_owned(), value.text()));
    let members: Vec<(String, String)> = members.filter(|(name, _)| name != "_meta").collect();
    result.remove("task");
    result.add_all(members);
    raise(result);
}

/// A task of the extension in 2025-11-25. A tool that ended with `isError` has completed there and failed here.
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

/// Raises a task of 2025-11-25 to the extension. The caller adds its result, which has to be fetched.
pub(super) fn raise(task: &mut Draft<'_>) {
    task.rename("ttl", "ttlMs");
    task.rename("pollInterval", "pollIntervalMs");
}
