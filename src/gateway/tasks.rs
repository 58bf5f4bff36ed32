//! Tasks on the merged endpoint, those of 2025-11-25 and those of the extension (`translation` section 5): a task of the
//! backend `b1` is `b1.<id>` there, wherever its id stands. `tasks/list` is not offered there: no cursor leads through several servers' lists of tasks.
//! Knows nothing of what tasks do.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    Gateway,
    catalog::{About, Kind, List},
    discover,
    gather::Given,
    paths::Paths,
    route::{self, Addressed},
    set::Seen,
};
use crate::{
    mcp::{
        Call, Context, ErrorObject, Feature, Method, Payload, Reply,
        json::{
            self,
            At::{self, Key},
        },
        listen::{self, TASK_IDS},
        meta,
    },
    model::BackendId,
};

/// The capability.
pub(crate) const CAPABILITY: &str = "tasks";

/// Where the parameters of the requests about a task name it.
const TASK_ID: &[At] = &[Key("taskId")];
/// Where any message names the task that it belongs to (2025-11-25, tasks, *Related Task Metadata*).
const RELATED: &[At] = &[Key("_meta"), Key(meta::RELATED_TASK), Key("taskId")];
/// Where a listen, or its acknowledgement, names tasks (tasks extension, *Task Status Notifications*).
const LISTENED: &[At] = &[Key("notifications"), Key(TASK_IDS), At::Each];
/// Where the result of a call names the task that it made (2025-11-25).
const CREATED: &[At] = &[Key("task"), Key("taskId")];

/// How a tool says that it can be called as a task, and need not (2025-11-25, tools).
const OPTIONAL: &str = r#"{"taskSupport":"optional"}"#;

/// The id of a task of `backend` on the merged endpoint.
pub(crate) fn exposed(backend: &BackendId, id: &str) -> String {
    format!("{backend}.{id}")
}

/// The backend's name, which holds no period, and its own id.
fn split(id: &str) -> Option<(&str, &str)> {
    id.split_once('.')
}

/// Where ids of tasks stand in this result of a request. A tool may have a `taskId` of its own that means something else.
pub(crate) fn in_result(method: &Method, result: &Payload) -> Paths {
    match method {
        Method::ToolsCall if result.string("resultType").as_deref() == Some("task") => &[TASK_ID, RELATED],
        Method::ToolsCall => &[CREATED, RELATED],
        Method::TasksGet | Method::TasksCancel => &[TASK_ID, RELATED],
        _ => &[RELATED],
    }
}

/// Where ids of tasks stand in the parameters of what a backend tells or asks.
pub(crate) const fn from_server(method: &Method) -> Paths {
    match method {
        Method::TaskStatus | Method::Tasks => &[TASK_ID, RELATED],
        Method::SubscriptionsAcknowledged => &[LISTENED],
        _ => &[RELATED],
    }
}

/// Whether the text can name a task at all: most messages name none, and are not parsed for it.
pub(crate) fn may_hold_tasks(payload: &Payload) -> bool {
    let names = ["taskId\"", "taskIds\"", "\\u"];
    std::str::from_utf8(payload.json()).is_ok_and(|text| names.iter().any(|name| text.contains(name)))
}

/// The part of the parameters of a listen on the merged endpoint that is for `backend`: its own tasks.
pub(crate) fn listened(params: &Payload, backend: &BackendId) -> Payload {
    let own: Vec<String> = listen::task_ids(params)
        .iter()
        .filter_map(|shown| split(shown))
        .filter(|(of, _)| *of == backend.as_str())
        .map(|(_, id)| id.to_owned())
        .collect();
    listen::for_tasks(&own)
}

/// `tasks/get`, `tasks/result`, `tasks/cancel` and `tasks/update`.
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
    let has_tasks = |about: &About| about.runs_tools_as_tasks() || about.extends_tasks();
    given.iter().any(|about| has_tasks(about)).then(|| {
        let mut kept = json!({ "requests": { "tools": { "call": {} } } });
        if given.iter().all(|about| !has_tasks(about) || about.cancels_tasks()) {
            kept["cancel"] = json!({});
        }
        kept
    })
}

/// Whose tools are to say that they can be called as tasks: without that word a client of 2025-11-25 must not do so, and
/// the extension of 2026-07-28, where the server decides, has no such word.
pub(crate) async fn takers(seen: &[Seen], given: &[Given<List>], kind: Kind, context: &Context) -> Vec<bool> {
    let mut takers = vec![false; seen.len()];
    if kind != Kind::Tools || !context.client.revision.has(Feature::CoreTasks) {
        return takers;
    }
    for ((taker, one), list) in takers.iter_mut().zip(seen).zip(given) {
        // whose tools were listed has said before what it is
        *taker = list.is_ok() && discover::about(one, context).await.is_ok_and(|about| about.extends_tasks());
    }
    takers
}

/// A tool that says that it can be called as a task.
pub(crate) fn taking(tool: &Bytes) -> Bytes {
    json::with_member(tool, "execution", OPTIONAL)
}

/// A list of such tools.
pub(crate) fn taking_all(tools: &Payload) -> Payload {
    let taking = |tool: &str| String::from_utf8(taking(&Bytes::copy_from_slice(tool.as_bytes())).into()).ok();
    tools.rewrite(&[&[Key("tools"), At::Each]], taking)
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
