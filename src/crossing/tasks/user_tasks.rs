//! Registry of tasks that clients of 2026-07-28 have at a server of 2025-11-25: creators, input requests, and outcomes.
//! Knows nothing of requests.

use std::sync::Arc;

use hashlink::LinkedHashMap;
use parking_lot::Mutex;

use super::pending_input::PendingInput;
use crate::mcp::{Context, ErrorObject};

/// Maximum number of tasks; the oldest are removed.
const MAX_TASKS: usize = 4_096;

/// Tasks at one server by id, the oldest first.
#[derive(Debug, Default)]
pub(super) struct UserTasks(Mutex<LinkedHashMap<String, Arc<UserTask>>>);

/// One task.
#[derive(Debug)]
pub(super) struct UserTask {
    /// The context of the call that created it.
    pub(super) context: Context,
    /// Input requests and outcome.
    pub(super) input: Arc<PendingInput>,
}

// === impl UserTasks ===

impl UserTasks {
    /// Stores a task, unless it is known.
    pub(super) fn note(&self, id: &str, context: &Context) -> Arc<UserTask> {
        let mut tasks = self.0.lock();
        if let Some(task) = tasks.get(id) {
            return Arc::clone(task);
        }
        let task = Arc::new(UserTask { context: context.clone(), input: Arc::default() });
        tasks.insert(id.to_owned(), Arc::clone(&task));
        if tasks.len() > MAX_TASKS {
            metrics::counter!("lockkeeper_backend_tasks_forgotten_total").increment(1);
            tasks.pop_front();
        }
        task
    }

    /// Finds a task.
    ///
    /// # Errors
    ///
    /// `-32602` for another user's task, as for an unknown one.
    pub(super) fn find(&self, id: &str, context: &Context) -> Result<Option<Arc<UserTask>>, ErrorObject> {
        match self.0.lock().get(id) {
            Some(task) if task.context.caller.user != context.caller.user => {
                Err(ErrorObject::invalid_params(&format!("Unknown task: {id}")))
            }
            task => Ok(task.cloned()),
        }
    }
}
