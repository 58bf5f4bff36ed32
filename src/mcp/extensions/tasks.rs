//! The tasks extension of 2026-07-28: the methods it does not share with the tasks of 2025-11-25, and its declaration.
//! The gateway declares it to all servers, and awaits tasks for clients without it (`crossing::tasks`, `translation`
//! 3.5).

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{
    super::{
        Feature, Revision,
        json::{self, Object, draft::Draft},
        meta,
        methods::{
            controls::{self, ControlMember},
            places,
            row::{MethodAccess, MethodRow, MethodSubject, UriPlaces},
        },
    },
    extension::Extension,
};

/// The tasks extension: servers may answer tool calls with a task.
pub(super) struct TasksExtension;

pub(in crate::mcp) const UPDATE: MethodRow = MethodRow {
    versions: VERSIONS,
    subject: Some(MethodSubject::Task),
    controls: UPDATE_CONTROLS,
    ..MethodRow::new("tasks/update", MethodAccess::OwnTask)
};

pub(in crate::mcp) const STATUS: MethodRow = MethodRow {
    versions: VERSIONS,
    uris: UriPlaces::Task,
    task_ids: places::TASK_ID_OR_RELATED,
    holds_input_requests: true,
    ..MethodRow::new("notifications/tasks", MethodAccess::OfServers)
};

const VERSIONS: (Revision, Revision) = (Revision::V2026_07_28, Revision::NEWEST);
const UPDATE_CONTROLS: &[ControlMember] =
    &[controls::one(meta::META), controls::one("taskId"), controls::one("inputResponses")];

/// The `tasks` capability of a server with the extension, for a client of 2025-11-25. Without `list`, since the
/// extension has no `tasks/list`.
const SHOWN_CORE_TASKS: &str = r#"{"cancel":{},"requests":{"tools":{"call":{}}}}"#;

/// Path in capabilities of 2025-11-25 that means that tools may run as tasks.
const RUNS_TOOLS: [&str; 4] = [meta::CORE_TASKS, "requests", "tools", "call"];

impl Extension for TasksExtension {
    fn id(&self) -> &'static str {
        meta::TASKS_EXTENSION
    }

    fn methods(&self) -> &'static [MethodRow] {
        &[UPDATE, STATUS]
    }

    /// The id of a task names its server, so one server with tasks is enough. The extension has no settings.
    fn merged(&self, _: &[Value]) -> Option<Value> {
        Some(json!({}))
    }

    /// The part of the `tasks` capability of 2025-11-25 that the gateway supports if a server has tasks in either form:
    /// tool calls as tasks, and cancellation. `tasks/list` is left out, because no cursor covers the lists of several
    /// servers.
    fn add_to_merged(&self, declared: &[Map<String, Value>], merged: &mut Map<String, Value>) {
        let member = |one: &Map<String, Value>, path: &[&str]| {
            let first = one.get(path[0])?;
            path[1..].iter().try_fold(first, |value, key| value.get(key)).cloned()
        };
        let extends = |one: &Map<String, Value>| member(one, &["extensions", meta::TASKS_EXTENSION]).is_some();
        let runs_tools = |one: &Map<String, Value>| member(one, &RUNS_TOOLS).is_some();
        let cancels = |one: &Map<String, Value>| extends(one) || member(one, &[meta::CORE_TASKS, "cancel"]).is_some();
        let mut with_tasks = declared.iter().filter(|one| runs_tools(one) || extends(one)).peekable();
        if with_tasks.peek().is_none() {
            return;
        }
        let mut tasks = json!({ "requests": { "tools": { "call": {} } } });
        if with_tasks.all(cancels) {
            tasks["cancel"] = json!({});
        }
        merged.insert(meta::CORE_TASKS.to_owned(), tasks);
    }

    /// Versions with their own tasks see those; no version with sessions has the extension.
    fn for_session(&self, capabilities: Bytes, revision: Revision) -> Bytes {
        let mut kept = capabilities;
        if !revision.has(Feature::CoreTasks) {
            kept = json::without_member(&kept, meta::CORE_TASKS);
        }
        let extensions = Object::parse(&kept).and_then(|object| object.get("extensions").map(str::to_owned));
        let Some(extensions) = extensions else { return kept };
        let is_extended =
            Object::parse(extensions.as_bytes()).is_some_and(|all| all.get(meta::TASKS_EXTENSION).is_some());
        if is_extended
            && revision.has(Feature::CoreTasks)
            && Object::parse(&kept).is_some_and(|all| all.get(meta::CORE_TASKS).is_none())
        {
            kept = json::with_member(&kept, meta::CORE_TASKS, SHOWN_CORE_TASKS);
        }
        let rest = json::without_member(&Bytes::from(extensions), meta::TASKS_EXTENSION);
        let nothing_left = Object::parse(&rest).is_none_or(|object| object.iter().next().is_none());
        if nothing_left {
            json::without_member(&kept, "extensions")
        } else {
            json::with_member(&kept, "extensions", &String::from_utf8_lossy(&rest))
        }
    }

    /// A server whose tools run as tasks of 2025-11-25 appears to have the extension.
    fn for_request(&self, capabilities: &mut Draft<'_>) {
        let declared = capabilities.text();
        let runs_tools =
            RUNS_TOOLS.into_iter().try_fold(&*declared, |text, part| json::member(text.as_bytes(), part)).is_some();
        capabilities.remove(meta::CORE_TASKS);
        if runs_tools && let Some(extensions) = capabilities.edit_object("extensions") {
            extensions.set(meta::TASKS_EXTENSION, "{}");
        }
    }

    fn is_of_gateway(&self) -> bool {
        true
    }
}
