//! Changed lists that a client is notified of in a call, because it has no standalone stream. The session's listen gets
//! the same notification but has no stream to send it on, so the client gets it only once.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::mcp::{ListKind, Message, Method};

/// Time within which the listen gets the same notification.
const SAME: Duration = Duration::from_secs(5);

/// The latest notification of each kind that was sent in a call, with its time.
#[derive(Debug, Default)]
pub(super) struct ChangesInCalls(Mutex<Vec<(Method, Instant)>>);

// === impl ChangesInCalls ===

impl ChangesInCalls {
    /// True if the client is notified of a changed list in a call, because it has no stream for messages outside of
    /// calls.
    pub(super) fn takes(&self, method: &Method, open_streams: usize) -> bool {
        if open_streams > 0 {
            return false;
        }
        let mut heard = self.0.lock();
        heard.retain(|(other, _)| other != method);
        heard.push((method.clone(), Instant::now()));
        true
    }

    /// True if the client just got this notification in a call, and has no other stream. True only once for each
    /// notification.
    pub(super) fn heard(&self, message: &Message, open_streams: usize) -> bool {
        let Message::Notification { method, .. } = message else { return false };
        if ListKind::changed_by(method).is_empty() {
            return false;
        }
        let mut heard = self.0.lock();
        let Some(at) = heard.iter().position(|(other, _)| other == method) else { return false };
        let (_, at) = heard.swap_remove(at);
        at.elapsed() < SAME && open_streams == 0
    }
}
