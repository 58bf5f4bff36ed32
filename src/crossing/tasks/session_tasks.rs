//! Registry of tasks that clients with sessions have at a server with the tasks extension: owners, cached states, and
//! known input requests. Knows nothing of requests.

use std::{collections::HashSet, sync::Arc, time::Duration};

use hashlink::LinkedHashMap;
use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{mcp::task::DetailedTask, model::Requester, support::Timestamp};

/// Maximum number of tasks; the oldest are removed.
const MAX_TASKS: usize = 4_096;
/// Maximum size of cached tasks in bytes; the oldest are removed.
const MAX_BYTES: usize = 32 << 20;
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

/// The client that a task belongs to.
pub(super) type TaskOwner = Requester;

/// Tasks at one server.
#[derive(Debug, Default)]
pub(super) struct SessionTasks(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// By id, the least recently reported first.
    tasks: LinkedHashMap<String, SessionTask>,
    bytes: usize,
    last: u64,
}

#[derive(Debug)]
struct SessionTask {
    owner: TaskOwner,
    /// The cached state, and its expiry.
    cached: Option<(DetailedTask, Timestamp)>,
    /// Input requests that were sent to the client, answered or not.
    asked: HashSet<String>,
    /// Ends the following of the task; `None` if it is not followed.
    followed: Option<DropGuard>,
}

/// An input request with a single sender. Dropping it unanswered allows another.
#[derive(Debug)]
pub(super) struct Claim {
    tasks: Arc<SessionTasks>,
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
    /// Stores the owner of a task, unless it has another one.
    pub(super) fn note(&self, id: &str, owner: &TaskOwner) {
        let mut inner = self.0.lock();
        inner.open(id, owner);
        inner.make_room();
    }

    /// Caches the state of a task until `until`.
    pub(super) fn cache(&self, owner: &TaskOwner, task: DetailedTask, until: Timestamp) {
        let mut inner = self.0.lock();
        let size = task.payload.json().len();
        let entry = inner.open(&task.id.clone(), owner);
        let before = entry.size();
        entry.cached = Some((task, until));
        inner.bytes = inner.bytes + size - before;
        inner.make_room();
    }

    /// True if a task is known to belong to another client. For a task of unknown owner the server decides.
    pub(super) fn is_of_another(&self, id: &str, owner: &TaskOwner) -> bool {
        self.0.lock().tasks.get(id).is_some_and(|entry| entry.owner != *owner)
    }

    /// The cached state of a task.
    pub(super) fn cached(&self, id: &str, now: Timestamp) -> Option<DetailedTask> {
        let mut inner = self.0.lock();
        let (task, until) = inner.tasks.get(id)?.cached.as_ref()?;
        if *until > now {
            return Some(task.clone());
        }
        inner.remove(id);
        None
    }

    /// Starts following a task; returns a token that is cancelled at the end. `None` if the task is unknown.
    pub(super) fn follow(&self, id: &str) -> Option<CancellationToken> {
        let mut inner = self.0.lock();
        let entry = inner.tasks.get_mut(id)?;
        let left = CancellationToken::new();
        entry.followed = Some(left.clone().drop_guard());
        Some(left)
    }

    /// Stops following a task: its client has the result.
    pub(super) fn unfollow(&self, id: &str) {
        if let Some(entry) = self.0.lock().tasks.get_mut(id) {
            entry.followed = None;
        }
    }

    /// True if a task is followed.
    pub(super) fn is_followed(&self, id: &str) -> bool {
        self.0.lock().tasks.get(id).is_none_or(|entry| entry.followed.is_some())
    }

    /// Claims an input request; `None` if it was claimed before.
    pub(super) fn claim(self: &Arc<Self>, id: &str, key: &str) -> Option<Claim> {
        let mut inner = self.0.lock();
        let entry = inner.tasks.get_mut(id)?;
        if entry.asked.len() >= MAX_INPUT_REQUESTS || !entry.asked.insert(key.to_owned()) {
            return None;
        }
        Some(Claim { tasks: Arc::clone(self), id: id.to_owned(), key: Some(key.to_owned()) })
    }

