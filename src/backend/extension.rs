//! Tasks of clients with sessions at servers of 2026-07-28 (`translation` 3.5): those clients have the feature of
//! 2025-11-25, or none, and the server has the extension. Shapes are carried by the steps of `translate`; here is what one
//! side has and the other has not.
//!
//! A call that asks for a task declares the extension. Where the server answers it at once nevertheless, the answer is
//! kept as a task that is done. A call that asks for none declares nothing, so that a server makes none; one that can
//! do no other says so, is called again with the extension declared, and its task is waited for.

pub(crate) mod detail;
pub(crate) mod ledger;
mod told;
mod wait;

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use serde_json::json;
use tokio::time::timeout;

use self::{
    detail::{Detail, demands_tasks},
    wait::{End, Known, Turn, Wait},
};
use super::{key::Key, served::Backend};
use crate::{
    mcp::{
        Call, Context, Era, ErrorObject, Event, Feature, Method, Outcome, Payload, Reply, Revision, json,
        translate::Profile,
    },
    support::Timestamp,
};

/// How long what the gateway answers for a task itself is kept: at least, where the client does not say, and at most.
const KEPT: (Duration, Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5), Duration::from_hours(1));
/// How long it may take to cancel a task that nobody waits for any more.
const FAREWELL: Duration = Duration::from_secs(10);

/// A task that a call waits for. Dropping it before its end cancels the task.
struct Running {
    backend: Arc<Backend>,
    context: Context,
    id: String,
    is_over: bool,
}

/// Whether a call may have to do with tasks in a way that the server's version does not know.
pub(super) fn concerns(call: &Call) -> bool {
    call.context.client.revision.era() == Era::Legacy
        && (call.method == Method::ToolsCall || call.method.is_of_core_tasks())
}

/// The parameters of a request about a task.
pub(super) fn about(id: &str) -> Payload {
    Payload::of(Revision::NEWEST_LEGACY, &json!({ "taskId": id }))
}

fn unknown(id: &str) -> Reply {
    Reply::failed(ErrorObject::invalid_params(&format!("Unknown task: {id}")))
}

// === impl Backend ===

impl Backend {
    /// Serves a call of a tool, or one about a task.
    pub(super) fn serve_tasks(self: Arc<Self>, call: Call) -> Reply {
        if call.method == Method::ToolsCall { self.call_tool(call) } else { Reply::later(self.serve_task(call)) }
    }

    async fn serve_task(self: Arc<Self>, call: Call) -> Reply {
        let Call { method, params, context } = call;
        match self.bridges_tasks(&context).await {
            Ok(true) if method != Method::TasksList => {}
            Ok(_) => return Reply::failed(ErrorObject::method_not_found(method.as_str())),
            Err(error) => return Reply::failed(error),
        }
        let Some(id) = params.string("taskId") else {
            return Reply::failed(ErrorObject::invalid_params("Invalid params: `taskId` is missing"));
        };
        // 2025-11-25 tasks, *Security*: a task of another is as if it did not exist
        if self.ledger.is_of_another(&id, &context.requester) {
            return unknown(&id);
        }
        match method {
            Method::TasksGet => Reply::done(match self.task(&id, &context).await {
                Ok(detail) => Outcome::Complete(detail.payload),
                Err(error) => Outcome::Failed(error),
            }),
            Method::TasksCancel => Reply::done(self.cancel_task(&id, &context).await),
            _ => self.wait_for_task(id, context),
        }
    }

    /// Whether this client has tasks of 2025-11-25, and the server has them of the extension.
    async fn bridges_tasks(self: &Arc<Self>, context: &Context) -> Result<bool, ErrorObject> {
        if !context.client.revision.has(Feature::CoreTasks) {
            return Ok(false);
        }
        let key = Key::of_modern(&self.spec, context);
        let (_lease, peer) = self.peer(&key, context).await.map_err(|missed| self.missed_error(missed))?;
        Ok(peer.introduction().is_some_and(|introduction| introduction.has_tasks()))
    }

