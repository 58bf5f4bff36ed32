//! Tasks of 2025-11-25 on the merged endpoint (`translation` section 5): a task of the backend `b1` is `b1.<id>` there,
//! wherever its id stands. `tasks/list` is not offered there: no cursor leads through several servers' lists of tasks.
//! Knows nothing of what tasks do.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    Gateway,
    catalog::About,
    paths::Paths,
    route::{self, Addressed},
};
use crate::{
    mcp::{
        Call, ErrorObject, Method, Payload, Reply,
        json::At::{self, Key},
    },
    model::BackendId,
};

/// The capability.
pub(crate) const CAPABILITY: &str = "tasks";

/// Where the parameters of `tasks/get`, `tasks/result` and `tasks/cancel` name their task.
const TASK_ID: &[At] = &[Key("taskId")];
/// Where any message names the task that it belongs to (2025-11-25, tasks, *Related Task Metadata*).
const RELATED: &[At] = &[Key("_meta"), Key("io.modelcontextprotocol/related-task"), Key("taskId")];
/// Where the result of a call names the task that it made.
const CREATED: &[At] = &[Key("task"), Key("taskId")];

/// The id of a task of `backend` on the merged endpoint.
pub(crate) fn exposed(backend: &BackendId, id: &str) -> String {
    format!("{backend}.{id}")
}

/// The backend's name, which holds no period, and its own id.
fn split(id: &str) -> Option<(&str, &str)> {
    id.split_once('.')
}

/// Where ids of tasks stand in the result of a request.
pub(crate) const fn in_result(method: &Method) -> Paths {
    match method {
        Method::ToolsCall => &[CREATED, RELATED],
        Method::TasksGet | Method::TasksCancel => &[TASK_ID, RELATED],
        _ => &[RELATED],
    }
}

/// Where ids of tasks stand in the parameters of what a backend tells or asks.
pub(crate) const fn from_server(method: &Method) -> Paths {
    match method {
        Method::TaskStatus => &[TASK_ID, RELATED],
        _ => &[RELATED],
    }
}

/// Whether the text can name a task at all: most messages name none, and are not parsed for it.
pub(crate) fn may_hold_tasks(payload: &Payload) -> bool {
    std::str::from_utf8(payload.json()).is_ok_and(|text| text.contains("taskId\"") || text.contains("\\u"))
}

/// `tasks/get`, `tasks/result` and `tasks/cancel`.
pub(crate) fn by_task(gateway: &Arc<Gateway>, call: Call) -> Reply {
    let found = call.params.find(TASK_ID);
    let Some(shown) = found.string(call.params.json()) else { return Reply::failed(route::missing("taskId")) };
    let set = gateway.set.load();
    let seen = split(&shown).and_then(|(backend, id)| Some((set.seen(&call.context.caller, backend)?, id)));
    match seen {
        Some((seen, id)) => Addressed { call, found }.send(&seen, id),
        None => Reply::failed(ErrorObject::invalid_params(&format!("Unknown task: {shown}"))),
    }
}

/// What of the capability can be kept towards clients, where any backend has it: calls of tools as tasks, and cancelling.
pub(crate) fn capability(given: &[&About]) -> Option<Value> {
    given.iter().any(|about| about.runs_tools_as_tasks()).then(|| {
        let mut kept = json!({ "requests": { "tools": { "call": {} } } });
        if given.iter().all(|about| !about.runs_tools_as_tasks() || about.cancels_tasks()) {
            kept["cancel"] = json!({});
        }
        kept
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_leads_to_the_same_task() {
        let backend = BackendId::parse("b1").unwrap();
        for id in ["786512e2", "a.b.c", "", "."] {
            assert_eq!(split(&exposed(&backend, id)), Some(("b1", id)));
        }
        assert_eq!(split("786512e2"), None);
    }
}
