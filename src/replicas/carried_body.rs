//! The body of an answer from another replica, which breaks off when that replica is gone: a stopped peer does not
//! close its connections.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};

/// A body from another replica.
pub(super) struct CarriedBody {
    body: Incoming,
    silence: BoxFuture<'static, ()>,
}

// === impl CarriedBody ===

impl CarriedBody {
    /// The body of a replica's answer; the replica sends nothing more after `silence`.
    pub(super) fn new(body: Incoming, silence: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { body, silence: silence.boxed() }
    }
}

impl HttpBody for CarriedBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        ready!(self.silence.poll_unpin(cx));
        let reason = "the replica that answers is gone";
        Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::ConnectionAborted, reason).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
