//! A tool that is called as a task (2025-11-25) for a client without tasks (`translation` 3.5): the task is created,
//! awaited, and cancelled with the call.
//!
//! One call of the client is two requests to the server: `tools/call` creates the task; `tasks/result` waits for it,
//! and carries its server requests. Progress uses the token of the first (2025-11-25, tasks), outside of calls.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use super::{progress::OwnToken, shared_tasks::SharedTasks, tool_modes::ToolMode};
use crate::mcp::{
    Call, CancelReason, Context, ErrorObject, Event, Method, Outcome, Payload, Reply, Revision, Server,
    large_messages::off_worker,
    listen,
    task::{self, TaskStatus},
    translate::Profile,
};

/// A wait of at least this length may be repeated: proxies cut idle connections, and a task outlives its connection. A
/// shorter wait that breaks off is a failure.
const MIN_WAIT: Duration = Duration::from_secs(10);
/// Maximum time to cancel an abandoned task, including its creation.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// A server whose tasks are awaited: a tool that runs only as a task is called as one, and the caller gets the reply of
/// a plain call.
#[derive(Clone)]
pub(crate) struct AwaitedTasks {
    inner: Arc<dyn Server>,
    shared: Arc<SharedTasks>,
    runs_tools: bool,
}

/// A call that runs as a task. Dropping it early cancels the task.
struct RunningTask {
    inner: Arc<dyn Server>,
    shared: Arc<SharedTasks>,
    context: Context,
    stage: Stage,
}

/// Progress of such a call.
enum Stage {
    /// The server creates the task.
    Called(Reply),
    Made(Task),
    /// Nothing is left to cancel.
    Over,
}

/// A task, and the client that it was created for.
#[derive(Clone)]
struct Task {
    inner: Arc<dyn Server>,
    context: Context,
    id: String,
}

/// The relevant members of the answer to `tasks/get`.
struct ReportedStatus {
    revision: Revision,
    status: TaskStatus,
    message: Option<String>,
}

// === impl AwaitedTasks ===

impl AwaitedTasks {
    /// Awaits the tasks of `inner`.
    pub(super) fn new(inner: Arc<dyn Server>, shared: Arc<SharedTasks>, runs_tools: bool) -> Self {
        Self { inner, shared, runs_tools }
    }

    /// Calls a tool that no list has named yet.
    async fn call_unlisted(self, name: String, call: Call) -> Reply {
        let mode = self.shared.tools.mode(&name, &*self.inner, &call.context).await;
        off_worker(call.params.json().len()).await;
        self.call_in(mode, call)
    }

    fn call_in(&self, mode: ToolMode, call: Call) -> Reply {
        match mode {
            ToolMode::Required => self.call_as_task(Call { params: call.params.with("task", "{}"), ..call }),
            ToolMode::Optional | ToolMode::Forbidden => self.inner.call(call),
        }
    }

    /// Calls a tool as a task, and awaits it.
    fn call_as_task(&self, call: Call) -> Reply {
        let (inner, shared) = (Arc::clone(&self.inner), Arc::clone(&self.shared));
        Reply::new(async_stream::stream! {
            let (token, params) = OwnToken::replace(&call.params);
            let mut told = listen_for_tasks(&*inner, &call.context).await;
            let mut running = RunningTask::call(inner, shared, Call { params, ..call });
            let task = loop {
                let Some(event) = running.next().await else { return };
                if let Some(task) = running.made(&event) {
                    break task;
                }
                let is_last = matches!(event, Event::Done(_));
                yield token.restore(event);
                if is_last {
                    return;
                }
            };
            let sign = Notify::new();
            let shared = Arc::clone(&running.shared);
            let mut overdue = std::pin::pin!(overdue(&task, &sign, &shared));
            let mut waited = task.request(Method::TasksResult);
            let mut since = Instant::now();
            loop {
                let mut given_up = false;
                let event = tokio::select! {
                    biased;
                    Some(event) = told.next_event() => match task.own(event, &token) {
                        Some(event) => event,
                        None => continue,
                    },
                    event = waited.next_event() => event.unwrap_or_else(unanswered),
                    error = &mut overdue => {
                        given_up = true;
                        Event::Done(Outcome::Failed(error))
                    }
                };
                sign.notify_one();
                match event {
                    Event::Done(Outcome::Failed(error))
                        if !given_up && error.may_pass() && since.elapsed() >= MIN_WAIT =>
                    {
                        waited = task.request(Method::TasksResult);
                        since = Instant::now();
                    }
                    Event::Done(outcome) => {
                        for event in task.pending_notifications(&mut told, &token) {
                            yield event;
                        }
                        yield Event::Done(running.ended(&task, outcome).await);
                        return;
                    }
                    event if is_status(&event) => {}
                    event => yield token.restore(event),
                }
            }
        })
    }
}

impl Server for AwaitedTasks {
    fn call(&self, call: Call) -> Reply {
        if call.method != Method::ToolsCall {
            return self.inner.call(call);
        }
        if call.params.member("task").is_some() {
            return self.call_as_task(call);
        }
        let Some(name) = call.params.string("name").filter(|_| self.runs_tools) else { return self.inner.call(call) };
        match self.shared.tools.known(&name) {
            Some(mode) => self.call_in(mode, call),
            None => Reply::later(self.clone().call_unlisted(name, call)),
        }
    }
}

/// Listens for notifications about this client's tasks.
async fn listen_for_tasks(inner: &dyn Server, context: &Context) -> Reply {
    let params = listen::for_methods(&[Method::Progress, Method::TaskStatus]);
    let mut told = inner.call(Call { method: Method::Listen, params, context: context.clone() });
    // the acknowledgement
    told.next_event().await;
    told
}

// === impl RunningTask ===

