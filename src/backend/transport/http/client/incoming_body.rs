//! Body of a response. It drives its own connection, if no task does.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::plain::PlainConnection;

pub(crate) struct IncomingBody {
    /// `None` only while it is being dropped.
    incoming: Option<Incoming>,
    /// The connection that it arrives on, until the end of the body; `None` if a task drives that.
    connection: Option<Box<PlainConnection>>,
}

// === impl IncomingBody ===

impl IncomingBody {
    /// A body on `connection`, which is kept for another request after the end of the body.
    pub(super) fn on(connection: Box<PlainConnection>, incoming: Incoming) -> Self {
        let mut body = Self { incoming: Some(incoming), connection: Some(connection) };
        if body.is_end_stream() {
            body.release();
        }
        body
    }

    fn release(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.release();
        }
    }
}

/// A body whose connection is driven by a task.
impl From<Incoming> for IncomingBody {
    fn from(incoming: Incoming) -> Self {
        Self { incoming: Some(incoming), connection: None }
    }
}

impl Body for IncomingBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self { incoming: Some(incoming), connection } = &mut *self else { return Poll::Ready(None) };
        let polled = match connection {
            Some(connection) => connection.poll_with(cx, |cx| Pin::new(&mut *incoming).poll_frame(cx)),
            None => Pin::new(&mut *incoming).poll_frame(cx),
        };
        if matches!(polled, Poll::Ready(None)) || incoming.is_end_stream() {
            self.release();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Drop for IncomingBody {
    fn drop(&mut self) {
        // first, so that the connection discards the rest, or ends if much is missing
        self.incoming = None;
        self.release();
    }
}
