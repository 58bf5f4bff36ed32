//! Odd behaviour of a server, logged once or shown in its status.

use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicU32, Ordering},
};

/// Odd behaviour of one server so far; shared by all its connections.
#[derive(Debug, Clone, Default)]
pub(crate) struct SeenOddities(Arc<OddityRecord>);

#[derive(Debug, Default)]
struct OddityRecord {
    /// One bit for each logged [`Oddity`].
    logged: AtomicU8,
    /// Number of times that a connection was replaced because the server was silent.
    replaced: AtomicU32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Oddity {
    /// It returns ids in another JSON type than it received them.
    IdInOtherForm = 1,
    /// It answers requests that are not open.
    StrayAnswer = 2,
}

// === impl SeenOddities ===

impl SeenOddities {
    /// Records odd behaviour. Returns true the first time.
    pub(super) fn is_first(&self, oddity: Oddity) -> bool {
        let bit = oddity as u8;
        self.0.logged.load(Ordering::Relaxed) & bit == 0 && self.0.logged.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Records that a connection was ended because the server gave no sign of life.
    pub(super) fn note_replaced(&self) {
        self.0.replaced.fetch_add(1, Ordering::Relaxed);
    }

    /// A warning for the status; `None` if no connection was replaced.
    pub(crate) fn warning(&self) -> Option<String> {
        let times = match self.0.replaced.load(Ordering::Relaxed) {
            0 => return None,
            1 => "once".to_owned(),
            times => format!("{times} times"),
        };
        Some(format!("it was replaced {times}: it gave no sign of life in calls, and did not answer a ping"))
    }
}
