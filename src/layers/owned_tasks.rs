//! A server whose tasks have owners (`OA-115`): registers the tasks that calls create, and refuses requests about tasks
//! of others, without a word to the server. Wraps the bridges of `crossing`, so that it sees every pair of client and
//! server.
//!
//! The id of a new task is held back until its owner is stored. If that fails, the task is cancelled.

use std::{slice, sync::Arc, time::Duration};

use tokio::time::timeout;

use super::{
    layer::{Beneath, Layer},
    server_facts::ServerFacts,
    task_owners::{MAX_TASKS, NotAdded, ServerTaskOwners, StoreUnavailable, TaskAccess, TaskOwners},
};
use crate::{
    mcp::{
        Call, Context, ErrorObject, Event, Method, Notification, Outcome, Payload, Reply, Server, ServerRequest,
        error::{Retry, Unavailable},
        json,
        large_messages::off_worker,
        listen,
        methods::places,
        pass_through::{self, Takeover},
        task::{self, CreatedTask},
        translate::Profile,
    },
    model::{BackendId, Owner, TaskScope},
};

/// Maximum time to cancel a task whose id was never delivered.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// The layer that keeps the owners of a server's tasks. The gateway's own cancellations go to `unbounded`, the server
/// without limits.
pub fn owned_tasks(owners: &TaskOwners, scope: TaskScope, unbounded: Arc<dyn Server>) -> Layer {
    let owners = owners.at(scope);
    Arc::new(move |Beneath { backend, server, facts }| {
        let (unbounded, owners) = (Arc::clone(&unbounded), Arc::clone(&owners));
        let (backend, facts) = (backend.clone(), Arc::clone(facts));
        Arc::new(OwnedTasks(Arc::new(TaskServer { backend, server, unbounded, facts, owners })))
    })
}

/// A server whose tasks have owners. Cheap to clone, since every call does so.
#[derive(Clone)]
struct OwnedTasks(Arc<TaskServer>);

struct TaskServer {
    backend: BackendId,
    server: Arc<dyn Server>,
    /// The same without limits, for cancellations.
    unbounded: Arc<dyn Server>,
    facts: Arc<ServerFacts>,
    owners: Arc<ServerTaskOwners>,
}

/// A call that may create a task.
struct CreatingCall {
    tasks: OwnedTasks,
    context: Context,
    created: Option<CreatedTask>,
}

/// A new task whose id was not delivered yet. Dropping it cancels the task.
struct UnreportedTask {
    tasks: OwnedTasks,
    context: Context,
    owner: Owner,
    created: CreatedTask,
    is_reported: bool,
}

// === impl OwnedTasks ===

impl OwnedTasks {
    /// A request about one task.
    fn about_task(&self, call: Call) -> Reply {
        let found = call.params.find(places::TASK_ID);
        let Some(id) = found.string(call.params.json()) else {
            return Reply::failed(self.refusal(&call, ErrorObject::missing_string("taskId")));
        };
        // a repeated member must not be read differently from the check
        let call = Call { params: call.params.replaced(&found, &json::quote(&id)), ..call };
        let owner = call.context.caller.owner();
        if self.0.owners.is_own(&owner, &id) {
            return self.serve(call, owner, id);
        }
        let tasks = self.clone();
        Reply::later(async move {
            match tasks.0.owners.reach(&owner, slice::from_ref(&id)).await.as_deref() {
                Ok([TaskAccess::Own]) => tasks.serve(call, owner, id),
                Ok([TaskAccess::ServerDecides]) => tasks.serve_unowned(call, owner, id),
                Ok(_) => Reply::failed(tasks.refusal(&call, ErrorObject::unknown_task())),
                Err(StoreUnavailable) => Reply::failed(ErrorObject::retryable(
                    "The gateway cannot look up whose task this is, since its database does not answer. Try again.",
                )),
            }
        })
    }

    /// Serves a request of the owner.
    fn serve(&self, call: Call, owner: Owner, id: String) -> Reply {
        let (owners, method) = (Arc::clone(&self.0.owners), call.method.clone());
        self.0.server.call(call).map(move |event| {
            if let Event::Done(Outcome::Complete(result)) = &event
                && (method == Method::TasksResult || task_of(result, &id).is_some_and(|task| task.has_ended()))
            {
                owners.ended(&owner, &id);
            }
            event
        })
    }

