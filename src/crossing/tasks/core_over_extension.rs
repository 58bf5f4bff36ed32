//! Tasks of clients with sessions at servers of 2026-07-28 (`translation` 3.5): the client has tasks of 2025-11-25 or
//! none, the server has the tasks extension or none.
//!
//! A call that asks for a task declares the extension. If the server answers at once instead, the result is stored as a
//! completed task. A call without a task does not declare it, so a server creates none. If a server insists with an
//! error, the gateway calls it again with the extension declared, and awaits the task.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use futures_util::{FutureExt as _, StreamExt as _};
use memchr::memmem::Finder;
use tokio::time::timeout;

use super::{
    extension_tasks::ExtensionTasks,
    following,
    polling::{self, Polling, WaitEnd},
    session_tasks::{CACHED, OtherCopy},
    shared_tasks::SharedTasks,
};
use crate::{
    mcp::{
        Call, Context, ErrorObject, Event, Feature, Method, Outcome, Payload, Reply, Server, json,
        large_messages::off_worker,
        pass_through::{self, Takeover},
        task::{self, DetailedTask, TaskStatus, demands_tasks},
    },
    support::memory::Exhausted,
};

static TASK: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("task"));

/// Maximum time to cancel an abandoned task.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// A server of 2026-07-28 with tasks of 2025-11-25.
#[derive(Clone)]
pub(super) struct CoreOverExtension {
    tasks: ExtensionTasks,
    has_extension: bool,
}

/// A tool call until its end.
struct ToolCall {
    bridge: CoreOverExtension,
    call: Call,
    /// The lifetime of the task that it asks for, if any.
    wanted: Option<Duration>,
    /// True if it was repeated, for a task that it did not ask for.
    is_repeated: bool,
}

/// A task that a call waits for. Dropping it early cancels the task.
struct AwaitedTask {
    tasks: ExtensionTasks,
    context: Context,
    id: String,
    is_over: bool,
}

/// True for methods that are not simply forwarded.
pub(super) fn concerns(method: &Method) -> bool {
    matches!(method, Method::ToolsCall | Method::Listen) || method.is_of_core_tasks()
}

// === impl CoreOverExtension ===

impl Server for CoreOverExtension {
    fn call(&self, call: Call) -> Reply {
        match call.method {
            Method::Listen => self.clone().listen(call),
            Method::ToolsCall => self.clone().call_tool(call),
            ref method if method.is_of_core_tasks() => Reply::later(self.clone().serve_task(call)),
            _ => self.tasks.server.call(call),
        }
    }
}

impl CoreOverExtension {
    /// Adds tasks of 2025-11-25 to `inner`.
    pub(super) fn new(server: Arc<dyn Server>, shared: Arc<SharedTasks>, has_extension: bool) -> Self {
        Self { tasks: ExtensionTasks { server, shared }, has_extension }
    }

    async fn serve_task(self, call: Call) -> Reply {
        let Call { method, params, context } = call;
        if !self.bridges_tasks(&context) || method == Method::TasksList {
            return Reply::failed(ErrorObject::method_not_found(method.as_str()));
        }
        let Some(id) = params.string("taskId") else {
            return Reply::failed(ErrorObject::invalid_params("Invalid params: `taskId` is missing"));
        };
        match method {
            Method::TasksGet => Reply::done(match self.tasks.get(&id, &context).await {
                Ok(task) => Outcome::Complete(task.payload),
                Err(error) => Outcome::Failed(error),
            }),
            Method::TasksCancel => Reply::done(self.cancel(&id, &context).await),
            _ => self.result(id, context),
        }
    }

    /// True if this client has tasks of 2025-11-25, and the server has the extension.
    fn bridges_tasks(&self, context: &Context) -> bool {
        self.has_extension && context.client.revision.has(Feature::CoreTasks)
    }

