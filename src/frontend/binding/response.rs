//! HTTP responses of the MCP endpoints: one JSON text, or a stream of server-sent events with comments in between.

use std::{convert::Infallible, future::pending, iter, pin::Pin, sync::Arc, time::Duration, vec};

use axum::{body::Body, response::Response};
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use http::{HeaderValue, StatusCode, header};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use super::held_bytes::HeldBytes;
use crate::{
    frontend::{
        replay::{
            ReplayReader,
            event_id::{CallStream, EventIdPrefix},
        },
        session::Session,
        state::FrontendState,
        stateless_request::RequestMessages,
    },
    mcp::{ErrorObject, IndexedJson, Message, Method, RequestId},
    model::Caller,
    resource::StreamLease,
    support::{Account, Timestamp, gather::gather, memory::Charge},
    wire::{headers, sse},
};

/// Time after which a response that has no message yet becomes a stream (design rule 8).
const STREAM_START_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval of comments on an idle stream (design rule 8).
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Delay before a client reconnects to a closed stream.
const RETRY: Duration = Duration::from_secs(1);
/// Time that a stream may outlive its credential, so that the client can renew it.
const EXPIRY_GRACE: Duration = Duration::from_secs(30);

/// Size in bytes from which copying a payload costs more than a body in several parts.
const LARGE: usize = 16 * 1024;

/// The form of a response without stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseForm {
    /// One answer of a session.
    Session,
    /// An array of answers of a session (2025-03-26).
    Batch,
    /// One answer outside of sessions, with the status of its error (`translation` 2.2).
    Request,
}

/// The start of a response to a POST.
pub(super) enum ResponseStart<S> {
    /// The complete response, because only answers came, and in time.
    Complete(Response),
    /// A stream: the messages so far, and the rest.
    Stream(Vec<Message>, S),
}

/// The source of the messages in a stream.
pub(super) enum EventSource {
    /// The answer to a call of a session.
    Call(CallStream, ReplayReader),
    /// A standalone stream of a session.
    Standalone(ReplayReader),
    /// The answer to a request without a session: the messages so far, the rest, and the user's account. It cannot be
    /// resumed.
    Request(vec::IntoIter<Message>, RequestMessages, Account),
}

/// The user who is charged for data on its way to the client.
#[derive(Clone, Copy)]
pub(super) struct Payer<'a> {
    pub(super) state: &'a FrontendState,
    pub(super) caller: &'a Caller,
}

/// The start of a stream, its event ids, and its lifetime.
#[derive(Debug, Clone, Default)]
pub(super) struct StreamOptions {
    /// The first event; `None` for a comment, which flushes the headers.
    pub(super) opening: Option<Bytes>,
    /// The prefix of the event ids; `None` if the stream cannot be resumed.
    pub(super) ids: Option<EventIdPrefix>,
    /// The event without a message at the start.
    pub(super) priming: Priming,
    /// Time after which the stream is closed, for a client that reconnects by itself.
    pub(super) lifetime: Option<Duration>,
    /// The session whose client gets pings instead of comments while the stream is idle, because it would take comments
    /// for errors; `None` for any other client.
    pub(super) pinged: Option<Arc<Session>>,
}

/// An event with an id but no message, at the start of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Priming {
    /// Not sent, because clients of this version cannot read it.
    #[default]
    Never,
    /// Sent at once (2025-11-25, transports, *Sending Messages*).
    First,
}