    /// Serves a request about a task of unknown owner, at a server that tells callers apart. If the server reports the
    /// task, it is the caller's.
    fn serve_unowned(&self, call: Call, owner: Owner, id: String) -> Reply {
        let (owners, is_get) = (Arc::clone(&self.0.owners), call.method == Method::TasksGet);
        self.0.server.call(call).map(move |event| {
            if let Event::Done(Outcome::Complete(result)) = &event
                && let Some(task) = task_of(result, &id).filter(|_| is_get)
            {
                let (adding, owner) = (Arc::clone(&owners), owner.clone());
                owners.spawn(async move {
                    // without a place for it, the server keeps deciding
                    let _ = adding.add(&owner, &task).await;
                });
            }
            event
        })
    }

    /// The error for a request about a task that is not the caller's: `error`, unless there are no tasks at all.
    fn refusal(&self, call: &Call, error: ErrorObject) -> ErrorObject {
        let client = &call.context.client;
        if call.method.is_of_tasks_extension() && client.lacks_tasks_extension() {
            return ErrorObject::undeclared_tasks();
        }
        if self.0.facts.lacks_tasks() {
            return ErrorObject::method_not_found(call.method.as_str());
        }
        error
    }

    /// `tasks/list`: the caller's part of each page.
    fn list(&self, call: Call) -> Reply {
        let (tasks, owner) = (self.clone(), call.context.caller.owner());
        let mut reply = self.0.server.call(call);
        Reply::new(async_stream::stream! {
            while let Some(event) = reply.next_event().await {
                yield match event {
                    Event::Done(Outcome::Complete(page)) => Event::Done(tasks.own_part(&owner, &page).await),
                    event => event,
                };
            }
        })
    }

    /// The caller's part of a page; every other byte stays.
    async fn own_part(&self, owner: &Owner, page: &Payload) -> Outcome {
        let listed = task::listed(page);
        let ids: Vec<String> = listed.iter().map(|(task, _)| task.id.clone()).collect();
        let Ok(reached) = self.0.owners.reach(owner, &ids).await else {
            return Outcome::Failed(ErrorObject::retryable(
                "The gateway cannot look up whose tasks these are, since its database does not answer. Try again.",
            ));
        };
        let own = listed.into_iter().zip(reached).filter(|(_, reach)| *reach != TaskAccess::Unknown);
        let own: Vec<&str> = own
            .map(|((task, entry), reach)| {
                if reach == TaskAccess::Own && task.has_ended() {
                    self.0.owners.ended(owner, &task.id);
                }
                entry
            })
            .collect();
        Outcome::Complete(task::with_listed(page, &own))
    }

    /// A listen: of the named tasks, only the caller's own; and no messages about others' tasks.
    fn listen(&self, call: Call) -> Reply {
        let (tasks, owner) = (self.clone(), call.context.caller.owner());
        Reply::new(async_stream::stream! {
            let ids = listen::task_ids(&call.params);
            let mut reply = if ids.is_empty() { tasks.0.server.call(call) } else { tasks.listen_for(&owner, ids, call).await };
            while let Some(event) = reply.next_event().await {
                if tasks.is_for(&owner, &event) {
                    yield event;
                }
            }
        })
    }

    /// A listen that names tasks.
    async fn listen_for(&self, owner: &Owner, ids: Vec<String>, call: Call) -> Reply {
        // if the store did not answer for a listen, it is acknowledged without them
        let reached = self.0.owners.reach(owner, &ids).await.unwrap_or_default();
        let own = ids.into_iter().zip(reached).filter(|(_, reach)| *reach != TaskAccess::Unknown).map(|(id, _)| id);
        let own: Vec<String> = own.collect();
        let named = call.params.clone();
        let reply = self.0.server.call(Call { params: listen::for_tasks(&own), ..call });
        if own.is_empty() { listen::without_tasks(&named, reply) } else { reply }
    }

