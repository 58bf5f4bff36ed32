//! The HTTP answers of the front: one JSON text, or a stream of server-sent events. Knows nothing of sessions.

use std::{convert::Infallible, time::Duration};

use axum::{body::Body, response::Response};
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use http::{HeaderValue, StatusCode, header};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use crate::{
    mcp::Message,
    wire::{headers, sse},
};

/// How long an answer is waited for before the stream begins (design rule 8).
const SILENCE: Duration = Duration::from_secs(2);
/// How often an idle stream carries a comment (design rule 8).
const HEARTBEAT: Duration = Duration::from_secs(15);

/// How the answers are written where they are all there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// One response.
    Single,
    /// An array of responses (2025-03-26).
    Batch,
}

/// How an answer begins.
pub(crate) enum Begun<S> {
    /// Nothing but responses came, and they came soon.
    Whole(Vec<Message>),
    /// Something else came, or nothing yet: what is there, and the rest.
    Stream(Vec<Message>, S),
}

/// Waits for the form of the answer to a POST (design rule 8).
pub(crate) async fn begin<S>(mut messages: S) -> Begun<S>
where
    S: Stream<Item = Message> + Unpin + Send + 'static,
{
    let mut ready = Vec::new();
    let silence = sleep(SILENCE);
    tokio::pin!(silence);
    loop {
        tokio::select! {
            biased;
            message = messages.next() => match message {
                // a cancelled call has no answer: the stream ends empty
                None if ready.is_empty() => break,
                None => return Begun::Whole(ready),
                Some(message) => {
                    let response = matches!(message, Message::Response { .. });
                    ready.push(message);
                    if !response {
                        break;
                    }
                }
            },
            () = &mut silence => break,
        }
    }
    Begun::Stream(ready, messages)
}

/// The one response to a request that could not be begun.
pub(crate) fn single(message: Message) -> Response {
    json(&[message], Form::Single)
}

/// 202 without a body.
pub(crate) fn accepted() -> Response {
    empty(StatusCode::ACCEPTED)
}

/// An answer without a body.
pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// A stream of events, flushed at once by everything on the way that heeds its headers.
pub(crate) fn stream(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let mut response = Response::new(Body::from_stream(events.map(Ok::<_, Infallible>)));
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(sse::MEDIA_TYPE));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    fields.insert(headers::ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}

/// When to send comments.
pub(crate) fn heartbeat() -> tokio::time::Interval {
    let mut interval = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// One JSON text.
pub(crate) fn json(messages: &[Message], form: Form) -> Response {
    let text = match (form, messages) {
        (Form::Single, [message]) => message.encode(),
        _ => array(messages),
    };
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(headers::JSON));
    response
}

fn array(messages: &[Message]) -> Bytes {
    let mut text = BytesMut::new();
    for (index, message) in messages.iter().enumerate() {
        text.put_u8(if index == 0 { b'[' } else { b',' });
        text.put_slice(&message.encode());
    }
    text.put_u8(b']');
    text.freeze()
}
