//! A channel that is connected in the background: messages wait in a queue until it is open.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    interface::{Exchange, RequestTerms, ServerLocation, Transport, TransportError},
    outgoing::{self, OutgoingReceiver, OutgoingSender},
};
use crate::{backend::task_group::TaskGroup, mcp::Message, support::Account};

/// Maximum time for closing a connection.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The sender's side of a channel.
pub(super) struct QueuedTransport {
    queue: OutgoingSender,
    /// Account of the server.
    account: Account,
    stop: CancellationToken,
    closed: CancellationToken,
    location: Arc<OnceLock<ServerLocation>>,
}

/// The writer's side of a channel. Dropping it reports the connection as closed.
pub(super) struct Outgoing {
    /// Encoded messages, in order.
    pub(super) queue: OutgoingReceiver,
    /// Cancelled when the connection must be closed.
    pub(super) stop: CancellationToken,
    location: Arc<OnceLock<ServerLocation>>,
    _closed: DropGuard,
}

// === impl QueuedTransport ===

impl QueuedTransport {
    /// Creates both sides of a channel that is not connected yet.
    pub(super) fn new(tasks: &TaskGroup, account: Account) -> (Self, Outgoing) {
        let (queue, outgoing) = OutgoingSender::new();
        let (stop, closed) = (tasks.end().child_token(), CancellationToken::new());
        let location = Arc::new(OnceLock::new());
        let outgoing = Outgoing {
            queue: outgoing,
            stop: stop.clone(),
            location: Arc::clone(&location),
            _closed: closed.clone().drop_guard(),
        };
        (Self { queue, account, stop, closed, location }, outgoing)
    }
}

// === impl Outgoing ===

impl Outgoing {
    /// Records the location of the server that the channel is connected to.
    pub(super) fn connected(&self, location: ServerLocation) {
        let _ = self.location.set(location);
    }
}

impl Transport for QueuedTransport {
    fn request(&self, request: Message, terms: RequestTerms) -> Exchange {
        let queue = self.queue.clone();
        let later = move |text, charge| queue.send_charged(text, charge).map(Some);
        outgoing::exchange(self.queue.send(request.encode(), &terms.account), &terms.account, later)
    }

    fn send(&self, message: Message) -> BoxFuture<'static, Result<(), TransportError>> {
        let (queue, account) = (self.queue.clone(), self.account.clone());
        async move {
            let sent = match queue.send(message.encode(), &account) {
                Ok(sent) => sent,
                Err(not_queued) => {
                    let (text, charge) = not_queued.soon(account).await?;
                    queue.send_charged(text, charge)?
                }
            };
            sent.detach();
            Ok(())
        }
        .boxed()
    }

    fn location(&self) -> ServerLocation {
        self.location.get().copied().unwrap_or(ServerLocation::Elsewhere)
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.stop.cancel();
        let closed = self.closed.clone();
        async move {
            let _ = timeout(CLOSE_TIMEOUT * 2, closed.cancelled()).await;
        }
        .boxed()
    }
}
