//! Tasks of clients of 2026-07-28 at servers of 2025-11-25 (`translation` 3.5): the client has the tasks extension, the
//! server has tasks of its version.
//!
//! In the extension, a task carries its result and its input requests. In 2025-11-25, `tasks/result` returns the
//! result, and input requests come during that call. So if a task requires input, the gateway calls `tasks/result` in
//! the client's place, and keeps the input requests until the client fetches and answers them.

use std::sync::Arc;

use futures_util::StreamExt as _;
use serde_json::json;

use super::{core_tasks::CoreTasks, notifications::Notifications, shared_tasks::SharedTasks, tool_modes::ToolMode};
use crate::{
    mcp::{
        Call, Context, ErrorObject, Event, Method, Outcome, Payload, Reply, Revision, Server, json::Object,
        large_messages::off_worker, listen, task,
    },
    model::Requester,
};

/// A server of 2025-11-25 with the tasks extension.
#[derive(Clone)]
pub(super) struct ExtensionOverCore {
    tasks: CoreTasks,
    /// True if the server runs tools as tasks on request.
    runs_tools: bool,
}

/// True for methods that are not simply forwarded.
pub(super) const fn concerns(method: &Method) -> bool {
    matches!(method, Method::ToolsCall | Method::Listen | Method::TasksGet | Method::TasksUpdate | Method::TasksCancel)
}

/// The empty answer (extension, *Task Update Requests*, *Task Cancellation*).
fn acknowledged() -> Outcome {
    Outcome::Complete(Payload::of(Revision::V2026_07_28, &json!({ "resultType": "complete" })))
}

/// The context with a requester shared by all requests of the user: tasks outlive the requests that created them. It
/// mirrors no parameters, since those would be of another request.
fn of_user(context: Context) -> Context {
    let requester = Requester::TasksOf(context.caller.user.clone());
    Context { requester, mirror: None, ..context }
}

// === impl ExtensionOverCore ===

impl Server for ExtensionOverCore {
    fn call(&self, call: Call) -> Reply {
        let server = self.clone();
        match call.method {
            Method::ToolsCall => Reply::later(server.call_tool(call)),
            Method::Listen => server.listen(call),
            ref method if concerns(method) => Reply::later(async move { Reply::done(server.serve_task(call).await) }),
            _ => self.tasks.server.call(call),
        }
    }
}

impl ExtensionOverCore {
    /// Adds the tasks extension to `server`.
    pub(super) fn new(server: Arc<dyn Server>, shared: Arc<SharedTasks>, runs_tools: bool) -> Self {
        Self { tasks: CoreTasks { server, shared }, runs_tools }
    }

    /// `tools/call`: runs a tool as a task, if it can.
    async fn call_tool(self, call: Call) -> Reply {
        let asks = call.params.member("task").is_some();
        if !asks && !self.runs_as_task(&call).await {
            return self.tasks.server.call(call);
        }
        off_worker(call.params.json().len()).await;
        let params = if asks { call.params } else { call.params.with("task", "{}") };
        let context = of_user(call.context);
        self.tasks.server.call(Call { params, context: context.clone(), ..call }).map(move |event| {
            if let Event::Done(Outcome::Complete(result)) = &event
                && let Some(id) = task::created(result)
            {
                self.tasks.shared.of_users.note(&id, &context, self.tasks.shared.clock.now());
            }
            event
        })
    }

    async fn runs_as_task(&self, call: &Call) -> bool {
        let Some(name) = call.params.string("name").filter(|_| self.runs_tools) else { return false };
        self.tasks.shared.tools.mode(&name, &*self.tasks.server, &call.context).await != ToolMode::Forbidden
    }

    /// Serves a listen. Its tasks are the caller's. The server's own status notifications are left out: they have
    /// neither results nor input requests, and come for tasks that the listen does not name.
    fn listen(self, call: Call) -> Reply {
        let ids = listen::task_ids(&call.params);
        let (context, heard) = (of_user(call.context.clone()), self.tasks.server.call(call));
        let is_status = |event: &Event| matches!(event, Event::Notified(told) if told.method == Method::TaskStatus);
        let heard = Reply::new(heard.filter(move |event| std::future::ready(!is_status(event))));
        if ids.is_empty() { heard } else { Notifications::beside(heard, self.tasks, ids, context) }
    }

    async fn serve_task(self, call: Call) -> Outcome {
        let Call { method, params, context } = call;
        if !context.client.takes_tasks() {
            return Outcome::Failed(ErrorObject::undeclared_tasks());
        }
        let Some(id) = params.string("taskId") else {
            return Outcome::Failed(ErrorObject::invalid_params("Invalid params: `taskId` is missing"));
        };
        let context = of_user(context);
        let known = self.tasks.shared.of_users.find(&id, &context, self.tasks.shared.clock.now());
        // the capabilities at creation select the session that has the task
        let context = known.as_ref().map_or(context, |task| task.context.clone());
        match method {
            Method::TasksGet => self.get(&id, &context).await,
            Method::TasksUpdate => match known {
                Some(task) => {
                    let responses = params.member("inputResponses").map(str::to_owned);
                    let responses = responses.unwrap_or_default();
                    let responses = Object::parse(responses.as_bytes()).unwrap_or_default();
                    task.input.answer(&id, &responses, params.revision);
                    acknowledged()
                }
                None => self.acknowledge(&id, &context).await,
            },
            _ => match self.tasks.ask(Method::TasksCancel, &id, &context).await {
                Outcome::Failed(_) => self.acknowledge(&id, &context).await,
                _ => acknowledged(),
            },
        }
    }

    /// Acknowledges a request that cannot be fulfilled any more, if the task exists.
    async fn acknowledge(&self, id: &str, context: &Context) -> Outcome {
        match self.tasks.ask(Method::TasksGet, id, context).await {
            Outcome::Failed(error) => Outcome::Failed(error),
            _ => acknowledged(),
        }
    }

    /// `tasks/get`: the task, with its result or its input requests.
    async fn get(&self, id: &str, context: &Context) -> Outcome {
        match self.tasks.ask(Method::TasksGet, id, context).await {
            Outcome::Complete(task) => {
                let known = self.tasks.shared.of_users.note(id, context, self.tasks.shared.clock.now());
                self.tasks.detailed(id, &known, task).await
            }
            other => other,
        }
    }
}
