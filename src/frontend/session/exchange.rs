//! One call in a session: turns the server's reply into messages for the client.
//!
//! An exchange is a stream that its reader drives, without a task or a channel. If the client disconnects during a
//! call, a task continues the exchange, because disconnecting is not cancelling in the legacy versions (2025-03-26 to
//! 2025-11-25, transports, *Sending Messages*).
//!
//! Nothing is buffered here. An exchange that is not read does not read its reply, so the server's messages wait, or
//! are dropped, at the server's connection.

mod server_messages;

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::{Stream, StreamExt as _};
use pin_project_lite::pin_project;
use tokio::runtime::Handle;
use tokio_util::{
    sync::{CancellationToken, WaitForCancellationFutureOwned},
    task::TaskTracker,
};

use super::{CallGuard, Session, call_requests::CallRequests};
use crate::{
    frontend::request_limits::RequestPermit,
    mcp::{
        ErrorObject, Event, Message, Method, Outcome, Payload, Reply, RequestId, ServerOrigin,
        client_translator::ClientTranslator,
        large_messages::{MessageOwner, OffWorker, poll_event},
        meta,
    },
    support::Account,
};

/// One call: a stream of messages for the client, of which the response is the last.
#[derive(Debug)]
pub(crate) struct SessionExchange(ExchangeState);

/// The places that a running request takes. Dropping this frees both.
#[derive(Debug)]
pub(crate) struct RunningRequest {
    /// Its entry in the session's list of calls.
    guard: CallGuard,
    /// Its place among the calls of its user.
    _permit: RequestPermit,
}

/// The behaviour of a call whose reader disconnects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnDisconnect {
    /// It ends, because the connection is the session (2024-11-05) or only the gateway reads it.
    Cancel,
    /// It continues without a reader.
    Continue,
}

/// The context of an exchange.
#[derive(Debug)]
pub(crate) struct ExchangeContext {
    /// Cancelled when the credential is revoked.
    pub(crate) revoked: Arc<CancellationToken>,
    /// The behaviour of the call if its reader disconnects.
    pub(crate) on_disconnect: OnDisconnect,
    /// Translates messages to the client's version.
    pub(crate) translator: ClientTranslator,
    /// Owns everything that outlives the exchange.
    pub(crate) tracker: TaskTracker,
}

#[derive(Debug)]
enum ExchangeState {
    Message(Message),
    /// A reply, and the tracker that runs the rest of it if the reader disconnects.
    Call(OffWorker<Pin<Box<Driven>>, Option<Message>>, TaskTracker),
    Finished,
}

/// The thing that a reply belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ExchangeSubject {
    /// A request, which is answered under this id.
    Request(RequestId),
    /// A listen, which gets everything outside of requests. Server requests are sent if a standalone stream is open.
    Listen,
}

pin_project! {
    /// A call that can be ended from outside.
    #[derive(Debug)]
    struct Driven {
        #[pin]
        revoked: WaitForCancellationFutureOwned,
        // ends a listen; a request has a guard for this
        #[pin]
        cancelled: Option<WaitForCancellationFutureOwned>,
        call: CallInProgress,
    }
}

/// The messages that the reader of an exchange wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExchangeReader {
    /// It wants every message.
    Messages,
    /// It wants only the response.
    Response,
    Gone,
}

/// The reason why a call stops early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopCause {
    Cancelled,
    Revoked,
}

struct CallInProgress {
    session: Arc<Session>,
    subject: ExchangeSubject,
    on_disconnect: OnDisconnect,
    tracker: TaskTracker,
    translator: ClientTranslator,
    revoked: Arc<CancellationToken>,
    /// `None` once the outcome is known.
    reply: Option<Reply>,
    /// A large event, which the next poll handles.
    large: Option<Event>,
    /// The server requests that this call carries; `None` before the first.
    requests: Option<CallRequests>,
    /// Messages that the client has not read yet.
    ready: VecDeque<Message>,
    reader: ExchangeReader,
    /// The places of a request; `None` once the outcome is known.
    running: Option<RunningRequest>,
    /// The account of the server that wrote the last message of a listen.
    writer: Option<Account>,
}

// === impl RunningRequest ===

impl RunningRequest {
    pub(super) const fn new(guard: CallGuard, permit: RequestPermit) -> Self {
        Self { guard, _permit: permit }
    }
}

