//! Detection of a server on a channel that hangs in all of its calls. Without it such a server would stay forever:
//! neither its process nor its connection ends.
//!
//! A server that is busy with one call may answer neither other calls nor a ping, so an unanswered ping by itself
//! proves nothing.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::StreamExt as _;
use tokio::time::timeout;

use super::{call::OutboundCall, state::ServerConnection};
use crate::{
    mcp::{Feature, Method, Payload, Revision},
    model::Delivery,
};

/// The number of calls cancelled for silence in a row, without a byte from the server in between, after which it is
/// pinged.
const SILENT_CALLS: u32 = 2;
/// Maximum wait for any output after the ping.
const PING_TIMEOUT: Duration = Duration::from_secs(30);

impl ServerConnection {
    /// Counts a call that was cancelled after `after` without a message. After [`SILENT_CALLS`] of them the server is
    /// pinged, and the connection ends if it stays silent.
    pub(super) fn given_up_for_silence(self: &Arc<Self>, after: Duration) {
        if self.context.abilities.delivery != Delivery::Channel || after < self.context.call_timeout {
            return;
        }
        let printed = self.transport.printed();
        if self.silence.printed.swap(printed, Ordering::Relaxed) != printed {
            self.silence.calls.store(0, Ordering::Relaxed);
        }
        if self.silence.calls.fetch_add(1, Ordering::Relaxed) + 1 == SILENT_CALLS {
            let (connection, end) = (Arc::clone(self), self.end.token().clone());
            self.context.tasks.spawn(async move {
                end.run_until_cancelled(connection.ping_or_end(printed)).await;
            });
        }
    }

    async fn ping_or_end(self: Arc<Self>, printed: u64) {
        let has_pings = self.revision().has(Feature::Sessions);
        let method = if has_pings { Method::Ping } else { Method::Discover };
        let ping = OutboundCall::of_gateway(method, Payload::absent(Revision::NEWEST_LEGACY));
        let mut answer = Box::pin(self.exchange(ping, PING_TIMEOUT * 2));
        let _ = timeout(PING_TIMEOUT, answer.next()).await;
        let is_silent = self.silence.calls.load(Ordering::Relaxed) >= SILENT_CALLS;
        if !is_silent || self.transport.printed() != printed {
            return;
        }
        let reason = format!("it gave no sign of life in {SILENT_CALLS} calls, and did not answer a ping");
        tracing::warn!(server = %self.context.backend, reason, "the server is replaced");
        self.context.oddities.note_replaced();
        self.end(&reason);
    }
}
