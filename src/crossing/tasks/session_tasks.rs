//! State of tasks that clients with sessions have at a server with the tasks extension: cached states, and known input
//! requests. Each owner has a store of their own, so no owner displaces another's tasks.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use hashlink::LinkedHashMap;
use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    mcp::{Context, task::DetailedTask},
    model::{Owner, Requester},
    support::{
        Timestamp,
        memory::{Exhausted, Relief, Revocable},
    },
};

/// Maximum number of tasks of one owner; its oldest are removed.
const MAX_TASKS: usize = 1_000;
/// Maximum size of one owner's cached tasks in bytes; its oldest are removed.
const MAX_BYTES: usize = 4 << 20;
/// A task without a cached state is removed this long after its last use.
const IDLE: Duration = Duration::from_hours(1);
/// Interval between searches for such tasks.
const SWEEP: Duration = Duration::from_mins(10);
/// Maximum number of known input requests of one task; further ones are not sent.
const MAX_INPUT_REQUESTS: usize = 1_024;

/// Lifetime of a cached task that the gateway answers for itself.
pub(super) const CACHED: CacheTimes =
    CacheTimes { shortest: Duration::from_secs(1), default: Duration::from_mins(5), longest: Duration::from_hours(1) };

/// Bounds of a lifetime.
pub(super) struct CacheTimes {
    shortest: Duration,
    /// Used if the client names none.
    pub(super) default: Duration,
    pub(super) longest: Duration,
}

/// Tasks at one server.
#[derive(Debug, Default)]
pub(super) struct SessionTasks(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    owners: HashMap<Owner, OwnerTasks>,
    /// The last number given to a task that the gateway itself names.
    last: u64,
    swept: Option<Timestamp>,
}

/// The tasks of one owner.
#[derive(Debug, Default)]
struct OwnerTasks {
    /// By id, the least recently reported first.
    tasks: LinkedHashMap<String, SessionTask>,
    bytes: usize,
}

#[derive(Debug)]
struct SessionTask {
    used: Timestamp,
    cached: Option<CachedTask>,
    /// Input requests that were sent to the client, answered or not.
    asked: HashSet<String>,
    /// The client session that follows the task, and a guard that ends it.
    followed: Option<(Requester, DropGuard)>,
}

/// The state of a task, charged to its owner.
#[derive(Debug)]
struct CachedTask {
    state: Revocable<DetailedTask>,
    bytes: usize,
    until: Timestamp,
}

/// Other copies of a task's state, which determine what happens when memory is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OtherCopy {
    /// At the server, which can be asked again.
    AtServer,
    Nowhere,
}

/// An input request with a single sender. Dropping it unanswered allows another.
#[derive(Debug)]
pub(super) struct InputClaim {
    tasks: Arc<SessionTasks>,
    owner: Owner,
    id: String,
    key: Option<String>,
}

// === impl CacheTimes ===

impl CacheTimes {
    /// The time, limited to the bounds.
    pub(super) fn within(&self, time: Option<Duration>, default: Duration) -> Duration {
        time.unwrap_or(default).clamp(self.shortest, self.longest)
    }
}

// === impl SessionTasks ===

impl SessionTasks {
    /// Adds a task, or records its use.
    pub(super) fn note(&self, id: &str, owner: &Owner, now: Timestamp) {
        let mut inner = self.0.lock();
        inner.sweep(now);
        let tasks = inner.owners.entry(owner.clone()).or_default();
        tasks.open(id, now).used = now;
        tasks.make_room();
    }

    /// Caches the state of a task until `until`, at this client's expense.
    ///
    /// # Errors
    ///
    /// There is no memory for it.
    pub(super) fn cache(
        &self,
        context: &Context,
        task: DetailedTask,
        until: Timestamp,
        other: OtherCopy,
    ) -> Result<(), Exhausted> {
        let relief = match other {
            OtherCopy::AtServer => Relief::Lists,
            OtherCopy::Nowhere => Relief::Calls,
        };
        let (id, bytes) = (task.id.clone(), task.payload.json().len());
        // before the lock, which others need to free memory
        let state = Revocable::new(task, bytes, &context.account, relief)?;
        let mut inner = self.0.lock();
        let tasks = inner.owners.entry(context.caller.owner()).or_default();
        // a new task counts as used until then
        let entry = tasks.open(&id, until);
        let before = entry.size();
        entry.cached = Some(CachedTask { state, bytes, until });
        tasks.bytes = tasks.bytes + bytes - before;
        tasks.make_room();
        Ok(())
    }

    /// The cached state of a task.
    pub(super) fn cached(&self, owner: &Owner, id: &str, now: Timestamp) -> Option<DetailedTask> {
        let mut inner = self.0.lock();
        let cached = inner.task(owner, id)?.cached.as_ref()?;
        if let Some(task) = cached.state.with(|task| task.clone()).filter(|_| cached.until > now) {
            return Some(task);
        }
        inner.remove(owner, id);
        None
    }