    /// How a task is.
    async fn task(self: &Arc<Self>, id: &str, context: &Context) -> Result<Detail, ErrorObject> {
        if let Some(kept) = self.ledger.kept(id, self.room.clock.now()) {
            return Ok(kept);
        }
        match self.ask_about(Method::TasksGet, about(id), context).await {
            Outcome::Complete(told) => {
                let detail = Detail::read(&told).filter(|detail| detail.id == id).ok_or_else(|| {
                    ErrorObject::internal("the server was asked how a task is, and told of something else")
                })?;
                self.ledger.note(id, &context.requester);
                if detail.status.is_final() {
                    self.leave_task(id, context);
                }
                Ok(detail)
            }
            Outcome::Failed(error) => Err(error),
            Outcome::InputRequired(_) => Err(ErrorObject::internal("the server asks for input where it may not")),
        }
    }

    /// `tasks/cancel`. In 2025-11-25 a task is cancelled when the answer says so, whatever becomes of the work.
    async fn cancel_task(self: &Arc<Self>, id: &str, context: &Context) -> Outcome {
        let is_over = |detail: &Detail| {
            let text = format!("Cannot cancel task: already in terminal status '{}'", detail.status.as_str());
            Outcome::Failed(ErrorObject::invalid_params(&text))
        };
        let now = self.room.clock.now();
        if let Some(kept) = self.ledger.kept(id, now) {
            return is_over(&kept);
        }
        if let Outcome::Failed(error) = self.ask_about(Method::TasksCancel, about(id), context).await {
            return Outcome::Failed(error);
        }
        let detail = match self.task(id, context).await {
            Ok(detail) if detail.status.is_final() && detail.status != detail::Status::Cancelled => {
                return is_over(&detail);
            }
            Ok(detail) => detail,
            // a server may forget what was cancelled
            Err(_) => match Detail::read(&made(id, "cancelled", now, Duration::ZERO)) {
                Some(detail) => detail,
                None => return Outcome::Failed(ErrorObject::internal("the task could not be cancelled")),
            },
        };
        let cancelled = detail.cancelled();
        self.leave_task(id, context);
        self.ledger.keep(&context.requester, cancelled.clone(), now + KEPT.2);
        Outcome::Complete(cancelled.payload)
    }

    /// `tasks/result`.
    fn wait_for_task(self: Arc<Self>, id: String, context: Context) -> Reply {
        let wait = Wait { backend: self, context, id: id.clone(), known: Known::ToClient };
        Reply::new(wait.turns(Duration::ZERO).map(move |turn| match turn {
            Turn::Event(event) => event,
            Turn::Ended(end) => Event::Done(end.of_request(&id)),
        }))
    }

    /// `tools/call`.
    fn call_tool(self: Arc<Self>, call: Call) -> Reply {
        Reply::new(async_stream::stream! {
            let wanted = match self.wanted(&call).await {
                Ok(wanted) => wanted,
                Err(error) => {
                    yield Event::Done(Outcome::Failed(error));
                    return;
                }
            };
            let Call { method, params, context } = call;
            let params = if wanted.is_none() { without_task(params) } else { params };
            let call = Call { method, params, context };
            let mut reply = Arc::clone(&self).ask(call.clone());
            let mut is_first = true;
            let task = loop {
                match reply.next_event().await {
                    Some(Event::Done(Outcome::Failed(error)))
                        if wanted.is_none() && std::mem::take(&mut is_first) && demands_tasks(&error) =>
                    {
                        let params = call.params.with("task", "{}");
                        reply = Arc::clone(&self).ask(Call { params, ..call.clone() });
                    }
                    Some(Event::Done(Outcome::Complete(result))) => match (Detail::created(&result), wanted) {
                        (Some(task), None) => break task,
                        (task, wanted) => {
                            yield Event::Done(Outcome::Complete(self.made_or_kept(task, result, wanted, &call.context)));
                            return;
                        }
                    },
                    Some(event) => yield event,
                    None => return,
                }
            };
            drop(reply);
            for await event in self.await_task(&task, call.context) {
                yield event;
            }
        })
    }

