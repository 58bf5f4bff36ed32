//! A client on a channel: WebSocket or stdio, which carry one message after another in both directions (`translation`
//! 2.5). For a legacy client the channel is the session. Requests of 2026-07-28 run next to it and do not affect each
//! other. When the channel ends, everything on it is cancelled.
//!
//! Outgoing messages wait in a bounded queue, so that a client that reads slowly does not delay its own cancellations.
//! While more than half of the queue is in use, nothing is read from the client.

use std::{
    future::{pending, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{
    Stream, StreamExt as _,
    stream::{self, SelectAll},
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    refusal::RequestRefusal,
    request_head::{EnvelopedRequest, Semantics, VersionHeader, choose, parse},
    response::credential_end,
};
use crate::{
    frontend::{
        replay::{ReplayBuffer, ReplayReader},
        session::{RunningCalls, Session, exchange::SessionExchange, inbound::Inbound},
        state::{FrontendState, Sender},
        stateless_request::{RequestEnvelope, StatelessReply, StatelessRequest},
    },
    mcp::{
        CancelReason, ErrorObject, Message, Method, RequestId,
        jsonrpc::{Frame, Malformed},
        large_messages::off_worker,
    },
    model::SessionAddress,
    support::Account,
};

/// Time that the client gets to read the remaining messages when the channel ends.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Messages are read from the client while at most this share of the queue is in use.
const READ_UP_TO: QueueShare = QueueShare { part: 1, whole: 2 };
/// Answers fill the queue up to this share; the rest is for messages outside of calls.
const ANSWER_UP_TO: QueueShare = QueueShare { part: 3, whole: 4 };

/// A fraction of the queue.
#[derive(Debug, Clone, Copy)]
struct QueueShare {
    part: usize,
    whole: usize,
}

pub(super) struct ChannelClient {
    state: Arc<FrontendState>,
    sender: Sender,
    queue: Arc<ReplayBuffer>,
    /// Notified when a message leaves the queue.
    taken: Arc<Notify>,
    /// The session; `None` before `initialize`.
    session: Option<Arc<Session>>,
    /// The requests of 2026-07-28.
    requests: Arc<RunningCalls>,
    answers: SelectAll<OpenAnswer>,
    linger: Duration,
}

/// Input of a channel.
pub(super) enum ChannelInput {
    /// The text of a message.
    Message(Bytes),
    /// Bytes that cannot be a message.
    Refused(RequestRefusal),
}

pub(super) struct ChannelOutput {
    reader: ReplayReader,
    taken: Arc<Notify>,
}

/// An answer in progress, with the id of its request until the response comes.
struct OpenAnswer {
    id: Option<RequestId>,
    stream: AnswerStream,
}

/// The messages of an answer.
enum AnswerStream {
    Session(SessionExchange),
    Request(Pin<Box<dyn Stream<Item = Message> + Send>>),
    Listen(Pin<Box<dyn Stream<Item = Message> + Send>>),
}

// === impl ChannelClient ===

impl ChannelClient {
    /// Creates a client that has sent nothing yet. When its input ends, running calls get the time `linger` to finish.
    pub(super) fn new(state: Arc<FrontendState>, sender: Sender, linger: Duration) -> (Self, ChannelOutput) {
        let queue = state.sessions.queue(sender.endpoint.binding, &sender.admission.caller);
        let requests = RunningCalls::new(CancellationToken::new());
        let taken = Arc::new(Notify::new());
        let output = ChannelOutput { reader: queue.attach(), taken: Arc::clone(&taken) };
        (Self { state, sender, queue, taken, session: None, requests, answers: SelectAll::new(), linger }, output)
    }

    /// Serves the client until its input, its session, its credential, the gateway or `write` ends; `write` writes the
    /// [`ChannelOutput`].
    pub(super) async fn run(
        mut self,
        input: impl Stream<Item = ChannelInput> + Unpin,
        write: impl Future<Output = ()>,
    ) {
        let mut write = pin!(write);
        let credential_end = credential_end(&self.sender.admission.lease, self.state.clock.now());
        tokio::select! {
            () = self.serve(input) => {}
            () = &mut write => return,
            () = credential_end => return,
        }
        let queue = Arc::clone(&self.queue);
        // cancel everything on the channel before waiting for the client
        drop(self);
        queue.finish();
        let _ = timeout(CLOSE_TIMEOUT, write).await;
    }

    async fn serve(&mut self, mut input: impl Stream<Item = ChannelInput> + Unpin) {
        let drained = self.state.drained.clone();
        let mut lingers = None;
        loop {
            let is_over = lingers.is_some() || drained.is_cancelled();
            if is_over && self.answers.is_empty() {
                return;
            }
            let (reads, answers) = (self.has_room(READ_UP_TO), self.has_room(ANSWER_UP_TO));
            tokio::select! {
                received = input.next(), if reads && lingers.is_none() => match received {
                    Some(ChannelInput::Message(text)) => self.receive(text).await,
                    Some(ChannelInput::Refused(refusal)) => self.refuse(refusal),
                    None => {
                        self.end_listens();
                        lingers = Some(Instant::now() + self.linger);
                    }
                },
                message = self.answers.next(), if answers && !self.answers.is_empty() => {
                    if let Some(message) = message {
                        self.queue.push(message);
                    }
                }
                () = self.taken.notified(), if !reads => {}
                () = ended(self.session.as_deref()) => return,
                () = until(lingers) => return self.refuse_the_rest(),
                () = drained.cancelled(), if !is_over => {}
            }
        }
    }

    /// True if at most this share of the queue is in use.
    fn has_room(&self, share: QueueShare) -> bool {
        let (settings, waiting) = (&self.state.settings, self.queue.waiting());
        waiting.messages <= settings.queue / share.whole * share.part && waiting.bytes <= settings.replay_bytes
    }

    /// Ends the listens, which would never end by themselves.
    fn end_listens(&mut self) {
        let answers = std::mem::take(&mut self.answers).into_iter();
        self.answers = answers.filter(|answer| !matches!(answer.stream, AnswerStream::Listen(_))).collect();
    }

    /// Answers open requests with an error, once the time after the end of the input is over. A program that still
    /// reads would otherwise wait forever.
    fn refuse_the_rest(&mut self) {
        for id in std::mem::take(&mut self.answers).into_iter().filter_map(|answer| answer.id) {
            let message = "The input ended before the answer was there: keep it open until all answers have come. The call may have run";
            self.queue.push(Message::error(id, ErrorObject::new(ErrorObject::INTERNAL_ERROR, message)));
        }
    }

    /// Starts to serve a frame.
    async fn receive(&mut self, text: Bytes) {
        off_worker(text.len()).await;
        let served = match choose(self.state.settings.serves, VersionHeader::Absent, parse(&text)) {
            Ok(Semantics::Request(request)) => {
                self.request(request);
                Ok(())
            }
            Ok(Semantics::Notification(method, params)) => {
                if method == Method::Cancelled {
                    self.requests.cancel_named(&params);
                }
                Ok(())
            }
            Ok(Semantics::Session(Ok(Frame::Single(message)))) => self.message(message).await,
            Ok(Semantics::Session(Ok(Frame::Batch(messages)))) => self.batch(messages).await,
            Ok(Semantics::Session(Err(malformed))) => Err(RequestRefusal::malformed(&malformed)),
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = served {
            self.refuse(refusal);
        }
    }

    fn refuse(&self, refusal: RequestRefusal) {
        let revision = self.session.as_ref().and_then(|session| Some(session.client()?.revision));
        self.queue.push(refusal.toward(revision).into_message());
    }

    /// Starts to serve a stateless request.
    fn request(&mut self, EnvelopedRequest { id, method, params }: EnvelopedRequest) {
        let cancel_reason = CancelReason::new("client disconnected");
        let served = RequestEnvelope::read(&params).and_then(|envelope| {
            envelope.check(&method)?;
            // held as long as the request's permit, which limits their number
            let guard = self.requests.begin(Some((id.clone(), cancel_reason.clone())));
            let (state, sender, id) = (&self.state, &self.sender, id.clone());
            let request =
                StatelessRequest { state, sender, id: id.clone(), method, envelope, mirror: None, cancel_reason };
            let served = request.serve(params)?;
            let cancelled = poll_fn(move |cx| guard.poll_cancelled(cx));
            Ok(match served {
                StatelessReply::Call(messages) => AnswerStream::Request(Box::pin(messages.take_until(cancelled))),
                StatelessReply::Listen(messages) => {
                    let messages = messages.chain(stream::once(async move { end_of_listen(&id) }));
                    AnswerStream::Listen(Box::pin(messages.take_until(cancelled)))
                }
            })
        });
        match served {
            Ok(stream) => self.answers.push(OpenAnswer { id: Some(id), stream }),
            Err(error) => self.queue.push(Message::error(id, error)),
        }
    }

    /// Starts to serve a message of the session. The first one must be `initialize`.
    async fn message(&mut self, message: Message) -> Result<(), RequestRefusal> {
        let session = match (&self.session, &message) {
            (Some(session), _) => session,
            (None, Message::Request { method: Method::Initialize, id, .. }) => {
                let address = SessionAddress::own(self.sender.endpoint.clone());
                let (binding, owner) = (address.binding, Arc::clone(&self.sender.admission.caller));
                let opened = self.state.sessions.open_on(Arc::clone(&self.queue), address, owner).await;
                self.session
                    .insert(opened.map_err(|full| RequestRefusal::full(full, binding).with_id(Some(id.clone())))?)
            }
            (None, Message::Request { id, .. }) => {
                let refusal = RequestRefusal::invalid("Invalid Request: the session begins with initialize");
                return Err(refusal.with_id(Some(id.clone())));
            }
            // a stateless request may be cancelled by a notification without a version
            (None, Message::Notification { method: Method::Cancelled, params }) => {
                self.requests.cancel_named(params);
                return Ok(());
            }
            (None, _) => return Ok(()),
        };
        session.touch(self.state.clock.now());
        let inbound = Inbound { state: &self.state, session, sender: &self.sender };
        if let Message::Notification { method: Method::Cancelled, params } = &message {
            self.requests.cancel_named(params);
        }
        let id = asked_by(&message);
        let exchange = inbound.message(message).await;
        self.answers.extend(exchange.map(|exchange| OpenAnswer { id, stream: AnswerStream::Session(exchange) }));
        Ok(())
    }

    async fn batch(&mut self, messages: Vec<Result<Message, Malformed>>) -> Result<(), RequestRefusal> {
        let Some(session) = &self.session else {
            return Err(RequestRefusal::invalid("Invalid Request: the session begins with initialize"));
        };
        session.touch(self.state.clock.now());
        let inbound = Inbound { state: &self.state, session, sender: &self.sender };
        let ids: Vec<_> = messages.iter().flatten().filter_map(asked_by).collect();
        let exchanges = inbound.batch(messages).await.map_err(RequestRefusal::batch)?;
        let ids = ids.into_iter().map(Some).chain(std::iter::repeat(None));
        let answers = exchanges.into_iter().zip(ids);
        self.answers.extend(answers.map(|(exchange, id)| OpenAnswer { id, stream: AnswerStream::Session(exchange) }));
        Ok(())
    }
}

impl Drop for ChannelClient {
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            self.state.sessions.forget(session);
        }
    }
}

// === impl ChannelOutput ===

impl ChannelOutput {
    /// The account of the user.
    pub(super) fn account(&self) -> &Account {
        self.reader.account()
    }

    /// The next message; `None` at the end, or if the client is too slow. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Message> {
        let (_, message) = self.reader.next().await?;
        self.taken.notify_one();
        Some(message)
    }
}