    /// Starts following a task for this client; returns a token that is cancelled at the end. `None` if the task is
    /// unknown.
    pub(super) fn follow(&self, id: &str, context: &Context) -> Option<CancellationToken> {
        let mut inner = self.0.lock();
        let entry = inner.task(&context.caller.owner(), id)?;
        let left = CancellationToken::new();
        entry.followed = Some((context.requester.clone(), left.clone().drop_guard()));
        Some(left)
    }

    /// Stops following a task: its client has the result.
    pub(super) fn unfollow(&self, owner: &Owner, id: &str) {
        if let Some(entry) = self.0.lock().task(owner, id) {
            entry.followed = None;
        }
    }

    /// True if a task is followed, or unknown.
    pub(super) fn is_followed(&self, owner: &Owner, id: &str) -> bool {
        self.0.lock().task(owner, id).is_none_or(|entry| entry.followed.is_some())
    }

    /// Claims an input request; `None` if it was claimed before.
    pub(super) fn claim(self: &Arc<Self>, owner: &Owner, id: &str, key: &str) -> Option<InputClaim> {
        let mut inner = self.0.lock();
        let entry = inner.task(owner, id)?;
        if entry.asked.len() >= MAX_INPUT_REQUESTS || !entry.asked.insert(key.to_owned()) {
            return None;
        }
        Some(InputClaim { tasks: Arc::clone(self), owner: owner.clone(), id: id.to_owned(), key: Some(key.to_owned()) })
    }

    /// A number for the id of a task that the gateway itself names.
    pub(super) fn number(&self) -> u64 {
        let mut inner = self.0.lock();
        inner.last += 1;
        inner.last
    }

    pub(super) fn remove(&self, owner: &Owner, id: &str) {
        self.0.lock().remove(owner, id);
    }

    /// Stops following the tasks of a client session that is gone.
    pub(super) fn left(&self, requester: &Requester) {
        if requester.session().is_none() {
            return;
        }
        let mut inner = self.0.lock();
        for task in inner.owners.values_mut().flat_map(|owner| owner.tasks.values_mut()) {
            task.followed.take_if(|(follower, _)| follower == requester);
        }
    }
}

// === impl Inner ===

impl Inner {
    fn task(&mut self, owner: &Owner, id: &str) -> Option<&mut SessionTask> {
        self.owners.get_mut(owner)?.tasks.get_mut(id)
    }

    fn remove(&mut self, owner: &Owner, id: &str) {
        let Some(tasks) = self.owners.get_mut(owner) else { return };
        if let Some(entry) = tasks.tasks.remove(id) {
            tasks.bytes -= entry.size();
        }
        if tasks.tasks.is_empty() {
            self.owners.remove(owner);
        }
    }

    /// Removes idle tasks, so that tasks of owners who never come back do not stay.
    fn sweep(&mut self, now: Timestamp) {
        if self.swept.is_some_and(|swept| now.since(swept) < SWEEP) {
            return;
        }
        self.swept = Some(now);
        self.owners.retain(|_, owner| {
            owner.remove_idle(now);
            !owner.tasks.is_empty()
        });
    }
}

// === impl OwnerTasks ===

impl OwnerTasks {
    fn open(&mut self, id: &str, used: Timestamp) -> &mut SessionTask {
        let fresh = || SessionTask { used, cached: None, asked: HashSet::new(), followed: None };
        self.tasks.entry(id.to_owned()).or_insert_with(fresh)
    }

    fn make_room(&mut self) {
        while (self.tasks.len() > MAX_TASKS || self.bytes > MAX_BYTES) && self.tasks.len() > 1 {
            let Some((_, oldest)) = self.tasks.pop_front() else { return };
            metrics::counter!("lockkeeper_server_tasks_forgotten_total").increment(1);
            self.bytes -= oldest.size();
        }
    }

    /// Removes tasks that are not followed or in use, and have no valid state.
    fn remove_idle(&mut self, now: Timestamp) {
        let is_idle = |task: &SessionTask| {
            let is_cached = task.cached.as_ref().is_some_and(|cached| cached.until > now);
            task.followed.is_none() && !is_cached && task.used + IDLE <= now
        };
        let idle = self.tasks.iter().filter(|(_, task)| is_idle(task)).map(|(id, _)| id.clone());
        for id in idle.collect::<Vec<_>>() {
            if let Some(task) = self.tasks.remove(&id) {
                self.bytes -= task.size();
            }
        }
    }
}

impl SessionTask {
    fn size(&self) -> usize {
        self.cached.as_ref().map_or(0, |cached| cached.bytes)
    }
}

