//! Tasks in sessions whose servers run at this replica, and tasks whose results were not fetched yet. A replica that is
//! about to stop keeps their sessions for a while.

use std::{collections::HashMap, sync::Arc, time::Duration};

use hashlink::LinkedHashMap;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::{
    mcp::{Event, Method, Outcome, Payload, Reply, json::Object, task::CreatedTask},
    model::SessionId,
    support::Digest,
};

/// Maximum number of tasks that are remembered for one session. Beyond it, the oldest are forgotten.
const MAX_UNFINISHED: usize = 1_000;
/// Time within which the client is expected to fetch the result of a finished task.
const FETCHED_WITHIN: Duration = Duration::from_secs(10);
/// Time to remember a task without a lifetime.
const LIFETIME: Duration = Duration::from_hours(24);

/// The tasks of all sessions.
#[derive(Debug, Default)]
pub(crate) struct UnfinishedTasks {
    /// The digest of each task's id, by session, and the time until which the task is remembered.
    sessions: Mutex<HashMap<SessionId, LinkedHashMap<Digest, Instant>>>,
    changed: Notify,
}

// === impl UnfinishedTasks ===

impl UnfinishedTasks {
    /// Passes on the reply to a call of this session, and reads from it how tasks go on.
    pub(crate) fn watch(self: &Arc<Self>, reply: Reply, session: &SessionId, method: Method, params: Payload) -> Reply {
        let (registry, session) = (Arc::clone(self), session.clone());
        reply.map(move |event| {
            if let Event::Done(outcome) = &event {
                registry.note(&session, &method, &params, outcome);
            }
            event
        })
    }

    /// True if replies to this method may mention tasks.
    pub(crate) const fn concerns(method: &Method) -> bool {
        matches!(method, Method::ToolsCall | Method::TasksGet | Method::TasksCancel | Method::TasksResult)
    }

    /// Records how a task goes on, from the reply to a call of this session.
    fn note(&self, session: &SessionId, method: &Method, params: &Payload, outcome: &Outcome) {
        match (method, outcome) {
            (Method::ToolsCall, Outcome::Complete(result)) => {
                if let Some(task) = CreatedTask::read(result).filter(|task| !task.has_ended()) {
                    self.add(session, &task);
                }
            }
            (Method::TasksGet | Method::TasksCancel, Outcome::Complete(result)) => {
                let task = Object::parse(result.json()).and_then(|object| CreatedTask::of(&object));
                if let Some(task) = task.filter(CreatedTask::has_ended) {
                    self.has_ended(session, &task.id);
                }
            }
            (Method::TasksResult, Outcome::Complete(_)) => self.remove_named(session, params),
            // the task has ended or is unknown
            (Method::TasksResult | Method::TasksGet, Outcome::Failed(error)) if !error.may_pass() => {
                self.remove_named(session, params);
            }
            _ => {}
        }
    }

    /// True if a task of this session is not finished.
    pub(crate) fn has(&self, session: &SessionId) -> bool {
        let now = Instant::now();
        self.sessions.lock().get(session).is_some_and(|tasks| tasks.values().any(|until| *until > now))
    }

    /// Forgets a session that has ended.
    pub(crate) fn forget(&self, session: &SessionId) {
        if self.sessions.lock().remove(session).is_some() {
            self.changed.notify_waiters();
        }
    }

    /// Waits until all tasks are finished.
    pub(crate) async fn all_ended(&self) {
        loop {
            let changed = self.changed.notified();
            let Some(last) = self.last() else { return };
            tokio::select! {
                () = changed => {}
                () = sleep_until(last) => {}
            }
        }
    }

    /// True if some task is unfinished.
    pub(crate) fn has_any(&self) -> bool {
        self.last().is_some()
    }

    /// The latest time until which some unfinished task is remembered.
    fn last(&self) -> Option<Instant> {
        let last = self.sessions.lock().values().flat_map(LinkedHashMap::values).max().copied();
        last.filter(|last| *last > Instant::now())
    }

    fn add(&self, session: &SessionId, task: &CreatedTask) {
        let until = Instant::now() + task.ttl.unwrap_or(LIFETIME).min(LIFETIME);
        let mut sessions = self.sessions.lock();
        let tasks = sessions.entry(session.clone()).or_default();
        tasks.replace(Digest::sha256(&task.id), until);
        if tasks.len() > MAX_UNFINISHED {
            tasks.pop_front();
        }
    }