impl RunningTask {
    fn call(inner: Arc<dyn Server>, shared: Arc<SharedTasks>, call: Call) -> Self {
        let context = call.context.clone();
        let stage = Stage::Called(inner.call(call));
        Self { inner, shared, context, stage }
    }

    /// The next event of the call that creates the task.
    async fn next(&mut self) -> Option<Event> {
        match &mut self.stage {
            Stage::Called(reply) => reply.next_event().await,
            Stage::Made(_) | Stage::Over => None,
        }
    }

    /// The task, if this event reports its creation. A call that ended without one has nothing to cancel.
    fn made(&mut self, event: &Event) -> Option<Task> {
        let Event::Done(outcome) = event else { return None };
        let (inner, context) = (Arc::clone(&self.inner), self.context.clone());
        let task = created(outcome).map(|id| Task::new(inner, context, id));
        self.stage = task.clone().map_or(Stage::Over, Stage::Made);
        task
    }

    /// The client's outcome for an outcome of `tasks/result`: that of the plain call (2025-11-25, tasks). A task that
    /// the server cancelled becomes a tool error, which a model can read.
    async fn ended(&mut self, task: &Task, outcome: Outcome) -> Outcome {
        if let Outcome::Failed(error) = &outcome {
            // an error of the gateway: abandons the task
            if error.revision().is_none() {
                return outcome;
            }
            let status = timeout(CANCEL_TIMEOUT, task.request(Method::TasksGet).outcome()).await;
            let state = status.ok().and_then(|outcome| ReportedStatus::read(&outcome));
            if let Some(state) = state.filter(|state| state.status == TaskStatus::Cancelled) {
                self.stage = Stage::Over;
                return Outcome::Complete(state.cancelled());
            }
        }
        self.stage = Stage::Over;
        outcome
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        if matches!(stage, Stage::Over) {
            return;
        }
        let (inner, context) = (Arc::clone(&self.inner), self.context.clone());
        let cancelled = async move {
            // 2025-11-25 tasks: the task is cancelled, not the call that created it
            let task = match stage {
                Stage::Called(reply) => created(&reply.outcome().await).map(|id| Task::new(inner, context, id)),
                Stage::Made(task) => Some(task),
                Stage::Over => None,
            };
            if let Some(task) = task {
                task.request(Method::TasksCancel).outcome().await;
            }
        };
        (self.shared.spawn)(timeout(CANCEL_TIMEOUT, cancelled).map(drop).boxed());
    }
}

// === impl Task ===

impl Task {
    fn new(inner: Arc<dyn Server>, context: Context, id: String) -> Self {
        let (profile, cancel_reason) = (Profile::default(), CancelReason::default());
        Self { inner, context: Context { mirror: None, profile, cancel_reason, ..context }, id }
    }

    /// A request about the task.
    fn request(&self, method: Method) -> Reply {
        self.inner.call(Call { method, params: task::params(&self.id), context: self.context.clone() })
    }

    /// Notifications that arrived together with the end, except the status.
    fn pending_notifications(&self, told: &mut Reply, token: &OwnToken) -> Vec<Event> {
        let now = std::iter::from_fn(|| told.next_event().now_or_never().flatten());
        let own = now.filter_map(|event| self.own(event, token)).filter(|event| !is_status(event));
        own.map(|event| token.restore(event)).collect()
    }

    /// The event, if it belongs to this task.
    fn own(&self, event: Event, token: &OwnToken) -> Option<Event> {
        let is_own = match &event {
            Event::Notified(told) if told.method == Method::TaskStatus => {
                told.params.string("taskId").is_some_and(|id| id == self.id)
            }
            event => token.is_of(event),
        };
        is_own.then_some(event)
    }
}

// === impl ReportedStatus ===

impl ReportedStatus {
    fn read(outcome: &Outcome) -> Option<Self> {
        let Outcome::Complete(task) = outcome else { return None };
        let object = task.object()?;
        let (status, message) = (TaskStatus::parse(&object.string("status")?)?, object.string("statusMessage"));
        Some(Self { revision: task.revision, status, message })
    }

    fn cancelled(self) -> Payload {
        let reason = self.message.map(|message| format!(": {message}")).unwrap_or_default();
        let text = format!("The server cancelled the task that this call ran as{reason}");
        let result = serde_json::json!({ "content": [{ "type": "text", "text": text }], "isError": true });
        Payload::of(self.revision, &result)
    }
}

/// Completes if the server no longer works on the task, with the error of the call: the task showed no activity for
/// `call_timeout`, and `tasks/get` fails, or reports an end without a result.
async fn overdue(task: &Task, sign: &Notify, shared: &SharedTasks) -> ErrorObject {
    let mut is_final = false;
    loop {
        if timeout(shared.call_timeout, sign.notified()).await.is_ok() {
            continue;
        }
        if is_final {
            return ErrorObject::internal(&format!(
                "Server `{}` ended a task and did not give its result",
                shared.origin.backend()
            ));
        }
        match task.request(Method::TasksGet).outcome().await {
            Outcome::Failed(error) => return error,
            outcome => is_final = ReportedStatus::read(&outcome).is_some_and(|state| state.status.is_final()),
        }
    }
}

/// The id of the task that a call created, if any.
fn created(outcome: &Outcome) -> Option<String> {
    let Outcome::Complete(result) = outcome else { return None };
    task::created(result)
}

fn unanswered() -> Event {
    Event::Done(Outcome::Failed(ErrorObject::internal("the call ended without an answer")))
}

/// True for a status notification of a task, which the client does not know.
const fn is_status(event: &Event) -> bool {
    matches!(event, Event::Notified(told) if matches!(told.method, Method::TaskStatus))
}

#[cfg(test)]
mod tests;
