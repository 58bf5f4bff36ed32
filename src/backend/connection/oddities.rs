//! Oddities of one server that are logged once. Knows nothing of what is done about them.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

/// Oddities that were seen of one server; shared by all its connections.
#[derive(Debug, Clone, Default)]
pub(crate) struct SeenOddities(Arc<AtomicU8>);

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
        self.0.load(Ordering::Relaxed) & bit == 0 && self.0.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }
}
