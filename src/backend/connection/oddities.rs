//! Oddities of one server that are logged once, or shown in its status. Knows nothing of what is done about them.

use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicU32, Ordering},
};

/// Oddities that were seen of one server; shared by all its connections.
#[derive(Debug, Clone, Default)]
pub(crate) struct SeenOddities(Arc<OddityRecord>);

#[derive(Debug, Default)]
struct OddityRecord {
    /// Those that were logged.
    logged: AtomicU8,
    /// The times that it was replaced because it was silent.
    replaced: AtomicU32,
}

/// An oddity.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Oddity {
    /// It returns ids in another form than they were sent in.
    IdInOtherForm = 1,
    /// It answers requests that are not open.
    StrayAnswer = 2,
}

// === impl SeenOddities ===

impl SeenOddities {
    /// Notes an oddity. Returns true at the first time.
    pub(super) fn is_first(&self, oddity: Oddity) -> bool {
        let bit = oddity as u8;
        self.0.logged.load(Ordering::Relaxed) & bit == 0 && self.0.logged.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Notes that a connection was ended because the server gave no sign of life.
    pub(super) fn note_replaced(&self) {
        self.0.replaced.fetch_add(1, Ordering::Relaxed);
    }

    /// A warning for the status, if it was replaced.
    pub(crate) fn warning(&self) -> Option<String> {
        let times = match self.0.replaced.load(Ordering::Relaxed) {
            0 => return None,
            1 => "once".to_owned(),
            times => format!("{times} times"),
        };
        Some(format!("it was replaced {times}: it gave no sign of life in calls, and did not answer a ping"))
    }
}