    fn has_ended(&self, session: &SessionId, id: &str) {
        let until = Instant::now() + FETCHED_WITHIN;
        if let Some(task) = self.sessions.lock().get_mut(session).and_then(|tasks| tasks.get_mut(&Digest::sha256(id))) {
            *task = until.min(*task);
        }
        self.changed.notify_waiters();
    }

    /// Forgets the task that a request names.
    fn remove_named(&self, session: &SessionId, params: &Payload) {
        let Some(id) = params.string("taskId") else { return };
        let mut sessions = self.sessions.lock();
        let Some(tasks) = sessions.get_mut(session) else { return };
        tasks.remove(&Digest::sha256(&id));
        if tasks.is_empty() {
            sessions.remove(session);
        }
        drop(sessions);
        self.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;
    use serde_json::{Value, json};
    use tokio::time::advance;

    use super::*;
    use crate::{
        mcp::{
            ErrorObject, Revision,
            error::{Retry, Unavailable},
        },
        model::BackendId,
    };

    fn payload(value: &Value) -> Payload {
        Payload::of(Revision::V2025_11_25, value)
    }

    struct Told(UnfinishedTasks, SessionId);

    impl Told {
        fn new() -> Self {
            Self(UnfinishedTasks::default(), SessionId::new("s"))
        }

        fn tell(&self, method: &Method, id: &str, result: &Value) {
            let params = payload(&json!({ "taskId": id }));
            self.0.note(&self.1, method, &params, &Outcome::Complete(payload(result)));
        }

        fn create(&self, id: &str, ttl: u64) {
            let task = json!({ "task": { "taskId": id, "status": "working", "ttl": ttl } });
            self.tell(&Method::ToolsCall, "", &task);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_is_unfinished_until_its_result_was_fetched() {
        let told = Told::new();
        told.tell(&Method::ToolsCall, "", &json!({ "content": [] }));
        assert!(!told.0.has(&told.1));
        told.create("a", 60_000);
        told.tell(&Method::TasksGet, "a", &json!({ "taskId": "a", "status": "working" }));
        let mut ended = Box::pin(told.0.all_ended());
        assert!(told.0.has(&told.1) && poll!(&mut ended).is_pending());
        assert!(!told.0.has(&SessionId::new("another")));
        told.tell(&Method::TasksGet, "a", &json!({ "taskId": "a", "status": "completed" }));
        assert!(told.0.has(&told.1) && poll!(&mut ended).is_pending());
        told.tell(&Method::TasksResult, "a", &json!({ "content": [] }));
        assert!(!told.0.has(&told.1));
        ended.await;
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_task_for_ever() {
        let told = Told::new();
        told.create("ends", 60_000);
        told.tell(&Method::TasksGet, "ends", &json!({ "taskId": "ends", "status": "failed" }));
        told.create("expires", 12_000);
        let begin = Instant::now();
        told.0.all_ended().await;
        assert_eq!(begin.elapsed(), Duration::from_secs(12));
        told.create("lost", 60_000);
        let params = payload(&json!({ "taskId": "lost" }));
        told.0.note(&told.1, &Method::TasksGet, &params, &Outcome::Failed(ErrorObject::unknown_task()));
        told.create("of a session that ends", 60_000);
        told.0.forget(&told.1);
        told.0.all_ended().await;
        assert!(!told.0.has(&told.1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_poll_that_fails_for_a_time_says_nothing_of_its_task() {
        let told = Told::new();
        told.create("a", 60_000);
        let params = payload(&json!({ "taskId": "a" }));
        let (backend, busy) = (BackendId::parse("b").unwrap(), "its database is away");
        let passing = Unavailable { backend: &backend, reason: busy, retry: Retry::Possible, supported: &[] };
        for method in [Method::TasksGet, Method::TasksResult] {
            let failed = Outcome::Failed(ErrorObject::unavailable(busy, &passing));
            told.0.note(&told.1, &method, &params, &failed);
        }
        assert!(told.0.has(&told.1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_tasks_of_a_session_are_bounded_and_those_of_another_stay() {
        let (greedy, other) = (Told::new(), SessionId::new("other"));
        greedy.0.add(&other, &CreatedTask { id: "mine".to_owned(), ttl: None, status: None });
        for id in 0..=MAX_UNFINISHED {
            greedy.create(&id.to_string(), 60_000);
        }
        assert_eq!(greedy.0.sessions.lock()[&greedy.1].len(), MAX_UNFINISHED);
        assert!(greedy.0.has(&other));
        advance(LIFETIME).await;
        assert!(!greedy.0.has(&other) && !greedy.0.has(&greedy.1));
    }
}