    /// `tasks/cancel`. In 2025-11-25 a task is cancelled once the answer says so, even if its work goes on.
    async fn cancel(&self, id: &str, context: &Context) -> Outcome {
        let is_over = |task: &DetailedTask| {
            let text = format!("Cannot cancel task: already in terminal status '{}'", task.status.as_str());
            Outcome::Failed(ErrorObject::invalid_params(&text))
        };
        let (known, now) = (&self.tasks.shared.of_sessions, self.tasks.shared.clock.now());
        let owner = context.caller.owner();
        if let Some(cached) = known.cached(&owner, id, now) {
            return is_over(&cached);
        }
        if let Outcome::Failed(error) = self.tasks.ask(Method::TasksCancel, task::params(id), context).await {
            return Outcome::Failed(error);
        }
        let task = match self.tasks.get(id, context).await {
            Ok(task) if task.status.is_final() && task.status != TaskStatus::Cancelled => return is_over(&task),
            Ok(task) => task,
            // a server may forget a cancelled task
            Err(_) => match DetailedTask::read(&task::extended(id, TaskStatus::Cancelled, now, None)) {
                Some(task) => task,
                None => return Outcome::Failed(self.tasks.fault("the task could not be cancelled")),
            },
        };
        let cancelled = task.cancelled();
        known.unfollow(&owner, id);
        // a server that still has the task says the same
        let _ = known.cache(context, cancelled.clone(), now + CACHED.longest, OtherCopy::Nowhere);
        Outcome::Complete(cancelled.payload)
    }

    fn result(self, id: String, context: Context) -> Reply {
        let polling = Polling::for_client(self.tasks, context, id.clone());
        Reply::new(polling.turns(Duration::ZERO).map(move |turn| match turn {
            polling::WaitStep::Event(event) => event,
            polling::WaitStep::Ended(end) => Event::Done(end.of_request(&id)),
        }))
    }

    fn call_tool(self, call: Call) -> Reply {
        let asks = json::may_hold(call.params.json(), &TASK) && call.params.member("task").is_some();
        let wanted = if asks && self.bridges_tasks(&call.context) { Some(time_to_live(&call.params)) } else { None };
        let params = if asks && wanted.is_none() { call.params.without("task") } else { call.params };
        let call = Call { params, ..call };
        let reply = self.tasks.server.call(call.clone());
        pass_through::until(reply, ToolCall { bridge: self, call, wanted, is_repeated: false })
    }

    /// The result of a call that asked for a task with the lifetime `wanted`, or for none. An immediate result is
    /// stored as a task.
    fn made(
        &self,
        task: Option<DetailedTask>,
        result: Payload,
        wanted: Option<Duration>,
        context: &Context,
    ) -> Outcome {
        let (known, owner) = (&self.tasks.shared.of_sessions, context.caller.owner());
        let now = self.tasks.shared.clock.now();
        match (task, wanted) {
            (Some(task), _) => {
                known.note(&task.id, &owner, now);
                self.follow(&task.id, context);
                Outcome::Complete(result)
            }
            (None, None) => Outcome::Complete(result),
            (None, Some(ttl)) => {
                let id = format!("lk-{:x}-{:x}", now.as_millis(), known.number());
                let task =
                    task::extended(&id, TaskStatus::Completed, now, Some(ttl)).written_by(&self.tasks.shared.origin);
                let completed = task.with("result", &String::from_utf8_lossy(result.json()));
                let cached = DetailedTask::read(&completed)
                    .map(|completed| known.cache(context, completed, now + ttl, OtherCopy::Nowhere));
                match cached {
                    Some(Err(Exhausted)) => Outcome::Failed(ErrorObject::out_of_memory()),
                    _ => Outcome::Complete(task.with("resultType", "\"task\"")),
                }
            }
        }
    }

