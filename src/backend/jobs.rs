//! Tasks of clients of 2026-07-28 at servers of 2025-11-25 (`translation` 3.5): those clients have the extension, and the
//! server has the feature. Shapes are carried by the steps of `translate`; here is what one side has and the other has not.
//!
//! The extension tells with a task what it came to, and what it wants to know. In 2025-11-25 the one is asked for by
//! `tasks/result`, and the other comes while that is waited for. So when a task wants to know something the gateway
//! waits for its result in the client's place, and keeps the questions until the client takes and answers them.

mod desk;
mod table;
mod watch;

use std::{sync::Arc, time::Duration};

use serde_json::json;
use tokio::time::timeout;

use self::{desk::Desk, table::Job};
use super::{extension::about, legacy::created_task, served::Backend};
use crate::{
    mcp::{
        Call, Context, Era, ErrorObject, Event, Method, Outcome, Payload, Reply, Revision,
        json::{self, Object},
        meta,
    },
    model::Requester,
};

pub(crate) use table::Jobs;

/// How long a task is waited for in its client's place.
const LONGEST: Duration = Duration::from_hours(1);
/// How long the first question of a task that wants to know something is waited for.
const FIRST: Duration = Duration::from_secs(2);
/// How long the result of a task that is over is waited for, where it is waited for already.
const RESULT: Duration = Duration::from_secs(5);

/// Whether a call may make a task for a client of 2026-07-28, or is about one.
pub(super) fn concerns(call: &Call) -> bool {
    let client = &call.context.client;
    client.revision.era() == Era::Modern
        && match call.method {
            Method::ToolsCall => client.takes_tasks(),
            Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => true,
            _ => false,
        }
}

/// The empty answer (extension, *Task Update Requests*, *Task Cancellation*).
fn acknowledged() -> Outcome {
    Outcome::Complete(Payload::of(Revision::V2026_07_28, &json!({ "resultType": "complete" })))
}

/// The same context on behalf of what all requests of the user have in common: tasks outlive the requests that make them.
fn of_user(context: Context) -> Context {
    let requester = Requester::TasksOf(context.caller.user.clone());
    Context { requester, mirror: None, ..context }
}

// === impl Backend ===

impl Backend {
    /// Serves a call of a tool, or one about a task.
    pub(super) fn serve_job(self: Arc<Self>, call: Call) -> Reply {
        if call.method != Method::ToolsCall {
            return Reply::later(async move { Reply::done(self.serve_about(call).await) });
        }
        let asks = call.params.object().is_some_and(|params| params.get("task").is_some());
        if !asks {
            return self.serve(call);
        }
        let context = of_user(call.context);
        let call = Call { context: context.clone(), ..call };
        Arc::clone(&self).serve(call).map(move |event| {
            if let Event::Done(Outcome::Complete(result)) = &event
                && let Some(id) = created_task(result)
            {
                self.jobs.note(&id, &context);
            }
            event
        })
    }

    async fn serve_about(self: Arc<Self>, call: Call) -> Outcome {
        let Call { method, params, context } = call;
        if !context.client.takes_tasks() {
            return Outcome::Failed(ErrorObject::undeclared_tasks());
        }
        let Some(id) = params.string("taskId") else {
            return Outcome::Failed(ErrorObject::invalid_params("Invalid params: `taskId` is missing"));
        };
        let context = of_user(context);
        let known = match self.jobs.find(&id, &context) {
            Ok(known) => known,
            Err(error) => return Outcome::Failed(error),
        };
        // what the client said when it made the task leads to the session that the task is in
        let context = known.as_ref().map_or(context, |job| job.context.clone());
        match method {
            Method::TasksGet => self.tell_job(&id, &context).await,
            Method::TasksUpdate => match known {
                Some(job) => {
                    let responses = params.object().and_then(|params| params.get("inputResponses").map(str::to_owned));
                    let responses = responses.unwrap_or_default();
                    job.desk.answer(&id, &Object::parse(responses.as_bytes()).unwrap_or_default());
                    acknowledged()
                }
                None => self.acknowledge(&id, &context).await,
            },
            _ => match self.ask_old(Method::TasksCancel, &id, &context).await {
                Outcome::Failed(_) => self.acknowledge(&id, &context).await,
                _ => acknowledged(),
            },
        }
    }

