//! Facts from a server's lists and server information, for the layers around it.

use std::sync::atomic::{AtomicU8, Ordering};

use super::output_checks::OutputChecks;

/// Facts of one server. The catalog writes them, and layers read them.
#[derive(Debug, Default)]
pub struct ServerFacts {
    /// Checks of results by the output schemas of its tools.
    pub(crate) outputs: OutputChecks,
    /// Declared tasks: unknown (0), or one of the values below.
    tasks: AtomicU8,
}

const TASKS_NONE: u8 = 1;
const TASKS_SOME: u8 = 2;

// === impl ServerFacts ===

impl ServerFacts {
    /// Notes whether server information declares tasks, in either form.
    pub(crate) fn note_tasks(&self, has_tasks: bool) {
        // a server may offer less to some users
        self.tasks.fetch_max(if has_tasks { TASKS_SOME } else { TASKS_NONE }, Ordering::Relaxed);
    }

    /// True if the server has described itself, and never declared tasks to anyone.
    pub(crate) fn lacks_tasks(&self) -> bool {
        self.tasks.load(Ordering::Relaxed) == TASKS_NONE
    }
}
