//! A channel that has to be connected first: messages wait in a queue until then. Knows nothing of how they are framed.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::interface::{ServerLocation, Transport, TransportError};
use crate::{backend::task_group::TaskGroup, mcp::Message};

/// Messages that wait for a server that does not read. Callers wait beyond that, each for itself.
const QUEUE: usize = 64;
/// Maximum time for the end of a connection.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The sender's side of a channel.
pub(super) struct QueuedTransport {
    queue: mpsc::Sender<Bytes>,
    stop: CancellationToken,
    closed: CancellationToken,
    location: Arc<OnceLock<ServerLocation>>,
}

/// The writer's side of a channel. Dropping it means that the connection is closed.
pub(super) struct Outgoing {
    /// Encoded messages, in order.
    pub(super) queue: mpsc::Receiver<Bytes>,
    /// Cancelled when the connection is to be closed.
    pub(super) stop: CancellationToken,
    location: Arc<OnceLock<ServerLocation>>,
    _closed: DropGuard,
}

// === impl QueuedTransport ===

impl QueuedTransport {
    /// Both sides of a channel that is not connected yet.
    pub(super) fn new(tasks: &TaskGroup) -> (Self, Outgoing) {
        let (queue, outgoing) = mpsc::channel(QUEUE);
        let (stop, closed) = (tasks.end().child_token(), CancellationToken::new());
        let location = Arc::new(OnceLock::new());
        let outgoing = Outgoing {
            queue: outgoing,
            stop: stop.clone(),
            location: Arc::clone(&location),
            _closed: closed.clone().drop_guard(),
        };
        (Self { queue, stop, closed, location }, outgoing)
    }
}

// === impl Outgoing ===

impl Outgoing {
    /// Stores where the server runs that the channel was connected to.
    pub(super) fn connected(&self, location: ServerLocation) {
        let _ = self.location.set(location);
    }
}

impl Transport for QueuedTransport {
    fn send(&self, message: Message) -> BoxFuture<'static, Result<(), TransportError>> {
        let queue = self.queue.clone();
        async move {
            let closed = |_| TransportError::Gone("the connection is closed".to_owned());
            queue.send(message.encode()).await.map_err(closed)
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
