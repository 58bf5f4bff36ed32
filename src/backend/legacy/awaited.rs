//! A tool that is called as a task (2025-11-25) for a client that has none (`translation` 3.5): made, waited for, and
//! cancelled with the call. Knows nothing of why it has to be a task.
//!
//! The client's one call is two requests at the server: `tools/call` makes the task, and `tasks/result` waits for it and
//! carries what is asked meanwhile. Progress goes on under the token of the first (2025-11-25, tasks); it comes aside.

use std::{sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt as _, future::Either, stream::BoxStream};
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, timeout},
};

use super::{Session, belongings::created_task, call::Asked};
use crate::{
    backend::transport::NotSent,
    mcp::{ClientInfo, ErrorObject, Event, Feature, Method, Outcome, Payload, Revision, translate::Profile},
    model::Requester,
};

/// The longest that a task is waited for which its server knows of. Tasks are made for what takes long.
const LONGEST: Duration = Duration::from_hours(24);
/// A wait that lasted this long may be begun again: a connection that carries nothing is cut by proxies, and a task
/// outlives it. What breaks off sooner is broken.
const WORTH_ANOTHER: Duration = Duration::from_secs(10);
/// How long it may take to make a task that nobody waits for any more, and to cancel it.
const FAREWELL: Duration = Duration::from_secs(10);
/// How many notifications wait for a slow reader; what comes beyond is dropped.
const QUEUE: usize = 256;

/// A call that runs as a task. Dropping it before its end cancels the task at the server.
struct Running {
    session: Arc<Session>,
    holder: Requester,
    stage: Stage,
}

/// How far it is.
enum Stage {
    /// The server is asked to make the task.
    Asked(BoxStream<'static, Result<Event, NotSent>>),
    /// The task is there.
    Made(Task),
    /// There is nothing to cancel.
    Over,
}

/// A task at a server, and the client session that it is for.
#[derive(Clone)]
struct Task {
    session: Arc<Session>,
    holder: Requester,
    id: String,
}

/// What a server says of a task.
struct Look {
    status: String,
    message: Option<String>,
}

// === impl Session ===

impl Session {
    /// Makes one call for a client. One that has no tasks cannot take one for an answer: where its call
    /// asks for a task, that task is waited for, and the reply is the reply of a plain call.
    pub(crate) fn call_for(
        self: &Arc<Self>,
        client: &ClientInfo,
        asked: Asked,
        patience: Duration,
    ) -> impl Stream<Item = Result<Event, NotSent>> + Send + use<> {
        let awaits = asked.method == Method::ToolsCall
            && !client.takes_tasks()
            && self.revision().has(Feature::CoreTasks)
            && asked.params.object().is_some_and(|params| params.get("task").is_some());
        if awaits {
            Either::Left(self.call_as_task(asked, patience).boxed())
        } else {
            Either::Right(self.call(asked, patience))
        }
    }

    /// Calls a tool as a task and waits for it. A server that stays silent for `patience` is asked how the task is; one
    /// that does not tell within another `patience` has lost it.
    fn call_as_task(
        self: &Arc<Self>,
        asked: Asked,
        patience: Duration,
    ) -> impl Stream<Item = Result<Event, NotSent>> + Send + use<> {
        let session = Arc::clone(self);
        async_stream::stream! {
            let (aside, mut told) = mpsc::channel(QUEUE);
            let mut running = Running::ask(session, Asked { aside: Some(aside), ..asked }, patience);
            let task = loop {
                let Some(event) = running.next().await else { return };
                if let Some(task) = running.made(&event) {
                    break task;
                }
                let more = matches!(event, Ok(Event::Notified(_) | Event::Asked(_)));
                yield event;
                if !more {
                    return;
                }
            };
            let sign = Notify::new();
            let mut overdue = std::pin::pin!(overdue(task.clone(), &sign, patience));
            let mut waited = task.request(&Method::TasksResult, LONGEST).boxed();
            let mut since = Instant::now();
            loop {
                let mut given_up = false;
                let event = tokio::select! {
                    biased;
                    Some(event) = told.recv() => Some(Ok(event)),
                    event = waited.next() => event,
                    error = &mut overdue => {
                        given_up = true;
                        Some(Ok(Event::Done(Outcome::Failed(error))))
                    }
                };
                sign.notify_one();
                match event {
                    Some(Ok(Event::Done(Outcome::Failed(error)))) if !given_up && task.broke_off(&error, since) => {
                        waited = task.request(&Method::TasksResult, LONGEST).boxed();
                        since = Instant::now();
                    }
                    Some(Ok(Event::Done(outcome))) => {
                        // what came before it in the same moment
                        while let Ok(event) = told.try_recv() {
                            if !tells_status(&event) {
                                yield Ok(event);
                            }
                        }
                        yield Ok(Event::Done(running.ended(&task, outcome).await));
                        return;
                    }
                    Some(Ok(event)) if tells_status(&event) => {}
                    Some(Ok(event)) => yield Ok(event),
                    // the session ended between the two requests: the task may have run, so it is not made again
                    Some(Err(NotSent(_))) | None => {
                        yield Ok(Event::Done(Outcome::Failed(task.session.lost_error())));
                        return;
                    }
                }
            }
        }
    }
}

// === impl Running ===

impl Running {
    fn ask(session: Arc<Session>, asked: Asked, patience: Duration) -> Self {
        let holder = asked.session.clone();
        let events = session.call(asked, patience).boxed();
        Self { session, holder, stage: Stage::Asked(events) }
    }

