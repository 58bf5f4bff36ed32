//! Tasks that the client runs for requests of this connection's server (2025-11-25, tasks). A client may run tasks for
//! several servers, and each server reaches only its own.

use hashlink::LinkedHashMap;
use parking_lot::Mutex;

use crate::mcp::{Method, Payload, control::is_ambiguous, task};

/// Maximum number of tasks for one connection; the oldest are removed.
const MAX_TASKS: usize = 1_000;

/// The tasks, the oldest first.
#[derive(Debug, Default)]
pub(super) struct ClientTasks(Mutex<LinkedHashMap<String, ()>>);

// === impl ClientTasks ===

impl ClientTasks {
    /// True if a message about tasks concerns one of these tasks, or no particular one.
    pub(super) fn may_reach(&self, method: &Method, params: &Payload) -> bool {
        match params.member("taskId") {
            None => true,
            // two readers could take an ambiguous id for different tasks
            Some(_) if is_ambiguous(method, params) => false,
            Some(_) => params.string("taskId").is_some_and(|id| self.0.lock().contains_key(&id)),
        }
    }

    /// The client's answer as the server may see it: a list has only this server's tasks. Records a task that the
    /// client created.
    pub(super) fn answered(&self, method: &Method, answer: Payload) -> Payload {
        match method {
            Method::TasksList => self.own_part(&answer),
            Method::CreateMessage | Method::Elicit => {
                if let Some(id) = task::created(&answer) {
                    let mut tasks = self.0.lock();
                    tasks.replace(id, ());
                    if tasks.len() > MAX_TASKS {
                        tasks.pop_front();
                    }
                }
                answer
            }
            _ => answer,
        }
    }

    fn own_part(&self, page: &Payload) -> Payload {
        let (listed, tasks) = (task::listed(page), self.0.lock());
        let own = listed.into_iter().filter(|(task, _)| tasks.contains_key(&task.id)).map(|(_, entry)| entry);
        task::with_listed(page, &own.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::mcp::Revision;

    fn payload(text: &'static str) -> Payload {
        Payload::new(Revision::V2025_11_25, Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn a_server_reaches_only_the_tasks_of_its_own_questions() {
        let (one, other) = (ClientTasks::default(), ClientTasks::default());
        one.answered(&Method::CreateMessage, payload(r#"{"task":{"taskId":"c1","status":"working"}}"#));
        let params = payload(r#"{"taskId":"c1"}"#);
        assert!(one.may_reach(&Method::TasksResult, &params) && !other.may_reach(&Method::TasksResult, &params));
        for odd in [r#"{"taskId":1}"#, r#"{"taskId":"c2","taskId":"c1"}"#, r#"{"taskId":"c1","TaskId":"c2"}"#] {
            assert!(!one.may_reach(&Method::TasksGet, &payload(odd)), "{odd}");
        }
        let page = r#"{"tasks":[{"taskId":"c1"},{"taskId":"c2"}],"x":1.0}"#;
        assert_eq!(one.answered(&Method::TasksList, payload(page)).json(), r#"{"tasks":[{"taskId":"c1"}],"x":1.0}"#);
        assert_eq!(other.answered(&Method::TasksList, payload(page)).json(), r#"{"tasks":[],"x":1.0}"#);
    }

    #[test]
    fn the_oldest_task_of_a_connection_leaves_first() {
        let tasks = ClientTasks::default();
        for id in 0..=MAX_TASKS {
            let answer = serde_json::json!({ "task": { "taskId": id.to_string() } });
            tasks.answered(&Method::Elicit, Payload::of(Revision::V2025_11_25, &answer));
        }
        let params = |id: usize| Payload::of(Revision::V2025_11_25, &serde_json::json!({ "taskId": id.to_string() }));
        assert!(!tasks.may_reach(&Method::TasksGet, &params(0)) && tasks.may_reach(&Method::TasksGet, &params(1)));
    }
}
