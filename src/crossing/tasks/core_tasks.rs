//! Requests about tasks at a server of 2025-11-25, in the name of a client of 2026-07-28, and the `DetailedTask` that comes
//! of them. Knows nothing of what the client asked for.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tokio::time::timeout;

use super::{pending_input::PendingInput, shared::SharedTasks, user_tasks::UserTask};
use crate::mcp::{
    Call, Context, Event, Method, Outcome, Payload, Reply, Server,
    json::{self, Object},
    listen, meta, task,
};

/// How long a result is waited for in the client's place.
const MAX_WAIT: Duration = Duration::from_hours(1);
/// How long the first input request of a task that requires input is waited for.
const INPUT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the result of a task that is over is waited for, if it is waited for already.
const RESULT_TIMEOUT: Duration = Duration::from_secs(5);

/// The tasks at a server of 2025-11-25.
#[derive(Clone)]
pub(super) struct CoreTasks {
    pub(super) server: Arc<dyn Server>,
    pub(super) shared: Arc<SharedTasks>,
}

impl CoreTasks {
    /// The `DetailedTask` of the extension for this task of 2025-11-25.
    pub(super) async fn detailed(&self, id: &str, known: &UserTask, task: Payload) -> Outcome {
        match task.string("status").as_deref() {
            Some("completed" | "failed") => self.with_result(id, known, task).await,
            Some("input_required") => {
                self.wait_for_input(id, known);
                match known.input.requests(INPUT_TIMEOUT, &known.context.client).await {
                    Some(requests) => Outcome::Complete(task.with("inputRequests", &requests)),
                    // a task that requires input tells which
                    None => Outcome::Complete(task.with("status", "\"working\"")),
                }
            }
            _ => Outcome::Complete(task),
        }
    }

    /// The task with what it came to. A tool that ended with `isError` has failed there and completed here.
    async fn with_result(&self, id: &str, known: &UserTask, task: Payload) -> Outcome {
        let outcome = match known.input.outcome(RESULT_TIMEOUT).await {
            Some(outcome) => outcome,
            None => self.ask(Method::TasksResult, id, &known.context).await,
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

    /// Waits for the result in the client's place, if nobody does.
    fn wait_for_input(&self, id: &str, known: &UserTask) {
        let Some(waiter) = PendingInput::wait(&known.input) else { return };
        let mut reply = self.request(Method::TasksResult, id, &known.context);
        let until_result = async move {
            while let Some(event) = reply.next_event().await {
                match event {
                    Event::Asked(question) => waiter.ask(question),
                    Event::Done(outcome) => waiter.ended(outcome),
                    Event::Notified(_) => {}
                }
            }
        };
        (self.shared.spawn)(timeout(MAX_WAIT, until_result).map(drop).boxed());
    }

    /// How a request about a task in the name of its client ends.
    pub(super) async fn ask(&self, method: Method, id: &str, context: &Context) -> Outcome {
        self.request(method, id, context).outcome().await
    }

    /// What the server tells of the tasks of this client of its own accord.
    pub(super) fn told_of_tasks(&self, context: &Context) -> Reply {
        let params = listen::for_methods(&[Method::TaskStatus]);
        self.server.call(Call { method: Method::Listen, params, context: context.clone() })
    }

    fn request(&self, method: Method, id: &str, context: &Context) -> Reply {
        self.server.call(Call { method, params: task::params(id), context: context.clone() })
    }
}

/// The same result, which does not say to which task it belongs.
fn unrelated(result: &Payload) -> Payload {
    let Some(held) = result.member(meta::META).map(str::to_owned) else {
        return result.clone();
    };
    let rest = json::without_member(&held.into(), meta::RELATED_TASK);
    if Object::parse(&rest).is_none_or(|rest| rest.iter().next().is_none()) {
        return result.without(meta::META);
    }
    result.with(meta::META, &String::from_utf8_lossy(&rest))
}