    /// What comes of the call that makes the task.
    async fn next(&mut self) -> Option<Result<Event, NotSent>> {
        match &mut self.stage {
            Stage::Asked(events) => events.next().await,
            Stage::Made(_) | Stage::Over => None,
        }
    }

    /// The task, where this event made it. Where the call ended without one, there is nothing to cancel.
    fn made(&mut self, event: &Result<Event, NotSent>) -> Option<Task> {
        if let Ok(Event::Notified(_) | Event::Asked(_)) = event {
            return None;
        }
        let (session, holder) = (Arc::clone(&self.session), self.holder.clone());
        let task = created(event).map(|id| Task { session, holder, id });
        self.stage = task.clone().map_or(Stage::Over, Stage::Made);
        task
    }

    /// What the outcome of `tasks/result` is for the client: what the call would have come to (2025-11-25, tasks). A
    /// server that cancelled the task by itself has nothing to give; that is a tool error, which a model can read.
    async fn ended(&mut self, task: &Task, outcome: Outcome) -> Outcome {
        if let Outcome::Failed(error) = &outcome {
            // an error of the gateway's own: it gives the task up
            if error.revision().is_none() {
                return outcome;
            }
            let look = Look::at(&task.outcome(&Method::TasksGet, FAREWELL).await);
            if let Some(look) = look.filter(|look| look.status == "cancelled") {
                self.stage = Stage::Over;
                return Outcome::Complete(look.cancelled(self.session.revision()));
            }
        }
        self.stage = Stage::Over;
        outcome
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        if matches!(stage, Stage::Over) || self.session.is_over() {
            return;
        }
        let (session, holder) = (Arc::clone(&self.session), self.holder.clone());
        self.session.about.tasks.spawn(async move {
            let farewell = async {
                // 2025-11-25 tasks: a call that makes a task is not cancelled, the task is
                let task = match stage {
                    Stage::Asked(mut events) => loop {
                        let Some(event) = events.next().await else { break None };
                        if let Some(id) = created(&event) {
                            break Some(Task { session, holder, id });
                        }
                    },
                    Stage::Made(task) => Some(task),
                    Stage::Over => None,
                };
                if let Some(task) = task {
                    task.outcome(&Method::TasksCancel, FAREWELL).await;
                }
            };
            let _ = timeout(FAREWELL, farewell).await;
        });
    }
}

// === impl Task ===

impl Task {
    /// A request about it.
    fn request(
        &self,
        method: &Method,
        patience: Duration,
    ) -> impl Stream<Item = Result<Event, NotSent>> + Send + use<> {
        let params = Payload::of(self.session.revision(), &serde_json::json!({ "taskId": self.id }));
        let (method, session, profile) = (method.clone(), self.holder.clone(), Profile::default());
        self.session.call(Asked { session, profile, ..Asked::of_gateway(method, params) }, patience)
    }

    /// Whether the connection alone ended, on which the result was waited for since then.
    fn broke_off(&self, error: &ErrorObject, since: Instant) -> bool {
        error.is_retryable() && !self.session.is_over() && since.elapsed() >= WORTH_ANOTHER
    }

    /// How such a request ends; what is told meanwhile goes by.
    async fn outcome(&self, method: &Method, patience: Duration) -> Outcome {
        let mut events = std::pin::pin!(self.request(method, patience));
        while let Some(event) = events.next().await {
            if let Ok(Event::Done(outcome)) = event {
                return outcome;
            }
        }
        Outcome::Failed(self.session.lost_error())
    }
}

// === impl Look ===

impl Look {
    fn at(outcome: &Outcome) -> Option<Self> {
        let Outcome::Complete(task) = outcome else { return None };
        let object = task.object()?;
        Some(Self { status: object.string("status")?, message: object.string("statusMessage") })
    }

    fn is_final(&self) -> bool {
        matches!(self.status.as_str(), "completed" | "failed" | "cancelled")
    }

    fn cancelled(self, revision: Revision) -> Payload {
        let reason = self.message.map(|message| format!(": {message}")).unwrap_or_default();
        let text = format!("The server cancelled the task that this call ran as{reason}");
        let result = serde_json::json!({ "content": [{ "type": "text", "text": text }], "isError": true });
        Payload::of(revision, &result)
    }
}

/// Ends when the server no longer works at the task, with the error of the call: it does not tell how the task is, or
/// says that the task is done and does not give its result.
async fn overdue(task: Task, sign: &Notify, patience: Duration) -> ErrorObject {
    let mut is_final = false;
    loop {
        if timeout(patience, sign.notified()).await.is_ok() {
            continue;
        }
        if is_final {
            let text = format!("Backend `{}` ended a task and did not give its result", task.session.about.backend);
            return ErrorObject::internal(&text);
        }
        match task.outcome(&Method::TasksGet, patience).await {
            Outcome::Failed(error) => return error,
            outcome => is_final = Look::at(&outcome).is_some_and(|look| look.is_final()),
        }
    }
}

/// The id of the task, where this is the end of the call that made it.
fn created(event: &Result<Event, NotSent>) -> Option<String> {
    match event {
        Ok(Event::Done(Outcome::Complete(result))) => created_task(result),
        _ => None,
    }
}

/// Whether it is how a task is, which the client knows nothing of.
const fn tells_status(event: &Event) -> bool {
    matches!(event, Event::Notified(told) if matches!(told.method, Method::TaskStatus))
}

#[cfg(test)]
mod tests;
