//! The registry of the tasks that clients of 2026-07-28 have at a server of 2025-11-25: who made each, its input requests,
//! and its outcome. Knows nothing of how they are asked for.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;

use super::pending_input::PendingInput;
use crate::mcp::{Context, ErrorObject};

/// How many tasks are known at once; beyond, the oldest are forgotten.
const MAX_TASKS: usize = 4_096;

/// The tasks at one server.
#[derive(Debug, Default)]
pub(super) struct UserTasks(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    tasks: HashMap<String, Arc<UserTask>>,
    order: VecDeque<String>,
}

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
        let mut inner = self.0.lock();
        if let Some(task) = inner.tasks.get(id) {
            return Arc::clone(task);
        }
        let task = Arc::new(UserTask { context: context.clone(), input: Arc::default() });
        inner.tasks.insert(id.to_owned(), Arc::clone(&task));
        inner.order.push_back(id.to_owned());
        if inner.order.len() > MAX_TASKS
            && let Some(oldest) = inner.order.pop_front()
        {
            metrics::counter!("lockkeeper_backend_tasks_forgotten_total").increment(1);
            inner.tasks.remove(&oldest);
        }
        task
    }

    /// A task, if it is known.
    ///
    /// # Errors
    ///
    /// `-32602` if it is another user's: it is as if it did not exist.
    pub(super) fn find(&self, id: &str, context: &Context) -> Result<Option<Arc<UserTask>>, ErrorObject> {
        match self.0.lock().tasks.get(id) {
            Some(task) if task.context.caller.user != context.caller.user => {
                Err(ErrorObject::invalid_params(&format!("Unknown task: {id}")))
            }
            task => Ok(task.cloned()),
        }
    }
}
