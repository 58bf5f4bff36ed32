//! A task as a server with the tasks extension tells of it. Knows nothing of who asks.

use std::time::Duration;

use bytes::Bytes;

use crate::mcp::{
    ErrorObject, Method, Payload, Revision,
    json::{self, Object},
    meta,
};

/// How often a server is asked how a task is: where it does not say, at most, and at least.
const INTERVAL: (Duration, Duration, Duration) =
    (Duration::from_secs(1), Duration::from_millis(50), Duration::from_mins(1));
/// How many questions are taken at once; the others are asked when these are answered.
const MOST_QUESTIONS: usize = 64;

/// What a server told of a task: a `CreateTaskResult`, or a `DetailedTask`.
#[derive(Debug, Clone)]
pub(crate) struct Detail {
    /// Its id.
    pub(crate) id: String,
    /// How it is.
    pub(crate) status: Status,
    /// How long to wait before it is asked for again.
    pub(crate) interval: Duration,
    /// All of it, as it was written.
    pub(crate) payload: Payload,
}

/// How a task is (extension, *Task Status*).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// It goes on.
    Working,
    /// It waits for answers.
    InputRequired,
    /// It has its result.
    Completed,
    /// It ended with an error of the protocol.
    Failed,
    /// It was given up.
    Cancelled,
}

/// Something that a task wants to know.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// What the server calls it.
    pub(crate) key: String,
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub(crate) method: Method,
    /// Its parameters.
    pub(crate) params: Payload,
}

// === impl Status ===

impl Status {
    /// The status of this name.
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

    /// Whether nothing comes after it.
    pub(crate) const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// The name on the wire.
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

// === impl Detail ===

impl Detail {
    /// Reads what `tasks/get` gave; `None` where it is no task.
    pub(crate) fn read(payload: &Payload) -> Option<Self> {
        let object = payload.object()?;
        let millis = object.get("pollIntervalMs").and_then(|text| text.parse::<f64>().ok());
        let interval = millis.filter(|millis| millis.is_finite() && *millis >= 0.0);
        let interval = interval.map_or(INTERVAL.0, |millis| Duration::from_secs_f64((millis / 1000.0).min(1e6)));
        Some(Self {
            id: object.string("taskId")?,
            status: Status::parse(&object.string("status")?)?,
            interval: interval.clamp(INTERVAL.1, INTERVAL.2),
            payload: payload.clone(),
        })
    }

    /// Reads the result of a call that made a task; `None` where it made none (extension, *Polymorphic Results*).
    pub(crate) fn created(result: &Payload) -> Option<Self> {
        let kind = result.string("resultType")?;
        if kind == "task" { Self::read(result) } else { None }
    }

    /// What the task came to.
    pub(crate) fn result(&self) -> Option<Payload> {
        let result = self.member("result").filter(|text| text.starts_with('{'))?;
        Some(self.part(Bytes::from(result)))
    }

    /// The error that it ended with.
    pub(crate) fn error(&self) -> Option<ErrorObject> {
        Some(ErrorObject::read(self.member("error")?.into())?.written_in(self.payload.revision))
    }

    /// What the server says of it in words.
    pub(crate) fn message(&self) -> Option<String> {
        self.payload.string("statusMessage")
    }

    /// What it wants to know; what is no question is left out.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let Some(requests) = self.member("inputRequests") else { return Vec::new() };
        let Some(requests) = Object::parse(requests.as_bytes()) else { return Vec::new() };
        let read = |(key, text): (&str, &str)| {
            let request = Object::parse(text.as_bytes())?;
            let method = Method::parse(&request.string("method")?);
            let known = matches!(method, Method::Elicit | Method::CreateMessage | Method::RootsList);
            let params = request.get("params").unwrap_or_default().to_owned();
            known.then(|| Request { key: key.to_owned(), method, params: self.part(params.into()) })
        };
        requests.iter().filter_map(read).take(MOST_QUESTIONS).collect()
    }

    /// The same task, given up.
    pub(crate) fn cancelled(&self) -> Self {
        let mut payload = self.payload.with("status", "\"cancelled\"");
        for outcome in ["result", "error", "inputRequests"] {
            payload = payload.without(outcome);
        }
        Self { status: Status::Cancelled, payload, ..self.clone() }
    }

    fn member(&self, key: &str) -> Option<String> {
        self.payload.object()?.get(key).map(str::to_owned)
    }

    fn part(&self, json: Bytes) -> Payload {
        let part = Payload::new(Revision::V2026_07_28, json);
        match self.payload.origin() {
            Some(backend) => part.of_backend(backend),
            None => part,
        }
    }
}

/// The same payload, said to belong to this task (2025-11-25, tasks, *Related Task Metadata*).
pub(crate) fn related(payload: &Payload, id: &str) -> Payload {
    let held = payload.object().and_then(|object| object.get(meta::META).map(str::to_owned));
    let held = Bytes::from(held.filter(|text| text.starts_with('{')).unwrap_or_else(|| "{}".to_owned()));
    let named = json::with_member(&held, meta::RELATED_TASK, &format!(r#"{{"taskId":{}}}"#, json::quote(id)));
    payload.with(meta::META, &String::from_utf8_lossy(&named))
}

/// Whether a call failed because its client did not declare the extension (extension, *Capability Negotiation*).
pub(crate) fn demands_tasks(error: &ErrorObject) -> bool {
    error.code() == ErrorObject::MISSING_CAPABILITY
        && serde_json::from_slice::<serde_json::Value>(error.json())
            .is_ok_and(|error| error["data"]["requiredCapabilities"]["extensions"].get(meta::TASKS_EXTENSION).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static str) -> Option<Detail> {
        Detail::read(&Payload::new(Revision::V2026_07_28, Bytes::from_static(text.as_bytes())))
    }

    #[test]
    fn a_task_is_read_with_what_it_wants_to_know() {
        let detail = read(
            r#"{"taskId":"T","status":"input_required","pollIntervalMs":10,"inputRequests":{"a":{"method":"roots/list"},
            "b":{"method":"ping"},"c":{"method":"elicitation/create","params":{"message":"?"}},"d":1}}"#,
        )
        .unwrap();
        assert_eq!((detail.status, detail.interval), (Status::InputRequired, INTERVAL.1));
        let keys: Vec<String> = detail.requests().into_iter().map(|request| request.key).collect();
        assert_eq!(keys, ["a", "c"]);
        assert!(read(r#"{"taskId":"T","status":"odd"}"#).is_none());
        assert_eq!(read(r#"{"taskId":"T","status":"working","pollIntervalMs":1e300}"#).unwrap().interval, INTERVAL.2);
        assert_eq!(read(r#"{"taskId":"T","status":"working","pollIntervalMs":"x"}"#).unwrap().interval, INTERVAL.0);
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