// === impl SessionExchange ===

impl SessionExchange {
    /// The exchange for a request's reply. It stops if the client cancels the request, the session ends or the
    /// credential is revoked.
    pub(crate) fn request(
        session: Arc<Session>,
        id: RequestId,
        reply: Reply,
        running: RunningRequest,
        context: ExchangeContext,
    ) -> Self {
        Self::new(session, ExchangeSubject::Request(id), reply, Some(running), None, context)
    }

    /// The messages of a listen. They end when it is `cancelled` or the credential is revoked.
    pub(crate) fn listen(
        session: Arc<Session>,
        reply: Reply,
        cancelled: CancellationToken,
        context: ExchangeContext,
    ) -> Self {
        Self::new(session, ExchangeSubject::Listen, reply, None, Some(cancelled), context)
    }

    /// An exchange with only this message.
    pub(crate) const fn answered(message: Message) -> Self {
        Self(ExchangeState::Message(message))
    }

    /// Lets the client read only the response. If the call was not polled yet, earlier messages are dropped, and a
    /// server request ends the call.
    pub(crate) fn read_response_alone(&mut self) {
        if let ExchangeState::Call(driven, _) = &mut self.0
            && let Some(driven) = driven.get_mut()
        {
            driven.as_mut().project().call.reader = ExchangeReader::Response;
        }
    }

    /// The account of the server that wrote the last message of a listen; `None` if the gateway wrote it.
    pub(super) fn writer(&mut self) -> Option<Account> {
        match &mut self.0 {
            ExchangeState::Call(driven, _) => driven.get_mut()?.as_mut().project().call.writer.clone(),
            ExchangeState::Message(_) | ExchangeState::Finished => None,
        }
    }

    fn new(
        session: Arc<Session>,
        subject: ExchangeSubject,
        reply: Reply,
        running: Option<RunningRequest>,
        cancelled: Option<CancellationToken>,
        context: ExchangeContext,
    ) -> Self {
        let ExchangeContext { revoked, on_disconnect, translator, tracker } = context;
        let owner = MessageOwner::User(session.owner.user.clone());
        let rest = tracker.clone();
        let call = CallInProgress {
            session,
            subject,
            on_disconnect,
            tracker,
            translator,
            revoked: Arc::clone(&revoked),
            reply: Some(reply),
            large: None,
            requests: None,
            ready: VecDeque::new(),
            reader: ExchangeReader::Messages,
            running,
            writer: None,
        };
        let revoked = CancellationToken::clone(&revoked).cancelled_owned();
        let cancelled = cancelled.map(CancellationToken::cancelled_owned);
        Self(ExchangeState::Call(OffWorker::stream(owner, Box::pin(Driven { revoked, cancelled, call })), rest))
    }
}

impl Stream for SessionExchange {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        if let ExchangeState::Call(driven, _) = &mut self.0 {
            return driven.poll_next_unpin(cx);
        }
        match std::mem::replace(&mut self.0, ExchangeState::Finished) {
            ExchangeState::Message(message) => Poll::Ready(Some(message)),
            ExchangeState::Call(..) | ExchangeState::Finished => Poll::Ready(None),
        }
    }
}

impl Drop for SessionExchange {
    fn drop(&mut self) {
        let ExchangeState::Call(mut driven, tracker) = std::mem::replace(&mut self.0, ExchangeState::Finished) else {
            return;
        };
        if driven.get_mut().is_some_and(|driven| !driven.as_mut().project().call.continues_alone()) {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        let alone = async move {
            // a poll on another thread may end the call
            driven.returned().await;
            let Some(call) = driven.get_mut().map(|driven| driven.as_mut().project().call) else { return };
            if !call.continues_alone() {
                return;
            }
            metrics::counter!("lockkeeper_frontend_calls_detached_total").increment(1);
            call.reader = ExchangeReader::Gone;
            while driven.next().await.is_some() {}
        };
        tracker.spawn_on(alone, &runtime);
    }
}

// === impl Driven ===

impl Stream for Driven {
    type Item = Message;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let mut this = self.project();
        let call = this.call;
        loop {
            if let Some(message) = call.ready.pop_front() {
                return Poll::Ready(Some(message));
            }
            if call.reply.is_none() {
                return Poll::Ready(None);
            }
            let listen_ends = this.cancelled.as_mut().as_pin_mut().is_some_and(|end| end.poll(cx).is_ready());
            if listen_ends || call.running.as_ref().is_some_and(|running| running.guard.poll_cancelled(cx).is_ready()) {
                call.stop(StopCause::Cancelled);
                continue;
            }
            if call.revoked.is_cancelled() {
                call.stop(StopCause::Revoked);
                continue;
            }
            if let Some(requests) = &mut call.requests
                && let Poll::Ready(Some(message)) = requests.poll_next(&call.session, cx)
            {
                return Poll::Ready(Some(message));
            }
            let message = match call.poll_event(cx) {
                // watched only while the reply is pending, which most replies are just once
                Poll::Pending if this.revoked.as_mut().poll(cx).is_ready() => continue,
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(event)) => call.receive(event),
                Poll::Ready(None) => call.finish(Err(ErrorObject::internal("the call ended without an answer"))),
            };
            if message.is_some() {
                return Poll::Ready(message);
            }
        }
    }
}

