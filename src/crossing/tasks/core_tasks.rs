//! Requests about tasks to a server of 2025-11-25, where tasks belong to the core protocol, for a client with the tasks
//! extension of 2026-07-28: it gets a `DetailedTask`, with the result or the input requests.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tokio::time::timeout;

use super::{pending_input::PendingInput, shared_tasks::SharedTasks, user_tasks::UserTask};
use crate::mcp::{
    Call, Context, Event, Method, Outcome, Payload, Reply, Server,
    json::{self, Object},
    listen, meta, task,
};

/// Maximum wait for a result in the client's place.
const MAX_WAIT: Duration = Duration::from_hours(1);
/// Maximum wait for the first input request of a task that requires input.
const INPUT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum wait for the result of a task that has ended, if another wait is running.
const RESULT_TIMEOUT: Duration = Duration::from_secs(5);

/// Tasks at a server of 2025-11-25.
#[derive(Clone)]
pub(super) struct CoreTasks {
    pub(super) server: Arc<dyn Server>,
    pub(super) shared: Arc<SharedTasks>,
}

impl CoreTasks {
    /// The `DetailedTask` of the extension for a task of 2025-11-25.
    pub(super) async fn detailed(&self, id: &str, known: &UserTask, task: Payload) -> Outcome {
        match task.string("status").as_deref() {
            Some("completed" | "failed") => self.with_result(id, known, task).await,
            Some("input_required") => {
                self.wait_for_input(id, known);
                match known.input.requests(INPUT_TIMEOUT, &known.context.client).await {
                    Some(requests) => Outcome::Complete(task.with("inputRequests", &requests)),
                    // a task that requires input lists its input requests
                    None => Outcome::Complete(task.with("status", "\"working\"")),
                }
            }
            _ => Outcome::Complete(task),
        }
    }

    /// The task with its result. A task whose tool ended with `isError` is failed in 2025-11-25 and completed in the
    /// extension.
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
            // the server's error: the end of the call
            Outcome::Failed(error) if error.revision().is_some() => {
                let task = task.with("status", "\"failed\"");
                task.with("error", &String::from_utf8_lossy(error.json()))
            }
            other => return other,
        })
    }

    /// Waits for the result in the client's place, unless a wait is running: a server of 2025-11-25 asks for input only
    /// during `tasks/result`, which clients of the extension do not send.
    fn wait_for_input(&self, id: &str, known: &UserTask) {
        let Some(waiter) = PendingInput::wait(&known.input) else { return };
        let (mut reply, account) =
            (self.request(Method::TasksResult, id, &known.context), known.context.account.clone());
        let until_result = async move {
            while let Some(event) = reply.next_event().await {
                match event {
                    Event::Asked(question) => waiter.ask(question),
                    Event::Done(outcome) => waiter.ended(outcome, &account),
                    Event::Notified(_) => {}
                }
            }
        };
        (self.shared.spawn)(timeout(MAX_WAIT, until_result).map(drop).boxed());
    }

    /// The outcome of a request about a task, for its client.
    pub(super) async fn ask(&self, method: Method, id: &str, context: &Context) -> Outcome {
        self.request(method, id, context).outcome().await
    }

    /// Notifications about this client's tasks.
    pub(super) fn status_notifications(&self, context: &Context) -> Reply {
        let params = listen::for_methods(&[Method::TaskStatus]);
        self.server.call(Call { method: Method::Listen, params, context: context.clone() })
    }

    fn request(&self, method: Method, id: &str, context: &Context) -> Reply {
        self.server.call(Call { method, params: task::params(id), context: context.clone() })
    }
}

/// The result without the reference to its task.
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
