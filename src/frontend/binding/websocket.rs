//! WebSocket (no released version of MCP has it; `translation` 2.5): subprotocol `mcp`, one message a text frame. For
//! legacy clients the connection is the session; requests of 2026-07-28 run beside it, each by itself. Closing the
//! connection cancels everything on it.
//!
//! One task reads, serves and writes. Messages to be written go through a bounded queue, so that a slow reader keeps no
//! cancellation from its call.

use std::{
    future::{pending, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    extract::{
        State, WebSocketUpgrade,
        ws::{CloseFrame, Message as Frame, Utf8Bytes, close_code},
    },
    response::Response,
};
use bytes::Bytes;
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _, stream::SelectAll};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    refusal::RequestRefusal,
    request_head::{EnvelopedRequest, RequestHead, Semantics, VersionHeader, choose},
    response::{credential_end, keep_alive},
};
use crate::{
    frontend::{
        replay::{ReplayBuffer, ReplayReader},
        request::{RequestEnvelope, RequestMessages, Served, StatelessRequest},
        session::{RunningCalls, Session, exchange::SessionExchange, inbound::Inbound},
        state::{FrontendState, Sender},
    },
    mcp::{
        CancelReason, ErrorObject, Message, Method,
        jsonrpc::{Frame as Text, Malformed},
    },
};

/// The subprotocol.
const SUBPROTOCOL: &str = "mcp";
/// The time without any frame, pongs included, after which a client counts as gone.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(45);
/// The time in which the client has to read that the connection is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// One connection.
struct WebSocketConnection {
    state: Arc<FrontendState>,
    sender: Sender,
    /// Messages to be written.
    queue: Arc<ReplayBuffer>,
    /// `None` until a client with a handshake begins it.
    session: Option<Arc<Session>>,
    /// The requests of 2026-07-28.
    requests: Arc<RunningCalls>,
    /// The time of the client's last frame.
    last_frame: Instant,
}

/// One answer on its way.
enum AnswerStream {
    Session(SessionExchange),
    Request(RequestMessages),
}

/// Opens a connection.
pub(super) async fn get(
    State(state): State<Arc<FrontendState>>,
    upgrade: WebSocketUpgrade,
    head: RequestHead,
) -> Result<Response, RequestRefusal> {
    let max = state.settings.body;
    let upgrade = upgrade.protocols([SUBPROTOCOL]).max_message_size(max).max_frame_size(max);
    if upgrade.selected_protocol().is_none() {
        return Err(RequestRefusal::invalid("Bad Request: the WebSocket subprotocol `mcp` must be offered"));
    }
    let token = state.tracker.token();
    Ok(upgrade.on_upgrade(move |socket| async move {
        WebSocketConnection::new(state, head.sender).serve(socket).await;
        drop(token);
    }))
}

// === impl WebSocketConnection ===

impl WebSocketConnection {
    fn new(state: Arc<FrontendState>, sender: Sender) -> Self {
        let queue = state.sessions.queue(sender.endpoint.binding);
        let requests = RunningCalls::new(state.settings.calls_per_session, CancellationToken::new());
        Self { state, sender, queue, session: None, requests, last_frame: Instant::now() }
    }

    /// Serves the connection until it ends.
    async fn serve<S, E>(mut self, socket: S)
    where
        S: Stream<Item = Result<Frame, E>> + Sink<Frame>,
    {
        let (mut sink, mut frames) = socket.split();
        let credential_end = credential_end(&self.sender.admission.lease, self.state.clock.now());
        let (drained, reader) = (self.state.drained.clone(), self.queue.attach());
        tokio::select! {
            () = self.read(&mut frames) => {}
            () = write(reader, &mut sink) => {}
            () = drained.cancelled() => {}
            () = credential_end => {}
        }
        // everything on it is cancelled before the peer is waited for
        drop(self);
        let closed = Frame::Close(Some(CloseFrame { code: close_code::AWAY, reason: Utf8Bytes::default() }));
        let _ = timeout(CLOSE_TIMEOUT, sink.send(closed)).await;
    }

    /// Reads and serves messages until the client closes the connection, or the session ends.
    async fn read<E>(&mut self, frames: &mut (impl Stream<Item = Result<Frame, E>> + Unpin)) {
        let mut answers = SelectAll::new();
        let mut checks = keep_alive();
        loop {
            tokio::select! {
                frame = frames.next() => match frame {
                    Some(Ok(Frame::Text(text))) => {
                        self.last_frame = Instant::now();
                        answers.extend(self.receive(&Bytes::from(text)).await);
                    }
                    Some(Ok(Frame::Ping(_) | Frame::Pong(_))) => self.last_frame = Instant::now(),
                    // a message is text
                    Some(Ok(Frame::Binary(_) | Frame::Close(_)) | Err(_)) | None => return,
                },
                Some(message) = answers.next(), if !answers.is_empty() => self.queue.push(message),
                () = ended(self.session.as_deref()) => return,
                _ = checks.tick() => {
                    if self.last_frame.elapsed() >= SILENCE_TIMEOUT {
                        return;
                    }
                }
            }
        }
    }

