//! The registry of the tasks that clients of 2026-07-28 have at a server of 2025-11-25: who made each, its input requests,
//! and its outcome. Knows nothing of how they are asked for.

use std::sync::Arc;

use hashlink::LinkedHashMap;
use parking_lot::Mutex;

use super::pending_input::PendingInput;
use crate::mcp::{Context, ErrorObject};

/// How many tasks are known at once; beyond, the oldest are forgotten.
const MAX_TASKS: usize = 4_096;

/// The tasks at one server by id, the oldest first.
#[derive(Debug, Default)]
pub(super) struct UserTasks(Mutex<LinkedHashMap<String, Arc<UserTask>>>);

/// One task.
#[derive(Debug)]
pub(super) struct UserTask {
    /// Who made it, and how it was reached.
    pub(super) context: Context,
    /// Its input requests, and its outcome.
    pub(super) input: Arc<PendingInput>,
}

// === impl UserTasks ===

impl UserTasks {
    /// Notes a task, if it is not known.
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

    /// A task, if it is known.
    ///
    /// # Errors
    ///
    /// `-32602` if it is another user's: it is as if it did not exist.
    pub(super) fn find(&self, id: &str, context: &Context) -> Result<Option<Arc<UserTask>>, ErrorObject> {
        match self.0.lock().get(id) {
            Some(task) if task.context.caller.user != context.caller.user => {
                Err(ErrorObject::invalid_params(&format!("Unknown task: {id}")))
            }
            task => Ok(task.cloned()),
        }
    }
}
