//! Changed lists that a client hears of in a call, because it has no standalone stream. Its listen tells of the same change, for
//! which no stream is there; the client hears of it once.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::mcp::{ListKind, Message, Method};

/// Time within which the listen tells of the same change.
const SAME: Duration = Duration::from_secs(5);

/// The notifications that were last passed on in calls, each with its time: one of each kind.
#[derive(Debug, Default)]
pub(super) struct ChangesInCalls(Mutex<Vec<(Method, Instant)>>);

// === impl ChangesInCalls ===

impl ChangesInCalls {
    /// True if the client is told of a changed list in a call: it has no stream for what belongs to no call.
    pub(super) fn takes(&self, method: &Method, open_streams: usize) -> bool {
        if open_streams > 0 {
            return false;
        }
        let mut heard = self.0.lock();
        heard.retain(|(other, _)| other != method);
        heard.push((method.clone(), Instant::now()));
        true
    }

    /// True if the client has just heard of this changed list in a call, and reads nothing else. Counts once.
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
