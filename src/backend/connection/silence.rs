//! Silence of a server on one connection: calls in a row that timed out, as `wedged` counts them.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

#[derive(Debug, Default)]
pub(super) struct Silence {
    /// Calls cancelled for silence since the last message.
    pub(super) calls: AtomicU32,
    /// Number of lines outside of messages when the last of these calls was cancelled.
    pub(super) printed: AtomicU64,
}

// === impl Silence ===

impl Silence {
    /// Resets the count: the server has sent a message.
    pub(super) fn ends(&self) {
        if self.calls.load(Ordering::Relaxed) > 0 {
            self.calls.store(0, Ordering::Relaxed);
        }
    }
}
