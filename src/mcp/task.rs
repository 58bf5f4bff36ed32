//! Reads tasks from messages: the `Task` of 2025-11-25 and the `DetailedTask` of the extension.

use std::{sync::LazyLock, time::Duration};

use bytes::Bytes;
use memchr::memmem::Finder;
use serde_json::value::RawValue;

use super::{
    Era, ErrorObject, Method, Payload, Revision,
    json::{self, Object},
    meta,
};
use crate::support::Timestamp;

/// The polling interval: default, minimum and maximum.
const POLL_INTERVAL: (Duration, Duration, Duration) =
    (Duration::from_secs(1), Duration::from_millis(50), Duration::from_mins(1));
/// Maximum number of input requests at once. The rest follow once these are answered.
const MAX_INPUT_REQUESTS: usize = 64;

/// A task of the extension, from a `CreateTaskResult` or a `DetailedTask`.
#[derive(Debug, Clone)]
pub(crate) struct DetailedTask {
    pub(crate) id: String,
    pub(crate) status: TaskStatus,
    /// Delay before the next poll.
    pub(crate) poll_interval: Duration,
    /// The whole object, verbatim.
    pub(crate) payload: Payload,
}

/// A task as reported by the call that created it, in either form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CreatedTask {
    pub(crate) id: String,
    /// The lifetime that the server gave it; `None` means unlimited.
    pub(crate) ttl: Option<Duration>,
    /// The status; `None` if it is unknown.
    pub(crate) status: Option<TaskStatus>,
}

/// The status of a task, with the same names in both forms (2025-11-25, tasks, *Task Status*; extension, *Task
/// Status*).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskStatus {
    Working,
    /// The task waits for answers to its requests.
    InputRequired,
    /// The task has its result.
    Completed,
    /// The task ended with a protocol error.
    Failed,
    Cancelled,
}

/// An entry in `inputRequests` of a task.
#[derive(Debug, Clone)]
pub(crate) struct InputRequest {
    /// The key of the entry, which its answer repeats.
    pub(crate) key: String,
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub(crate) method: Method,
    pub(crate) params: Payload,
}

// === impl TaskStatus ===

impl TaskStatus {
    /// The status with this name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "working" => Self::Working,
            "input_required" => Self::InputRequired,
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "cancelled" => Self::Cancelled,
            _ => return None,
        })
    }

    /// True if the status can no longer change.
    pub(crate) const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// The name in a message.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

// === impl CreatedTask ===

impl CreatedTask {
    /// Reads the result of a call that created a task; `None` if it created none.
    pub(crate) fn read(result: &Payload) -> Option<Self> {
        if !may_hold_task(result) {
            return None;
        }
        match result.revision.era() {
            Era::Legacy => Self::of(&Object::parse(result.member("task")?.as_bytes())?),
            Era::Modern => {
                Self::of(&result.object().filter(|_| result.string("resultType").as_deref() == Some("task"))?)
            }
        }
    }

    /// Reads a task that is not the result of a call: from a list, or from `tasks/get`.
    pub(crate) fn of(task: &Object<'_>) -> Option<Self> {
        let ttl = ["ttl", "ttlMs"].iter().find_map(|name| task.get(name)?.parse::<f64>().ok());
        let ttl = ttl.filter(|millis| millis.is_finite() && *millis >= 0.0);
        Some(Self {
            id: task.string("taskId")?,
            ttl: ttl.map(|millis| Duration::from_secs_f64((millis / 1000.0).min(1e9))),
            status: task.string("status").and_then(|name| TaskStatus::parse(&name)),
        })
    }

    /// True if the task has ended: its status can no longer change.
    pub(crate) fn has_ended(&self) -> bool {
        self.status.is_some_and(TaskStatus::is_final)
    }
}

// === impl DetailedTask ===

impl DetailedTask {
    /// Reads the result of `tasks/get`; `None` if it is not a task.
    pub(crate) fn read(payload: &Payload) -> Option<Self> {
        let object = payload.object()?;
        let poll_interval = poll_interval(object.get("pollIntervalMs")).unwrap_or(POLL_INTERVAL.0);
        Some(Self {
            id: object.string("taskId")?,
            status: TaskStatus::parse(&object.string("status")?)?,
            poll_interval: poll_interval.clamp(POLL_INTERVAL.1, POLL_INTERVAL.2),
            payload: payload.clone(),
        })
    }