    /// Starts to serve a frame.
    async fn receive(&mut self, text: &Bytes) -> Vec<AnswerStream> {
        let text = Text::parse(text).and_then(Text::unambiguous);
        let served = match choose(self.state.settings.serves, VersionHeader::Absent, text) {
            Ok(Semantics::Request(request)) => Ok(self.request(request)),
            Ok(Semantics::Notification(method, params)) => {
                if method == Method::Cancelled {
                    self.requests.cancel_named(&params);
                }
                Ok(Vec::new())
            }
            Ok(Semantics::Session(Ok(Text::Single(message)))) => self.message(message).await,
            Ok(Semantics::Session(Ok(Text::Batch(messages)))) => self.batch(messages).await,
            Ok(Semantics::Session(Err(malformed))) => Err(RequestRefusal::malformed(&malformed)),
            Err(refusal) => Err(refusal),
        };
        served.unwrap_or_else(|refusal| {
            let revision = self.session.as_ref().and_then(|session| Some(session.client()?.revision));
            self.queue.push(refusal.toward(revision).into_message());
            Vec::new()
        })
    }

    /// Begins to serve a request that stands alone.
    fn request(&self, EnvelopedRequest { id, method, params, envelope }: EnvelopedRequest) -> Vec<AnswerStream> {
        let cancel_reason = CancelReason::new("client disconnected");
        let served = RequestEnvelope::read(&envelope).and_then(|envelope| {
            envelope.check(&method)?;
            let guard = self.requests.begin(Some((id.clone(), cancel_reason.clone()))).ok_or_else(|| {
                ErrorObject::retryable("too many requests run on this connection; wait until some have ended")
            })?;
            let (state, sender, id) = (&self.state, &self.sender, id.clone());
            let request = StatelessRequest { state, sender, id, method, envelope, mirror: None, cancel_reason };
            let (Served::Call(messages) | Served::Listen(messages)) = request.serve(params)?;
            let cancelled = poll_fn(move |cx| guard.poll_cancelled(cx));
            Ok(AnswerStream::Request(Box::pin(messages.take_until(cancelled))))
        });
        match served {
            Ok(answer) => vec![answer],
            Err(error) => {
                self.queue.push(Message::error(id, error));
                Vec::new()
            }
        }
    }

    /// Begins to serve a message of the session, which begins with `initialize`.
    async fn message(&mut self, message: Message) -> Result<Vec<AnswerStream>, RequestRefusal> {
        let session = match (&self.session, &message) {
            (Some(session), _) => session,
            (None, Message::Request { method: Method::Initialize, id, .. }) => {
                let (endpoint, owner) = (self.sender.endpoint.clone(), Arc::clone(&self.sender.admission.caller));
                let opened = self.state.sessions.open_on(Arc::clone(&self.queue), endpoint, owner).await;
                self.session.insert(opened.map_err(|full| RequestRefusal::full(full).with_id(Some(id.clone())))?)
            }
            (None, Message::Request { id, .. }) => {
                let refusal = RequestRefusal::invalid("Invalid Request: the session begins with initialize");
                return Err(refusal.with_id(Some(id.clone())));
            }
            // a request that stands alone may be cancelled by a notification that names no version
            (None, Message::Notification { method: Method::Cancelled, params }) => {
                self.requests.cancel_named(params);
                return Ok(Vec::new());
            }
            (None, _) => return Ok(Vec::new()),
        };
        session.touch(self.state.clock.now());
        let inbound = Inbound { state: &self.state, session, sender: &self.sender };
        if let Message::Notification { method: Method::Cancelled, params } = &message {
            self.requests.cancel_named(params);
        }
        Ok(inbound.message(message).await.map(AnswerStream::Session).into_iter().collect())
    }

    async fn batch(&self, messages: Vec<Result<Message, Malformed>>) -> Result<Vec<AnswerStream>, RequestRefusal> {
        let Some(session) = &self.session else {
            return Err(RequestRefusal::invalid("Invalid Request: the session begins with initialize"));
        };
        session.touch(self.state.clock.now());
        let inbound = Inbound { state: &self.state, session, sender: &self.sender };
        Ok(inbound
            .batch(messages)
            .await
            .map_err(RequestRefusal::batch)?
            .into_iter()
            .map(AnswerStream::Session)
            .collect())
    }
}

impl Drop for WebSocketConnection {
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            self.state.sessions.forget(session);
        }
    }
}

impl Stream for AnswerStream {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        match &mut *self {
            Self::Session(exchange) => exchange.poll_next_unpin(cx),
            Self::Request(messages) => messages.poll_next_unpin(cx),
        }
    }
}

/// Waits until the session has ended; for ever without one.
async fn ended(session: Option<&Session>) {
    match session {
        Some(session) => session.ended.cancelled().await,
        None => pending().await,
    }
}

/// Writes the queue, and pings, until the connection or its queue is closed.
async fn write(mut reader: ReplayReader, sink: &mut (impl Sink<Frame> + Unpin)) {
    let mut pings = keep_alive();
    loop {
        let frame = tokio::select! {
            biased;
            message = reader.next() => match message {
                Some((_, message)) => Utf8Bytes::try_from(message.encode()).map(Frame::Text),
                None => return,
            },
            _ = pings.tick() => Ok(Frame::Ping(Bytes::new())),
        };
        // what is no UTF-8 is no JSON either, and was never parsed
        let Ok(frame) = frame else { continue };
        if sink.send(frame).await.is_err() {
            return;
        }
    }
}