// === impl InputClaim ===

impl InputClaim {
    /// Marks the input request as answered: it is not sent again (extension, *Task Update Requests*).
    pub(super) fn answered(mut self) {
        self.key = None;
    }
}

impl Drop for InputClaim {
    fn drop(&mut self) {
        if let Some(key) = &self.key
            && let Some(entry) = self.tasks.0.lock().task(&self.owner, &self.id)
        {
            entry.asked.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        mcp::{ClientInfo, Payload, Revision},
        model::{Caller, SessionId, UserId},
        support::{Account, MemoryBudget, memory::Charge},
    };

    const NOW: Timestamp = Timestamp::from_seconds(0);

    fn owner(name: &str) -> Owner {
        Caller { user: UserId::new(name), ..Caller::gateway() }.owner()
    }

    fn context(user: &str, account: Account) -> Context {
        let caller = Arc::new(Caller { user: UserId::new(user), ..Caller::gateway() });
        Context { caller, ..Context::of_gateway(ClientInfo::gateway(), account) }
    }

    fn cache(tasks: &SessionTasks, user: &str, task: DetailedTask, until: Timestamp) {
        tasks.cache(&context(user, Account::unbounded()), task, until, OtherCopy::AtServer).unwrap();
    }

    fn detail(id: &str, size: usize) -> DetailedTask {
        let text = serde_json::json!({ "taskId": id, "status": "completed", "result": "x".repeat(size) });
        DetailedTask::read(&Payload::of(Revision::V2026_07_28, &text)).unwrap()
    }

    #[test]
    fn cached_tasks_expire_and_are_limited_for_each_owner() {
        let (tasks, until) = (SessionTasks::default(), Timestamp::from_seconds(10));
        let cached = |name: &str, id: &str, now| tasks.cached(&owner(name), id, now).is_some();
        cache(&tasks, "ann", detail("1", 10), until);
        assert!(cached("ann", "1", Timestamp::from_seconds(9)) && !cached("bob", "1", NOW));
        assert!(!cached("ann", "1", until) && tasks.0.lock().owners.is_empty());
        cache(&tasks, "bob", detail("1", 10), until);
        for id in 0..5 {
            cache(&tasks, "ann", detail(&id.to_string(), MAX_BYTES / 3), until);
        }
        assert_eq!(["0", "1", "2", "3", "4"].map(|id| cached("ann", id, NOW)), [false, false, false, true, true]);
        assert!(cached("bob", "1", NOW));
    }

    #[test]
    fn one_users_cached_tasks_leave_room_for_anothers_and_the_server_is_asked_again() {
        let (tasks, until, budget) = (SessionTasks::default(), Timestamp::from_seconds(10), MemoryBudget::new(8 << 20));
        let hostile = context("hostile", budget.user("hostile"));
        let mib = |id: &str| detail(id, 1 << 20);
        tasks.cache(&hostile, mib("at the server"), until, OtherCopy::AtServer).unwrap();
        tasks.cache(&hostile, mib("only here"), until, OtherCopy::Nowhere).unwrap();
        let _further = Charge::of(budget.user("hostile"), 9 << 19).unwrap();
        tasks.cache(&context("ann", budget.user("ann")), mib("1"), until, OtherCopy::AtServer).unwrap();
        let cached = |user: &str, id: &str| tasks.cached(&owner(user), id, NOW).is_some();
        assert!(cached("ann", "1") && cached("hostile", "only here") && !cached("hostile", "at the server"));
        assert!(tasks.cache(&hostile, mib("more"), until, OtherCopy::Nowhere).is_err(), "what is new is refused");
    }

    #[test]
    fn the_state_of_a_task_outlives_its_session_until_it_expires() {
        let (tasks, until) = (SessionTasks::default(), Timestamp::from_seconds(10));
        cache(&tasks, "ann", detail("1", 10), until);
        tasks.left(&Requester::Session(SessionId::new("s")));
        assert!(tasks.cached(&owner("ann"), "1", NOW).is_some());
        tasks.note("2", &owner("bob"), until + IDLE);
        let left: Vec<Owner> = tasks.0.lock().owners.keys().cloned().collect();
        assert_eq!(left, [owner("bob")]);
    }

    #[test]
    fn an_input_request_is_sent_once_unless_it_stays_unanswered() {
        let tasks = Arc::new(SessionTasks::default());
        tasks.note("T", &owner("ann"), NOW);
        let claim = tasks.claim(&owner("ann"), "T", "k").unwrap();
        assert!(tasks.claim(&owner("ann"), "T", "k").is_none());
        drop(claim);
        tasks.claim(&owner("ann"), "T", "k").unwrap().answered();
        assert!(tasks.claim(&owner("ann"), "T", "k").is_none());
    }
}