// === impl OpenAnswer ===

impl Stream for OpenAnswer {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let message = match &mut self.stream {
            AnswerStream::Session(exchange) => exchange.poll_next_unpin(cx),
            AnswerStream::Request(messages) | AnswerStream::Listen(messages) => messages.poll_next_unpin(cx),
        };
        if let Poll::Ready(Some(Message::Response { .. })) = &message {
            self.id = None;
        }
        message
    }
}

/// The id of a request; `None` for any other message.
fn asked_by(message: &Message) -> Option<RequestId> {
    match message {
        Message::Request { id, .. } => Some(id.clone()),
        Message::Notification { .. } | Message::Response { .. } => None,
    }
}

/// Waits until `end`; never returns for `None`.
async fn until(end: Option<Instant>) {
    match end {
        Some(end) => sleep_until(end).await,
        None => pending().await,
    }
}

/// Waits until the session has ended; never returns for `None`.
async fn ended(session: Option<&Session>) {
    match session {
        Some(session) => session.ended.cancelled().await,
        None => pending().await,
    }
}

/// The message after the result of a listen that the gateway ends. 2026-07-28 requires the result on one page
/// (subscriptions), and this notification on another (cancellation).
fn end_of_listen(id: &RequestId) -> Message {
    let params = format!(r#"{{"requestId":{}}}"#, String::from_utf8_lossy(id.json()));
    Message::Notification { method: Method::Cancelled, params: params.into() }
}
