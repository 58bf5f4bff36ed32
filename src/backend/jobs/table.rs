//! Which tasks of clients without sessions are known at one server of 2025-11-25, and whose they are. Knows nothing of how
//! they are asked for.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;

use super::desk::Desk;
use crate::mcp::{Context, ErrorObject};

/// How many tasks are known at once; beyond, the oldest are forgotten.
const MOST: usize = 4_096;

/// The tasks at one server.
#[derive(Debug, Default)]
pub(crate) struct Jobs(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    jobs: HashMap<String, Arc<Job>>,
    order: VecDeque<String>,
}

/// One task.
#[derive(Debug)]
pub(super) struct Job {
    /// Who made it, and how it was reached.
    pub(super) context: Context,
    /// What it wants to know, and what it came to.
    pub(super) desk: Arc<Desk>,
}

// === impl Jobs ===

impl Jobs {
    /// Notes a task, where it is not known.
    pub(super) fn note(&self, id: &str, context: &Context) -> Arc<Job> {
        let mut inner = self.0.lock();
        if let Some(job) = inner.jobs.get(id) {
            return Arc::clone(job);
        }
        let job = Arc::new(Job { context: context.clone(), desk: Arc::default() });
        inner.jobs.insert(id.to_owned(), Arc::clone(&job));
        inner.order.push_back(id.to_owned());
        if inner.order.len() > MOST
            && let Some(oldest) = inner.order.pop_front()
        {
            metrics::counter!("lockkeeper_backend_tasks_forgotten_total").increment(1);
            inner.jobs.remove(&oldest);
        }
        job
    }

    /// A task, where it is known.
    ///
    /// # Errors
    ///
    /// `-32602` where it is another user's: it is as if it did not exist.
    pub(super) fn find(&self, id: &str, context: &Context) -> Result<Option<Arc<Job>>, ErrorObject> {
        match self.0.lock().jobs.get(id) {
            Some(job) if job.context.caller.user != context.caller.user => {
                Err(ErrorObject::invalid_params(&format!("Unknown task: {id}")))
            }
            job => Ok(job.cloned()),
        }
    }
}