    /// Reads the result of a call that created a task; `None` if it created none (extension, *Polymorphic Results*).
    pub(crate) fn created(result: &Payload) -> Option<Self> {
        let kind = if may_hold_task(result) { result.string("resultType") } else { None };
        if kind? == "task" { Self::read(result) } else { None }
    }

    /// The result of a completed task; `None` if it has none that is an object.
    pub(crate) fn result(&self) -> Option<Payload> {
        let result = self.member("result").filter(|text| text.starts_with('{'))?;
        Some(self.part(Bytes::from(result)))
    }

    /// The error of a failed task; `None` if it has none.
    pub(crate) fn error(&self) -> Option<ErrorObject> {
        Some(ErrorObject::read(self.member("error")?.into())?.written_in(self.payload.revision))
    }

    /// The server's status message.
    pub(crate) fn message(&self) -> Option<String> {
        self.payload.string("statusMessage")
    }

    /// The input requests of the task, 64 at most. Invalid ones are left out.
    pub(crate) fn input_requests(&self) -> Vec<InputRequest> {
        let Some(requests) = self.member("inputRequests") else { return Vec::new() };
        let Some(requests) = Object::parse(requests.as_bytes()) else { return Vec::new() };
        let read = |(key, text): (&str, &str)| {
            let request = Object::parse(text.as_bytes())?;
            let method = Method::parse(&request.string("method")?);
            let known = matches!(method, Method::Elicit | Method::CreateMessage | Method::RootsList);
            let params = request.get("params").unwrap_or_default();
            let is_valid = known && (params.is_empty() || params.starts_with('{'));
            is_valid.then(|| InputRequest { key: key.to_owned(), method, params: self.part(params.to_owned().into()) })
        };
        requests.iter().filter_map(read).take(MAX_INPUT_REQUESTS).collect()
    }

    /// The same task with the status `cancelled`, without result, error and input requests.
    pub(crate) fn cancelled(&self) -> Self {
        let mut payload = self.payload.with("status", "\"cancelled\"");
        for outcome in ["result", "error", "inputRequests"] {
            payload = payload.without(outcome);
        }
        Self { status: TaskStatus::Cancelled, payload, ..self.clone() }
    }

    fn member(&self, key: &str) -> Option<String> {
        self.payload.object()?.get(key).map(str::to_owned)
    }

    fn part(&self, json: Bytes) -> Payload {
        let part = Payload::new(self.payload.revision, json);
        match self.payload.origin() {
            Some(origin) => part.written_by(origin),
            None => part,
        }
    }
}

/// The task that a message outside of calls belongs to (2025-11-25, tasks, *Related Task Metadata*).
pub(crate) fn related_to(params: &Payload) -> Option<String> {
    let related = params.meta_member(meta::RELATED_TASK)?;
    Object::parse(related.as_bytes())?.string("taskId")
}

/// The tasks on a page of `tasks/list`, each with its text. An entry that is not a task is left out.
pub(crate) fn listed(page: &Payload) -> Vec<(CreatedTask, &str)> {
    let entries = page.member("tasks").and_then(|text| serde_json::from_str::<Vec<&RawValue>>(text).ok());
    let texts = entries.into_iter().flatten().map(RawValue::get);
    texts.filter_map(|text| Some((CreatedTask::of(&Object::parse(text.as_bytes())?)?, text))).collect()
}

/// The same page of `tasks/list` with these entries instead. Every other byte stays.
pub(crate) fn with_listed(page: &Payload, entries: &[&str]) -> Payload {
    page.with("tasks", &format!("[{}]", entries.join(",")))
}

/// The parameters of a request about the task with this id.
pub(crate) fn params(id: &str) -> Payload {
    Payload::of(Revision::NEWEST_LEGACY, &serde_json::json!({ "taskId": id }))
}

/// The id of the task that a call created, if any (2025-11-25, tasks).
pub(crate) fn created(result: &Payload) -> Option<String> {
    let task = if may_hold_task(result) { result.member("task") } else { None };
    json::unquote(json::member(task?.as_bytes(), "taskId")?)
}

/// Searches for `taskId`: true if the result may hold the id of a task, which few do.
fn may_hold_task(result: &Payload) -> bool {
    static ID: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("taskId"));
    json::may_hold(result.json(), &ID)
}

/// Creates a task of the extension with this status, created at this time. `ttl` is its lifetime; `None` means
/// unlimited.
pub(crate) fn extended(id: &str, status: TaskStatus, at: Timestamp, ttl: Option<Duration>) -> Payload {
    let ttl = ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
    let (status, at) = (status.as_str(), at.to_string());
    let task = serde_json::json!({ "resultType": "complete", "taskId": id, "status": status, "createdAt": at,
        "lastUpdatedAt": at, "ttlMs": ttl });
    Payload::of(Revision::V2026_07_28, &task)
}

