//! State of tasks that clients of 2026-07-28 have at a server of 2025-11-25: the contexts of the calls that created
//! them, input requests, and outcomes. Each owner has a store of their own, so no owner displaces another's tasks.

use std::{collections::HashMap, sync::Arc, time::Duration};

use hashlink::LinkedHashMap;
use parking_lot::Mutex;

use super::pending_input::PendingInput;
use crate::{mcp::Context, model::Owner, support::Timestamp};

/// Maximum number of tasks of one owner; its oldest are removed.
const MAX_TASKS: usize = 1_000;
/// A task is removed this long after its last use, unless the gateway waits for its result. Its next request finds it
/// again, with the client's present capabilities.
const IDLE: Duration = Duration::from_hours(24);
/// Interval between searches for such tasks.
const SWEEP: Duration = Duration::from_mins(10);

/// Tasks at one server.
#[derive(Debug, Default)]
pub(super) struct UserTasks(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    owners: HashMap<Owner, UserTaskTable>,
    swept: Option<Timestamp>,
}

/// The tasks of one owner by id, with their last use, the oldest first.
type UserTaskTable = LinkedHashMap<String, (Timestamp, Arc<UserTask>)>;

#[derive(Debug)]
pub(super) struct UserTask {
    /// The context of the call that created it.
    pub(super) context: Context,
    /// Input requests and outcome.
    pub(super) input: Arc<PendingInput>,
}

// === impl UserTasks ===

impl UserTasks {
    /// The task of this caller; stored if new.
    pub(super) fn note(&self, id: &str, context: &Context, now: Timestamp) -> Arc<UserTask> {
        let mut inner = self.0.lock();
        inner.sweep(now);
        let tasks = inner.owners.entry(context.caller.owner()).or_default();
        if let Some((used, task)) = tasks.get_mut(id) {
            *used = now;
            return Arc::clone(task);
        }
        let task = Arc::new(UserTask { context: context.clone(), input: Arc::default() });
        tasks.insert(id.to_owned(), (now, Arc::clone(&task)));
        if tasks.len() > MAX_TASKS {
            metrics::counter!("lockkeeper_server_tasks_forgotten_total").increment(1);
            tasks.pop_front();
        }
        task
    }

    /// The task of this caller, if it is known.
    pub(super) fn find(&self, id: &str, context: &Context, now: Timestamp) -> Option<Arc<UserTask>> {
        let mut inner = self.0.lock();
        let (used, task) = inner.owners.get_mut(&context.caller.owner())?.get_mut(id)?;
        *used = now;
        Some(Arc::clone(task))
    }
}

// === impl Inner ===

impl Inner {
    /// Removes idle tasks, so that tasks of owners who never come back do not stay.
    fn sweep(&mut self, now: Timestamp) {
        if self.swept.is_some_and(|swept| now.since(swept) < SWEEP) {
            return;
        }
        self.swept = Some(now);
        self.owners.retain(|_, tasks| {
            tasks.retain(|_, (used, task)| task.input.is_awaited() || *used + IDLE > now);
            !tasks.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        mcp::ClientInfo,
        model::{Caller, UserId},
        support::Account,
    };

    const NOW: Timestamp = Timestamp::from_seconds(1_000_000);

    fn context(user: &str) -> Context {
        Context {
            caller: Arc::new(Caller { user: UserId::new(user), ..Caller::gateway() }),
            ..Context::of_gateway(ClientInfo::gateway(), Account::unbounded())
        }
    }

    #[test]
    fn one_owner_with_many_tasks_displaces_only_its_own() {
        let tasks = UserTasks::default();
        tasks.note("T", &context("bob"), NOW);
        for id in 0..=MAX_TASKS {
            tasks.note(&id.to_string(), &context("ann"), NOW);
        }
        let there = |user: &str, id: &str| tasks.find(id, &context(user), NOW).is_some();
        assert!(there("bob", "T") && there("ann", "1") && !there("ann", "0") && !there("ann", "T"));
    }

    #[test]
    fn an_idle_task_is_removed_unless_its_result_is_awaited() {
        let tasks = UserTasks::default();
        let awaited = tasks.note("awaited", &context("ann"), NOW);
        let _waiter = PendingInput::wait(&awaited.input).unwrap();
        tasks.note("idle", &context("ann"), NOW);
        tasks.note("other", &context("bob"), NOW + IDLE);
        let there = |id: &str| tasks.find(id, &context("ann"), NOW + IDLE).is_some();
        assert!(there("awaited") && !there("idle"));
    }
}