    /// Acknowledges what can be done no more, where the task is there.
    async fn acknowledge(self: &Arc<Self>, id: &str, context: &Context) -> Outcome {
        match self.ask_old(Method::TasksGet, id, context).await {
            Outcome::Failed(error) => Outcome::Failed(error),
            _ => acknowledged(),
        }
    }

    /// `tasks/get`: the task, with what it came to or wants to know.
    async fn tell_job(self: &Arc<Self>, id: &str, context: &Context) -> Outcome {
        match self.ask_old(Method::TasksGet, id, context).await {
            Outcome::Complete(task) => {
                let job = self.jobs.note(id, context);
                self.detailed_job(id, &job, task).await
            }
            other => other,
        }
    }

    /// What `tasks/get` tells of a task in the extension, of which the server tells this.
    async fn detailed_job(self: &Arc<Self>, id: &str, job: &Arc<Job>, task: Payload) -> Outcome {
        match task.string("status").as_deref() {
            Some("completed" | "failed") => self.with_result(id, job, task).await,
            Some("input_required") => {
                self.attend(id, job);
                match job.desk.questions(FIRST, &job.context.client).await {
                    Some(questions) => Outcome::Complete(task.with("inputRequests", &questions)),
                    // a task that wants to know something tells what
                    None => Outcome::Complete(task.with("status", "\"working\"")),
                }
            }
            _ => Outcome::Complete(task),
        }
    }

    /// The task with what it came to. A tool that ended with `isError` has failed there and completed here.
    async fn with_result(self: &Arc<Self>, id: &str, job: &Job, task: Payload) -> Outcome {
        let waited = job.desk.outcome(RESULT).await;
        let outcome = match waited {
            Some(outcome) => outcome,
            None => self.ask_old(Method::TasksResult, id, &job.context).await,
        };
        Outcome::Complete(match outcome {
            Outcome::Complete(result) => {
                let result = unrelated(&result);
                let task = task.with("status", "\"completed\"");
                task.with("result", &String::from_utf8_lossy(result.json()))
            }
            // the server's own: what the call would have ended with
            Outcome::Failed(error) if error.revision().is_some() => {
                let task = task.with("status", "\"failed\"");
                task.with("error", &String::from_utf8_lossy(error.json()))
            }
            other => return other,
        })
    }

    /// Waits for the result in the client's place, where nobody does.
    fn attend(self: &Arc<Self>, id: &str, job: &Arc<Job>) {
        let Some(attending) = Desk::attend(&job.desk) else { return };
        let call = Call { method: Method::TasksResult, params: about(id), context: job.context.clone() };
        let mut reply = Arc::clone(self).serve(call);
        let end = self.room.tasks.end().clone();
        self.room.tasks.spawn(async move {
            let attended = async {
                while let Some(event) = reply.next_event().await {
                    match event {
                        Event::Asked(question) => attending.ask(question),
                        Event::Done(outcome) => attending.ended(outcome),
                        Event::Notified(_) => {}
                    }
                }
            };
            let _ = end.run_until_cancelled(timeout(LONGEST, attended)).await;
        });
    }

    /// A request of the gateway's own about a task, in the name of its client.
    async fn ask_old(self: &Arc<Self>, method: Method, id: &str, context: &Context) -> Outcome {
        let call = Call { method, params: about(id), context: context.clone() };
        Arc::clone(self).serve(call).outcome().await
    }
}

/// The same result, which does not say to which task it belongs.
fn unrelated(result: &Payload) -> Payload {
    let Some(held) = result.object().and_then(|result| result.get(meta::META).map(str::to_owned)) else {
        return result.clone();
    };
    let rest = json::without_member(&held.into(), meta::RELATED_TASK);
    if Object::parse(&rest).is_none_or(|rest| rest.iter().next().is_none()) {
        return result.without(meta::META);
    }
    result.with(meta::META, &String::from_utf8_lossy(&rest))
}