    /// A new number.
    pub(super) fn number(&self) -> u64 {
        let mut inner = self.0.lock();
        inner.last += 1;
        inner.last
    }

    /// Removes a task.
    pub(super) fn remove(&self, id: &str) {
        self.0.lock().remove(id);
    }

    /// Removes the tasks of a client that is gone.
    pub(super) fn forget(&self, requester: &Requester) {
        let mut inner = self.0.lock();
        let gone = |(id, entry): (&String, &SessionTask)| (entry.owner == *requester).then(|| id.clone());
        let gone: Vec<String> = inner.tasks.iter().filter_map(gone).collect();
        for id in &gone {
            inner.remove(id);
        }
    }
}

// === impl Inner ===

impl Inner {
    fn open(&mut self, id: &str, owner: &TaskOwner) -> &mut SessionTask {
        let fresh = || SessionTask { owner: owner.clone(), cached: None, asked: HashSet::new(), followed: None };
        self.tasks.entry(id.to_owned()).or_insert_with(fresh)
    }

    fn make_room(&mut self) {
        while (self.tasks.len() > MAX_TASKS || self.bytes > MAX_BYTES) && self.tasks.len() > 1 {
            let Some((_, oldest)) = self.tasks.pop_front() else { return };
            metrics::counter!("lockkeeper_backend_tasks_forgotten_total").increment(1);
            self.bytes -= oldest.size();
        }
    }

    fn remove(&mut self, id: &str) {
        if let Some(entry) = self.tasks.remove(id) {
            self.bytes -= entry.size();
        }
    }
}

impl SessionTask {
    fn size(&self) -> usize {
        self.cached.as_ref().map_or(0, |(task, _)| task.payload.json().len())
    }
}

// === impl Claim ===

impl Claim {
    /// Marks the input request as answered: it is not sent again (extension, *Task Update Requests*).
    pub(super) fn answered(mut self) {
        self.key = None;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(key) = &self.key
            && let Some(entry) = self.tasks.0.lock().tasks.get_mut(&self.id)
        {
            entry.asked.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        mcp::{Payload, Revision},
        model::SessionId,
    };

    fn owner(name: &str) -> TaskOwner {
        if name.is_empty() { Requester::Gateway } else { Requester::Session(SessionId::new(name)) }
    }

    fn detail(id: &str, size: usize) -> DetailedTask {
        let text = serde_json::json!({ "taskId": id, "status": "completed", "result": "x".repeat(size) });
        DetailedTask::read(&Payload::of(Revision::V2026_07_28, &text)).unwrap()
    }

    #[test]
    fn a_task_belongs_to_its_creator_until_the_session_ends() {
        let tasks = SessionTasks::default();
        tasks.note("T", &owner("a"));
        tasks.note("T", &owner("b"));
        assert!(tasks.is_of_another("T", &owner("b")) && !tasks.is_of_another("T", &owner("a")));
        tasks.forget(&owner("a"));
        assert!(!tasks.is_of_another("T", &owner("b")));
    }

    #[test]
    fn cached_tasks_expire_and_are_limited() {
        let (tasks, until) = (SessionTasks::default(), Timestamp::from_seconds(10));
        tasks.cache(&owner("a"), detail("1", 10), until);
        assert!(tasks.cached("1", Timestamp::from_seconds(9)).is_some());
        assert!(tasks.cached("1", until).is_none() && tasks.0.lock().bytes == 0);
        for id in 0..5 {
            tasks.cache(&owner("a"), detail(&id.to_string(), MAX_BYTES / 3), until);
        }
        let there = |id: u8| tasks.cached(&id.to_string(), Timestamp::from_seconds(0)).is_some();
        assert_eq!([0, 1, 2, 3, 4].map(there), [false, false, false, true, true]);
    }

    #[test]
    fn an_input_request_is_sent_once_unless_it_stays_unanswered() {
        let tasks = Arc::new(SessionTasks::default());
        tasks.note("T", &owner("a"));
        let claim = tasks.claim("T", "k").unwrap();
        assert!(tasks.claim("T", "k").is_none());
        drop(claim);
        tasks.claim("T", "k").unwrap().answered();
        assert!(tasks.claim("T", "k").is_none());
    }
}