/// Reads the polling interval, which a server gives in milliseconds; `None` if it is absent or not a valid number.
pub(crate) fn poll_interval(millis: Option<&str>) -> Option<Duration> {
    let millis = millis?.parse::<f64>().ok().filter(|millis| millis.is_finite() && *millis >= 0.0)?;
    Some(Duration::from_secs_f64((millis / 1000.0).min(1e6)))
}

/// The same payload, marked as belonging to this task (2025-11-25, tasks, *Related Task Metadata*).
pub(crate) fn related(payload: &Payload, id: &str) -> Payload {
    let held = payload.member(meta::META).map(str::to_owned);
    let held = Bytes::from(held.filter(|text| text.starts_with('{')).unwrap_or_else(|| "{}".to_owned()));
    let named = json::with_member(&held, meta::RELATED_TASK, &format!(r#"{{"taskId":{}}}"#, json::quote(id)));
    payload.with(meta::META, &String::from_utf8_lossy(&named))
}

/// True if a call failed because its client did not declare the extension (extension, *Capability Negotiation*).
pub(crate) fn demands_tasks(error: &ErrorObject) -> bool {
    error.code() == ErrorObject::MISSING_CAPABILITY
        && serde_json::from_slice::<serde_json::Value>(error.json())
            .is_ok_and(|error| error["data"]["requiredCapabilities"]["extensions"].get(meta::TASKS_EXTENSION).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static str) -> Option<DetailedTask> {
        DetailedTask::read(&Payload::new(Revision::V2026_07_28, Bytes::from_static(text.as_bytes())))
    }

    #[test]
    fn a_task_is_read_with_what_it_wants_to_know() {
        let detail = read(
            r#"{"taskId":"T","status":"input_required","pollIntervalMs":10,"inputRequests":{"a":{"method":"roots/list"},
            "b":{"method":"ping"},"c":{"method":"elicitation/create","params":{"message":"?"}},"d":1}}"#,
        )
        .unwrap();
        assert_eq!((detail.status, detail.poll_interval), (TaskStatus::InputRequired, POLL_INTERVAL.1));
        let keys: Vec<String> = detail.input_requests().into_iter().map(|request| request.key).collect();
        assert_eq!(keys, ["a", "c"]);
        assert!(read(r#"{"taskId":"T","status":"odd"}"#).is_none());
        assert_eq!(
            read(r#"{"taskId":"T","status":"working","pollIntervalMs":1e300}"#).unwrap().poll_interval,
            POLL_INTERVAL.2
        );
        assert_eq!(
            read(r#"{"taskId":"T","status":"working","pollIntervalMs":"x"}"#).unwrap().poll_interval,
            POLL_INTERVAL.0
        );
    }

    #[test]
    fn a_created_task_is_read_in_the_form_of_its_version() {
        let read = |revision: Revision, text: &'static str| {
            CreatedTask::read(&Payload::new(revision, Bytes::from_static(text.as_bytes())))
        };
        let core = read(Revision::V2025_11_25, r#"{"task":{"taskId":"T","status":"working","ttl":1500}}"#).unwrap();
        assert_eq!((core.ttl, core.has_ended()), (Some(Duration::from_millis(1_500)), false));
        let extended = r#"{"resultType":"task","taskId":"T","status":"completed","ttlMs":null}"#;
        let extended = read(Revision::V2026_07_28, extended).unwrap();
        assert_eq!((extended.id.as_str(), extended.ttl, extended.has_ended()), ("T", None, true));
        assert!(read(Revision::V2026_07_28, r#"{"resultType":"complete","taskId":"T"}"#).is_none());
        assert!(read(Revision::V2025_11_25, r#"{"structuredContent":{"task":{"taskId":"T"}}}"#).is_none());
    }

    #[test]
    fn what_belongs_to_a_task_says_so_beside_what_it_said() {
        let payload = Payload::new(Revision::V2026_07_28, Bytes::from_static(br#"{"content":[],"_meta":{"x/y":1}}"#));
        assert_eq!(
            related(&payload, "T").json(),
            r#"{"content":[],"_meta":{"x/y":1,"io.modelcontextprotocol/related-task":{"taskId":"T"}}}"#
        );
    }
}