    /// For how long a call asks a task to be kept; `None` where it asks for none, or can have none.
    async fn wanted(self: &Arc<Self>, call: &Call) -> Result<Option<Duration>, ErrorObject> {
        let Some(task) = call.params.object().and_then(|params| params.get("task").map(str::to_owned)) else {
            return Ok(None);
        };
        if !self.bridges_tasks(&call.context).await? {
            return Ok(None);
        }
        let ttl = json::Object::parse(task.as_bytes()).and_then(|task| task.get("ttl")?.parse::<u64>().ok());
        Ok(Some(ttl.map_or(KEPT.1, Duration::from_millis).clamp(KEPT.0, KEPT.2)))
    }

    /// The result of a call that asked for a task, or for none: the answer that came in the place of a task is kept as
    /// one.
    fn made_or_kept(
        &self,
        task: Option<Detail>,
        result: Payload,
        wanted: Option<Duration>,
        context: &Context,
    ) -> Payload {
        let holder = context.requester.clone();
        match (task, wanted) {
            (Some(task), _) => {
                self.ledger.note(&task.id, &holder);
                self.follow_task(&task.id, context);
                result
            }
            (None, None) => result,
            (None, Some(ttl)) => {
                let now = self.room.clock.now();
                let id = format!("lk-{:x}-{:x}", now.as_millis(), self.ledger.number());
                let task = made(&id, "completed", now, ttl).of_backend(&self.spec.id);
                let detail = task.with("result", &String::from_utf8_lossy(result.json()));
                if let Some(detail) = Detail::read(&detail) {
                    self.ledger.keep(&holder, detail, now + ttl);
                }
                task.with("resultType", "\"task\"")
            }
        }
    }

    /// What a plain call gives whose tool runs as a task.
    fn await_task(self: Arc<Self>, task: &Detail, context: Context) -> Reply {
        self.ledger.note(&task.id, &context.requester);
        let id = task.id.clone();
        let mut running =
            Running { backend: Arc::clone(&self), context: context.clone(), id: id.clone(), is_over: false };
        let wait = Wait { backend: self, context, id, known: Known::ToGateway };
        Reply::new(wait.turns(task.interval).map(move |turn| match turn {
            Turn::Event(event) => event,
            Turn::Ended(end) => Event::Done(running.ended(end)),
        }))
    }

    /// A request of the gateway's own in the name of this client.
    async fn ask_about(self: &Arc<Self>, method: Method, params: Payload, context: &Context) -> Outcome {
        let context = Context { mirror: None, profile: Profile::default(), ..context.clone() };
        Arc::clone(self).ask(Call { method, params, context }).outcome().await
    }
}

/// A task that the gateway tells of itself.
fn made(id: &str, status: &str, at: Timestamp, ttl: Duration) -> Payload {
    let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    let (at, ttl) = (at.to_string(), if ttl == 0 { json!(null) } else { json!(ttl) });
    let task = json!({ "resultType": "complete", "taskId": id, "status": status, "createdAt": at, "lastUpdatedAt": at, "ttlMs": ttl });
    Payload::of(Revision::V2026_07_28, &task)
}

fn without_task(params: Payload) -> Payload {
    let asks = params.object().is_some_and(|params| params.get("task").is_some());
    if asks { params.without("task") } else { params }
}

// === impl Running ===

impl Running {
    fn ended(&mut self, end: End) -> Outcome {
        self.is_over = matches!(end, End::Task(_));
        end.of_call()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.backend.ledger.remove(&self.id);
        if self.is_over {
            return;
        }
        let (backend, context, id) = (Arc::clone(&self.backend), self.context.clone(), self.id.clone());
        self.backend.room.tasks.spawn(async move {
            let cancelled = backend.ask_about(Method::TasksCancel, about(&id), &context);
            let end = backend.room.tasks.end().clone();
            let _ = end.run_until_cancelled(timeout(FAREWELL, cancelled)).await;
        });
    }
}
