//! The silence of a server on one connection. Knows nothing of what follows from it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The silence of one connection.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// Calls that were given up since the last message.
    pub(super) calls: AtomicU32,
    /// Lines beside messages at that time.
    pub(super) printed: AtomicU64,
}

// === impl Silence ===

impl Silence {
    /// Notes a message of the server.
    pub(super) fn ends(&self) {
        if self.calls.load(Ordering::Relaxed) > 0 {
            self.calls.store(0, Ordering::Relaxed);
        }
    }
}