/// Waits until the form of the response to a POST is known (design rule 8).
pub(super) async fn start<S>(mut messages: S, form: ResponseForm, payer: Payer<'_>) -> ResponseStart<S>
where
    S: Stream<Item = Message> + Unpin + Send + 'static,
{
    let (mut ready, mut charge) = (Vec::new(), None);
    let timeout = sleep(STREAM_START_TIMEOUT);
    tokio::pin!(timeout);
    loop {
        tokio::select! {
            biased;
            message = messages.next() => match message {
                // a cancelled call has no answer: the stream ends empty
                None if ready.is_empty() => break,
                None => return ResponseStart::Complete(json(&ready, form, payer).await),
                // the answer to a single request is the last message
                Some(answer @ Message::Response { .. }) if form != ResponseForm::Batch => {
                    return ResponseStart::Complete(json(&[answer], form, payer).await);
                }
                Some(message) => {
                    let is_answer = matches!(message, Message::Response { .. });
                    ready.push(payer.kept(message, &mut charge).await);
                    if !is_answer {
                        break;
                    }
                }
            },
            () = &mut timeout => break,
        }
    }
    ResponseStart::Stream(ready, messages)
}

/// The response for a client that accepts only JSON: all answers, once they are complete. Other messages are dropped.
pub(super) async fn answers_alone<S>(mut messages: S, form: ResponseForm, payer: Payer<'_>) -> Response
where
    S: Stream<Item = Message> + Unpin + Send + 'static,
{
    let (mut answers, mut charge) = (Vec::new(), None);
    while let Some(message) = messages.next().await {
        match message {
            Message::Response { .. } if form != ResponseForm::Batch => return json(&[message], form, payer).await,
            Message::Response { .. } => answers.push(payer.kept(message, &mut charge).await),
            Message::Notification { .. } | Message::Request { .. } => {
                metrics::counter!("lockkeeper_frontend_notifications_dropped_total").increment(1);
            }
        }
    }
    // a cancelled call has no answer
    if answers.is_empty() { accepted() } else { json(&answers, form, payer).await }
}

/// 202 without a body.
pub(super) fn accepted() -> Response {
    empty(StatusCode::ACCEPTED)
}

/// A response without a body.
pub(super) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

pub(super) async fn json(messages: &[Message], form: ResponseForm, payer: Payer<'_>) -> Response {
    let (body, status) = match (form, messages) {
        (ResponseForm::Session, [message]) => (body(message, payer).await, StatusCode::OK),
        (ResponseForm::Request, [message]) => (body(message, payer).await, status(message)),
        _ => (array(messages, payer).await, StatusCode::OK),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(headers::JSON));
    response
}

/// The text of a message. A large one is not copied, and is charged to the user.
async fn body(message: &Message, payer: Payer<'_>) -> Body {
    if message.payload_len() < LARGE {
        return Body::from(message.encode());
    }
    match Box::pin(HeldBytes::new(message.encode_in_parts(), &payer.account())).await {
        Ok(held) => Body::new(held),
        Err(_) => Body::from(instead(message).encode()),
    }
}

/// The error that replaces an answer that does not fit in memory.
fn instead(answer: &Message) -> Message {
    let id = match answer {
        Message::Response { id, .. } => id.clone(),
        Message::Request { .. } | Message::Notification { .. } => None,
    };
    Message::Response { id, outcome: Err(ErrorObject::out_of_memory()) }
}

/// A stream of events that ends with its source or with `end`. The headers ask proxies to pass on each event at once.
pub(super) fn stream(
    source: EventSource,
    options: StreamOptions,
    end: impl Future<Output = ()> + Send + 'static,
) -> Response {
    if matches!(source, EventSource::Standalone(_)) {
        // most streams are idle, and there are many: a wrapper around a stream or future would double their size
        let events: Pin<Box<dyn Stream<Item = Bytes> + Send>> = Box::pin(events(source, options, Box::pin(end)));
        return event_stream(Body::from_stream(gather(events).map(Ok::<_, Infallible>)));
    }
    let events = gather(events(source, options, end));
    event_stream(Body::from_stream(events.map(Ok::<_, Infallible>)))
}

/// A stream of one event.
pub(super) fn one_event(id: &str, message: &Message) -> Response {
    event_stream(Body::from(sse::numbered(id, &message.encode())))
}

fn event_stream(body: Body) -> Response {
    let mut response = Response::new(body);
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(sse::MEDIA_TYPE));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    fields.insert(headers::ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}

/// The ticks that keep an idle connection alive.
pub(super) fn keep_alive() -> tokio::time::Interval {
    let mut interval = interval_at(Instant::now() + KEEP_ALIVE_INTERVAL, KEEP_ALIVE_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Waits until streams of this lease must end: when it is revoked, or some time after it expires.
pub(super) fn credential_end(lease: &StreamLease, now: Timestamp) -> impl Future<Output = ()> + Send + 'static + use<> {
    let revoked = Arc::clone(&lease.revoked);
    let left = lease.expires.map(|expires| expires.since(now) + EXPIRY_GRACE);
    async move {
        tokio::select! {
            () = revoked.cancelled() => {}
            () = after(left) => {}
        }
    }
}

/// Waits until a standalone stream must end: with its session, the gateway or the credential.
pub(super) fn session_end(
    state: &FrontendState,
    session: &Session,
    credential_end: impl Future<Output = ()> + Send + 'static,
) -> impl Future<Output = ()> + Send + 'static {
    let (ended, drained) = (session.ended.clone(), state.drained.clone());
    async move {
        tokio::select! {
            () = ended.cancelled() => {}
            () = drained.cancelled() => {}
            () = credential_end => {}
        }
    }
}

fn events(
    mut source: EventSource,
    options: StreamOptions,
    end: impl Future<Output = ()> + Send + 'static,
) -> impl Stream<Item = Bytes> + Send + 'static {
    async_stream::stream! {
        yield options.first(&source);
        let (mut keep_alive, mut pings) = (keep_alive(), 0);
        let lifetime = after(options.lifetime);
        tokio::pin!(end, lifetime);
        loop {
            tokio::select! {
                biased;
                () = &mut end => break,
                () = &mut lifetime => break,
                next = source.next() => match next {
                    Some((number, message)) => {
                        let event = options.event(&source, number, &message);
                        if event.len() < LARGE {
                            yield event;
                            continue;
                        }
                        let Ok(mut held) = HeldBytes::new([event], source.account()).await else {
                            // only for streams that can be resumed
                            if let EventSource::Request(..) = source {
                                yield options.event(&source, number, &instead(&message));
                            }
                            break;
                        };
                        drop(message);
                        let is_whole = loop {
                            match held.next() {
                                Ok(Some(chunk)) => yield chunk,
                                Ok(None) => break true,
                                Err(_) => break false,
                            }
                        };
                        if !is_whole {
                            break;
                        }
                    }
                    None => break,
                },
                _ = keep_alive.tick() => match &options.pinged {
                    None => yield sse::KEEP_ALIVE,
                    // before the handshake, a client may take a request for an error
                    Some(session) if session.is_initialized() => {
                        pings += 1;
                        yield ping(pings);
                    }
                    Some(_) => {}
                },
            }
        }
    }
}

/// A ping. Its answer is ignored, like any answer to an unknown request.
fn ping(number: u64) -> Bytes {
    let id = RequestId::string(&format!("lk-alive-{number}"));
    let params = IndexedJson::default();
    sse::message(&Message::Request { id, method: Method::Ping, params }.encode())
}

/// Waits for this time; never returns for `None`.
async fn after(time: Option<Duration>) {
    match time {
        Some(time) => sleep(time).await,
        None => pending().await,
    }
}

fn status(answer: &Message) -> StatusCode {
    let Message::Response { outcome: Err(error), .. } = answer else { return StatusCode::OK };
    match error.code() {
        ErrorObject::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        ErrorObject::HEADER_MISMATCH | ErrorObject::MISSING_CAPABILITY | ErrorObject::UNSUPPORTED_VERSION => {
            StatusCode::BAD_REQUEST
        }
        _ => StatusCode::OK,
    }
}

async fn array(messages: &[Message], payer: Payer<'_>) -> Body {
    if messages.iter().map(Message::payload_len).sum::<usize>() < LARGE {
        return Body::from(array_of(messages.iter().map(Message::encode)));
    }
    let parts = messages.iter().zip([&b"["[..]].into_iter().chain(iter::repeat(&b","[..])));
    let parts =
        parts.flat_map(|(message, before)| iter::once(Bytes::from_static(before)).chain(message.encode_in_parts()));
    match Box::pin(HeldBytes::new(parts.chain([Bytes::from_static(b"]")]), &payer.account())).await {
        Ok(held) => Body::new(held),
        Err(_) => Body::from(array_of(messages.iter().map(|message| instead(message).encode()))),
    }
}

fn array_of(messages: impl Iterator<Item = Bytes>) -> Bytes {
    let mut text = BytesMut::new();
    for (index, message) in messages.enumerate() {
        text.put_u8(if index == 0 { b'[' } else { b',' });
        text.put_slice(&message);
    }
    text.put_u8(b']');
    text.freeze()
}

// === impl Payer ===

impl Payer<'_> {
    /// The account of the user.
    pub(super) fn account(self) -> Account {
        self.state.sessions.account(self.caller)
    }

    /// The message, with a charge for its memory; an error instead if there is no memory for it.
    async fn kept(self, message: Message, charge: &mut Option<Charge>) -> Message {
        let length = message.payload_len();
        if length < LARGE {
            return message;
        }
        let charge = charge.get_or_insert_with(|| Charge::nothing(self.account()));
        if Box::pin(charge.grow_soon(length)).await.is_ok() { message } else { instead(&message) }
    }
}