    /// The reply to a plain call whose tool runs as a task.
    fn await_task(self, task: &DetailedTask, context: Context) -> Reply {
        self.tasks.shared.note(&task.id, &context);
        let id = task.id.clone();
        let mut awaited =
            AwaitedTask { tasks: self.tasks.clone(), context: context.clone(), id: id.clone(), is_over: false };
        let polling = Polling::for_gateway(self.tasks, context, id);
        Reply::new(polling.turns(task.poll_interval).map(move |turn| match turn {
            polling::WaitStep::Event(event) => event,
            polling::WaitStep::Ended(end) => Event::Done(awaited.ended(end)),
        }))
    }

    /// Makes the client get the task's status, until it ends or the client has its result.
    fn follow(&self, id: &str, context: &Context) {
        if let Some(left) = self.tasks.shared.of_sessions.follow(id, context) {
            let followed = following::follow(self.tasks.clone(), id.to_owned(), context.clone());
            let until_left = async move {
                left.run_until_cancelled(followed).await;
            };
            (self.tasks.shared.spawn)(until_left.boxed());
        }
    }

    /// Serves a listen. The client's version reports only that a task ended, so its result is stored.
    fn listen(self, call: Call) -> Reply {
        let (shared, context) = (Arc::clone(&self.tasks.shared), call.context.clone());
        let owner = context.caller.owner();
        let is_for = move |event: &Event| match event {
            Event::Notified(told) if told.method == Method::Tasks => {
                let task = DetailedTask::read(&told.params);
                let is_followed = task.as_ref().is_none_or(|task| shared.of_sessions.is_followed(&owner, &task.id));
                if let Some(task) = task.filter(|_| is_followed) {
                    shared.keep(task, &context);
                }
                is_followed
            }
            _ => true,
        };
        Reply::new(self.tasks.server.call(call).filter(move |event| std::future::ready(is_for(event))))
    }
}

/// The lifetime that a call wants for its task.
fn time_to_live(params: &Payload) -> Duration {
    let task = params.member("task").map(str::to_owned).unwrap_or_default();
    let ttl = json::Object::parse(task.as_bytes()).and_then(|task| task.get("ttl")?.parse::<u64>().ok());
    CACHED.within(ttl.map(Duration::from_millis), CACHED.default)
}

// === impl ToolCall ===

impl Takeover for ToolCall {
    fn takes_over_at(&mut self, event: &Event) -> bool {
        match event {
            Event::Done(Outcome::Failed(error)) => self.wanted.is_none() && !self.is_repeated && demands_tasks(error),
            Event::Done(Outcome::Complete(result)) => self.wanted.is_some() || DetailedTask::created(result).is_some(),
            _ => false,
        }
    }

    fn take_over(self, event: Event, rest: Reply) -> Reply {
        drop(rest);
        let Self { bridge, call, wanted, .. } = self;
        let Event::Done(Outcome::Complete(result)) = event else {
            // it fails because it must run as a task
            return Reply::later(async move {
                off_worker(call.params.json().len()).await;
                let params = call.params.with("task", "{}");
                let reply = bridge.tasks.server.call(Call { params, ..call.clone() });
                pass_through::until(reply, Self { bridge, call, wanted, is_repeated: true })
            });
        };
        match (DetailedTask::created(&result), wanted) {
            (Some(task), None) => bridge.await_task(&task, call.context),
            (task, wanted) => Reply::done(bridge.made(task, result, wanted, &call.context)),
        }
    }
}

// === impl AwaitedTask ===

impl AwaitedTask {
    fn ended(&mut self, end: WaitEnd) -> Outcome {
        self.is_over = matches!(end, WaitEnd::Task(_));
        end.of_call()
    }
}

impl Drop for AwaitedTask {
    fn drop(&mut self) {
        self.tasks.shared.of_sessions.remove(&self.context.caller.owner(), &self.id);
        if self.is_over {
            return;
        }
        let (tasks, context, id) = (self.tasks.clone(), self.context.clone(), self.id.clone());
        let cancelled = async move {
            let cancelled = tasks.ask(Method::TasksCancel, task::params(&id), &context);
            let _ = timeout(CANCEL_TIMEOUT, cancelled).await;
        };
        (self.tasks.shared.spawn)(cancelled.boxed());
    }
}