// === impl CallInProgress ===

impl CallInProgress {
    /// The next event. A large one is translated off the worker.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let Some(reply) = &mut self.reply else { return Poll::Ready(None) };
        poll_event(reply, &mut self.large, cx)
    }

    /// True if the exchange continues without its reader.
    fn continues_alone(&self) -> bool {
        self.on_disconnect == OnDisconnect::Continue && self.reply.is_some() && !self.session.ended.is_cancelled()
    }

    /// The message for an event; `None` if the client gets none for it. More messages may be ready.
    fn receive(&mut self, event: Event) -> Option<Message> {
        if self.subject == ExchangeSubject::Listen {
            self.writer = event.origin().map(ServerOrigin::account);
        }
        match event {
            Event::Notified(notification) => self.notification(notification),
            Event::Asked(question) => self.ask(question),
            Event::Done(outcome) => {
                if let Some(requests) = self.requests.take() {
                    requests.detach(&self.session, &self.tracker);
                }
                let outcome = match self.translator.outcome(outcome) {
                    Outcome::Complete(result) => Ok(self.of_subscriber(None, result)),
                    Outcome::Failed(error) => Err(error),
                    Outcome::InputRequired(_) => {
                        Err(ErrorObject::internal("the server asks in a manner that this client does not know"))
                    }
                };
                self.finish(outcome)
            }
        }
    }

    /// Sets the client's own subscription id in a result or notification, if the call's or the notification's method is
    /// not defined by MCP.
    fn of_subscriber(&self, notified: Option<&Method>, payload: Payload) -> Payload {
        match &self.subject {
            ExchangeSubject::Request(id)
                if self.translator.is_of_extension() || notified.is_some_and(Method::is_of_extension) =>
            {
                meta::of_subscriber(payload, &String::from_utf8_lossy(id.json()))
            }
            _ => payload,
        }
    }

    fn stop(&mut self, cause: StopCause) {
        let error = match cause {
            // when a session ends, it cancels its calls
            StopCause::Cancelled if self.session.ended.is_cancelled() => {
                ErrorObject::lost("the session ended before the answer came; the call may have run")
            }
            StopCause::Cancelled => {
                // all versions, cancellation: a cancelled request gets no response
                self.close();
                return;
            }
            StopCause::Revoked => ErrorObject::internal("access was revoked; log in again"),
        };
        let response = self.finish(Err(error));
        self.ready.extend(response);
    }

    /// Ends the call. Returns the response, unless other messages must be read first.
    fn finish(&mut self, outcome: Result<Payload, ErrorObject>) -> Option<Message> {
        self.close();
        let ExchangeSubject::Request(id) = &self.subject else { return None };
        let outcome = outcome.map(|result| result.json().clone());
        let response = Message::Response { id: Some(id.clone()), outcome };
        if self.ready.is_empty() {
            return Some(response);
        }
        self.ready.push_back(response);
        None
    }

    /// Ends the call, and cancels the server's open requests.
    fn close(&mut self) {
        (self.reply, self.large) = (None, None);
        self.running = None;
        if let Some(requests) = self.requests.take() {
            self.ready.extend(requests.withdraw());
        }
    }
}

impl std::fmt::Debug for CallInProgress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallInProgress")
            .field("session", &self.session.id)
            .field("subject", &self.subject)
            .finish_non_exhaustive()
    }
}
