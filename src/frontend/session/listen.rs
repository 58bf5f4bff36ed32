//! The listen of a session: puts all server messages outside of calls into the session's queue (design rule 13).

use std::sync::Arc;

use futures_util::StreamExt as _;

use super::{
    exchange::{OnDisconnect, SessionExchange},
    inbound::Inbound,
};
use crate::mcp::{Call, Method, Payload};

// === impl Inbound ===

impl Inbound<'_> {
    /// Opens the session's listen, unless it is open for the same caller.
    pub(crate) fn listen(&self) {
        let Some(client) = self.session.client() else { return };
        let mut slot = self.session.listen.lock();
        if let Some((caller, cancelled)) = slot.as_ref() {
            if **caller == *self.sender.admission.caller && !cancelled.is_cancelled() {
                return;
            }
            cancelled.cancel();
        }
        let cancelled = self.session.ended.child_token();
        *slot = Some((Arc::clone(&self.sender.admission.caller), cancelled.clone()));
        drop(slot);
        let call =
            Call { method: Method::Listen, params: Payload::absent(client.revision), context: self.context(client) };
        let context = self.exchange_context(OnDisconnect::Cancel, &call);
        let session = Arc::clone(self.session);
        let mut messages = SessionExchange::listen(
            Arc::clone(&session),
            self.sender.servers.sessions.call(call),
            cancelled.clone(),
            context,
        );
        self.state.tracker.spawn(async move {
            let mut level = session.level.subscribe();
            loop {
                tokio::select! {
                    // checked first, so that the listen below has noticed the level before it waits
                    biased;
                    message = messages.next() => match message {
                        Some(message) if session.changes_in_calls.heard(&message, session.queue.open_streams()) => {}
                        Some(message) => {
                            let writer = messages.writer();
                            session.queue.push_by(message, writer.as_ref().unwrap_or(&session.user.account));
                        }
                        None => break,
                    },
                    Ok(()) = level.changed() => session.level_noticed.notify_waiters(),
                }
            }
            // so that the next stream opens another listen
            cancelled.cancel();
        });
    }
}