// === impl EventSource ===

impl EventSource {
    /// The next message, with its number in its stream.
    async fn next(&mut self) -> Option<(u64, Message)> {
        match self {
            Self::Call(_, reader) | Self::Standalone(reader) => reader.next().await,
            Self::Request(ready, rest, _) => match ready.next() {
                Some(message) => Some((0, message)),
                None => rest.next().await.map(|message| (0, message)),
            },
        }
    }

    /// The account of the user.
    fn account(&self) -> &Account {
        match self {
            Self::Call(_, reader) | Self::Standalone(reader) => reader.account(),
            Self::Request(.., account) => account,
        }
    }

    /// The number before the first event.
    const fn start(&self) -> u64 {
        match self {
            Self::Call(_, reader) | Self::Standalone(reader) => reader.after(),
            Self::Request(..) => 0,
        }
    }

    /// The id of an event; `None` in a stream that cannot be resumed.
    fn id(&self, prefix: &EventIdPrefix, number: u64) -> Option<String> {
        match self {
            Self::Call(stream, _) => Some(prefix.answer(stream, number)),
            Self::Standalone(reader) => Some(prefix.standalone(reader.stream(), number)),
            Self::Request(..) => None,
        }
    }
}

// === impl StreamOptions ===

impl StreamOptions {
    fn first(&self, source: &EventSource) -> Bytes {
        let id = || source.id(self.ids.as_ref()?, source.start());
        match &self.opening {
            Some(opening) => opening.clone(),
            None if self.priming == Priming::First => id().map_or(sse::KEEP_ALIVE, |id| sse::priming(&id, RETRY)),
            None => sse::KEEP_ALIVE,
        }
    }

    fn event(&self, source: &EventSource, number: u64, message: &Message) -> Bytes {
        match self.ids.as_ref().and_then(|prefix| source.id(prefix, number)) {
            Some(id) => sse::numbered(&id, &message.encode()),
            None => sse::message(&message.encode()),
        }
    }
}