    /// True for an event of a listen that concerns no task, or a task of this owner. An event that only relates to a
    /// task may also concern a task without an owner, which a call of a client without tasks awaits.
    fn is_for(&self, owner: &Owner, event: &Event) -> bool {
        let (id, ended) = match event {
            Event::Notified(told) if matches!(told.method, Method::Tasks | Method::TaskStatus) => {
                let task = told.params.object().and_then(|task| CreatedTask::of(&task));
                let ended = task.as_ref().is_some_and(CreatedTask::has_ended);
                (task.map(|task| task.id).unwrap_or_default(), ended)
            }
            Event::Notified(Notification { params, .. }) | Event::Asked(ServerRequest { params, .. }) => {
                return task::related_to(params).is_none_or(|id| !self.0.owners.is_of_another(owner, &id));
            }
            Event::Done(_) => return true,
        };
        let is_own = self.0.owners.may_hear(owner, &id);
        if is_own && ended {
            self.0.owners.ended(owner, &id);
        }
        is_own
    }
}

impl Server for OwnedTasks {
    fn call(&self, call: Call) -> Reply {
        if call.context.requester.is_gateway() {
            return self.0.server.call(call);
        }
        match &call.method {
            Method::TasksGet | Method::TasksResult | Method::TasksCancel | Method::TasksUpdate => self.about_task(call),
            Method::TasksList => self.list(call),
            Method::Listen => self.listen(call),
            // from a later version, or the server's own
            method @ Method::Other(_) if method.is_about_tasks() && call.params.member("taskId").is_some() => {
                self.about_task(call)
            }
            _ => {
                let creating = CreatingCall { tasks: self.clone(), context: call.context.clone(), created: None };
                pass_through::until(self.0.server.call(call), creating)
            }
        }
    }

    fn expect(&self, client: &Context) {
        self.0.server.expect(client);
    }
}

/// The task that a result reports, if it is this one.
fn task_of(result: &Payload, id: &str) -> Option<CreatedTask> {
    CreatedTask::of(&result.object()?).filter(|task| task.id == id)
}

// === impl CreatingCall ===

impl Takeover for CreatingCall {
    fn takes_over_at(&mut self, event: &Event) -> bool {
        if let Event::Done(Outcome::Complete(result)) = event {
            self.created = CreatedTask::read(result);
        }
        self.created.is_some()
    }

    fn take_over(self, event: Event, rest: Reply) -> Reply {
        drop(rest);
        let Self { tasks, context, created } = self;
        let Some(created) = created else { return Reply::new(futures_util::stream::iter([event])) };
        let owner = context.caller.owner();
        let unreported = UnreportedTask { tasks, context, owner, created, is_reported: false };
        Reply::later(unreported.report(event))
    }
}

// === impl UnreportedTask ===

impl UnreportedTask {
    /// The end of the call: `event`, once the owner is stored.
    async fn report(mut self, event: Event) -> Reply {
        match self.tasks.0.owners.add(&self.owner, &self.created).await {
            Ok(()) => {
                off_worker(event.payload_len()).await;
                self.is_reported = true;
                Reply::new(futures_util::stream::iter([event]))
            }
            Err(reason) => Reply::failed(self.failure(reason)),
        }
    }

    /// The error of the call, whose task had begun.
    fn failure(&self, reason: NotAdded) -> ErrorObject {
        let backend = &self.tasks.0.backend;
        let reason = match reason {
            NotAdded::TooMany => format!(
                "this app has {MAX_TASKS} tasks there, the most that it may have, and none of them has ended; cancel \
                 some, or wait until they end"
            ),
            NotAdded::NotStored => {
                "the gateway's database does not answer, so it cannot store whose task it is".to_owned()
            }
        };
        let unavailable = Unavailable { backend, reason: &reason, retry: Retry::MayHaveRun, supported: &[] };
        ErrorObject::unavailable(&format!("The task at server `{backend}` was cancelled: {reason}"), &unavailable)
    }
}

impl Drop for UnreportedTask {
    fn drop(&mut self) {
        if self.is_reported {
            return;
        }
        self.tasks.0.owners.remove(&self.owner, &self.created.id);
        if self.created.has_ended() {
            return;
        }
        let context = Context { mirror: None, profile: Profile::default(), ..self.context.clone() };
        let params = task::params(&self.created.id);
        let cancelled = self.tasks.0.unbounded.call(Call { method: Method::TasksCancel, params, context });
        self.tasks.0.owners.spawn(async move {
            let _ = timeout(CANCEL_TIMEOUT, cancelled.outcome()).await;
        });
    }
}
