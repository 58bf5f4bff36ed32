//! The bodies of a request and its response, which report their progress to the [`Connection`].

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{BoxError, body::Body};
use bytes::Bytes;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};

use super::connection::Connection;

#[derive(Debug)]
pub(super) struct RequestBody {
    incoming: Option<Incoming>,
    invitation: BodyInvitation,
    connection: Arc<Connection>,
}

/// State of `Expect: 100-continue` (RFC 9110 10.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyInvitation {
    /// The client sends the body without waiting, or has been asked to send it.
    Given,
    /// The client waits. Reading the body invites the client to send it. If the answer comes without that, the body may
    /// follow or not.
    Awaited,
}

#[derive(Debug)]
pub(super) struct ResponseBody {
    body: Body,
    connection: Arc<Connection>,
}

// === impl RequestBody ===

impl RequestBody {
    /// Reports the progress of `incoming` to `connection`.
    pub(super) const fn new(incoming: Incoming, invitation: BodyInvitation, connection: Arc<Connection>) -> Self {
        Self { incoming: Some(incoming), invitation, connection }
    }
}

impl hyper::body::Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.invitation = BodyInvitation::Given;
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(None) };
        let frame = Pin::new(&mut *incoming).poll_frame(cx);
        let ended = incoming.is_end_stream();
        match &frame {
            Poll::Pending => self.connection.awaits_body(),
            Poll::Ready(Some(Ok(frame))) if !ended => {
                self.connection.got_body(frame.data_ref().map_or(0, Bytes::len));
            }
            Poll::Ready(Some(Ok(_)) | None) => {
                self.incoming = None;
                self.connection.has_body();
            }
            Poll::Ready(Some(Err(_))) => {
                self.incoming = None;
                self.connection.abandons_body();
            }
        }
        frame.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        match self.incoming.take() {
            Some(incoming) if incoming.is_end_stream() => self.connection.has_body(),
            Some(_) if self.invitation == BodyInvitation::Awaited => self.connection.abandons_body(),
            Some(incoming) => self.connection.leaves_body(incoming),
            None => {}
        }
    }
}

// === impl ResponseBody ===

impl ResponseBody {
    /// Reports the progress of `body` to `connection`.
    pub(super) const fn new(body: Body, connection: Arc<Connection>) -> Self {
        Self { body, connection }
    }
}

impl hyper::body::Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.connection.sent();
    }
}
