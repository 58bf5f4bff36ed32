//! One call on its way: the reply of the server turned into the messages that its client reads. Knows nothing of HTTP.
//!
//! An exchange is a stream that is driven by whoever reads it: no task and no channel stand behind it. When the client
//! vanishes in the midst of a call, the exchange goes on by itself as a task, since a disconnect is no cancel in the
//! legacy versions (2025-03-26 to 2025-11-25, transports, *Sending Messages*).
//!
//! Nothing is buffered here: an exchange that is not read does not read its reply. What a server says in the meantime
//! waits, or is dropped, where its messages are read from the wire.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::{Stream, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Session, calls::Running};
use crate::{
    frontend::server_requests::{Listed, Settled},
    mcp::{
        ErrorObject, Event, Level, Message, Method, Notification, Outcome, Payload, Question, Reply, RequestId,
        client_translator::ClientTranslator, declared::can_be_asked, json, pending_request::PendingRequest,
    },
};

/// One call on its way: a stream of messages for the client, the response last.
#[derive(Debug)]
pub(crate) struct Exchange(Option<Box<Inner>>);

/// What happens to a call whose reader goes away.
#[derive(Debug, Clone)]
pub(crate) enum Loss {
    /// It ends: the connection is the session (2024-11-05), or the gateway alone reads it.
    Cancels,
    /// It goes on without a reader.
    GoesOn(TaskTracker),
}

/// What a request's exchange rests on.
#[derive(Debug)]
pub(crate) struct Terms {
    /// Cancelled when the credential is revoked.
    pub(crate) revoked: Arc<CancellationToken>,
    /// What happens when its reader goes away.
    pub(crate) loss: Loss,
    /// How its client is spoken to.
    pub(crate) spoken: ClientTranslator,
    /// Who owns what outlives it.
    pub(crate) tracker: TaskTracker,
}

/// What the exchange is about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Subject {
    /// A request, answered under this id.
    Request(RequestId),
    /// Everything that belongs to no request; questions are asked where a standalone stream is open.
    Listen,
}

/// Why a call is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Cancelled,
    Revoked,
    SessionEnded,
}

struct Inner {
    session: Arc<Session>,
    subject: Subject,
    loss: Loss,
    tracker: Option<TaskTracker>,
    /// `None` where there is no reply to speak of.
    spoken: Option<ClientTranslator>,
    /// `None` once the outcome is known.
    reply: Option<Reply>,
    stop: Option<BoxFuture<'static, Stop>>,
    /// The waits for answers, made for the first question, and the ids of the questions that are open.
    asked: Option<FuturesUnordered<BoxFuture<'static, Settled>>>,
    open: Vec<RequestId>,
    /// What the client has yet to read.
    ready: VecDeque<Message>,
    detached: bool,
    /// On the session's list until the outcome is known.
    running: Option<Running>,
}

// === impl Exchange ===

impl Exchange {
    /// The exchange of a request's reply, which is given up when the client cancels it, the session ends or the
    /// credential is revoked.
    pub(crate) fn request(session: Arc<Session>, request: (RequestId, Running), reply: Reply, terms: Terms) -> Self {
        let (id, running) = request;
        let stop = stop(running.cancelled.clone(), terms.revoked, session.ended.clone());
        let inner = Inner::new(session, Subject::Request(id), terms.loss);
        let spoken = Some(terms.spoken);
        Self(Some(Box::new(Inner {
            reply: Some(reply),
            stop: Some(stop),
            running: Some(running),
            spoken,
            tracker: Some(terms.tracker),
            ..inner
        })))
    }

    /// What a listen yields, until it is `cancelled`, the session ends or the credential is revoked.
    pub(crate) fn listen(session: Arc<Session>, reply: Reply, cancelled: CancellationToken, terms: Terms) -> Self {
        let stop = stop(cancelled, terms.revoked, session.ended.clone());
        let inner = Inner::new(session, Subject::Listen, terms.loss);
        let spoken = Some(terms.spoken);
        Self(Some(Box::new(Inner { reply: Some(reply), stop: Some(stop), spoken, ..inner })))
    }

    /// The exchange that is this message and nothing else.
    pub(crate) fn answered(session: Arc<Session>, message: Message) -> Self {
        let mut inner = Inner::new(session, Subject::Listen, Loss::Cancels);
        inner.ready.push_back(message);
        Self(Some(Box::new(inner)))
    }
}

impl Stream for Exchange {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        self.0.as_mut().map_or(Poll::Ready(None), |inner| inner.poll(cx))
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let Some(mut inner) = self.0.take() else { return };
        let Loss::GoesOn(tracker) = &inner.loss else { return };
        if inner.reply.is_none() || inner.session.ended.is_cancelled() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        metrics::counter!("lockkeeper_frontend_calls_detached_total").increment(1);
        let tracker = tracker.clone();
        inner.detached = true;
        let alone = async move { while std::future::poll_fn(|cx| inner.poll(cx)).await.is_some() {} };
        tracker.spawn_on(alone, &runtime);
    }
}

// === impl Inner ===

impl Inner {
    fn new(session: Arc<Session>, subject: Subject, loss: Loss) -> Self {
        Self {
            session,
            subject,
            loss,
            tracker: None,
            spoken: None,
            reply: None,
            stop: None,
            asked: None,
            open: Vec::new(),
            ready: VecDeque::new(),
            detached: false,
            running: None,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Poll::Ready(Some(message));
            }
            if self.reply.is_none() {
                return Poll::Ready(None);
            }
            if let Some(stop) = &mut self.stop
                && let Poll::Ready(stop) = stop.as_mut().poll(cx)
            {
                self.give_up(stop);
                continue;
            }
            if let Some(asked) = &mut self.asked
                && let Poll::Ready(Some(settled)) = asked.poll_next_unpin(cx)
            {
                self.settle(settled);
                continue;
            }
            let Some(reply) = &mut self.reply else { return Poll::Ready(None) };
            match reply.poll_next_unpin(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(event)) => self.take(event),
                Poll::Ready(None) => self.finish(Err(ErrorObject::internal("the call ended without an answer"))),
            }
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Notified(notification) => self.tell(notification),
            Event::Asked(question) => self.ask(question),
            Event::Done(outcome) => {
                self.leave_questions();
                let outcome = match &self.spoken {
                    Some(spoken) => spoken.outcome(outcome),
                    None => outcome,
                };
                self.finish(match outcome {
                    Outcome::Complete(result) => Ok(result),
                    Outcome::Failed(error) => Err(error),
                    Outcome::InputRequired(_) => {
                        Err(ErrorObject::internal("the server asks in a manner that this client does not know"))
                    }
                });
            }
        }
    }

    fn tell(&mut self, notification: Notification) {
        if self.detached || !wanted(&notification, self.session.level()) {
            return;
        }
        let told = match &self.spoken {
            Some(spoken) => spoken.notification(notification),
            None => Some(notification),
        };
        let Some(Notification { method, params }) = told else { return };
        self.ready.push_back(Message::Notification { method, params: params.json().clone() });
    }

    /// Asks the client, where it can be asked: it has said that it can answer, its version knows the question, and a
    /// stream leads to it.
    fn ask(&mut self, question: Question) {
        if let Err(error) = self.may_ask(&question.method, &question.params) {
            metrics::counter!("lockkeeper_frontend_questions_refused_total").increment(1);
            if let Some(error) = error {
                question.answer.give(Err(error));
            }
            return;
        }
        let Some(spoken) = &self.spoken else { return };
        match PendingRequest::new(question, spoken) {
            Ok(asking) => self.put(asking),
            Err((answer, error)) => answer.give(Err(error)),
        }
    }

    fn put(&mut self, asking: PendingRequest) {
        if let Some(Listed { id, method, params, wait }) = self.session.questions.ask(asking) {
            self.asked.get_or_insert_default().push(wait);
            self.open.push(id.clone());
            self.ready.push_back(Message::Request { id, method, params: params.json().clone() });
        }
    }

    /// Refuses with the error for the server, or with none where nobody is there to be asked.
    fn may_ask(&self, method: &Method, params: &Payload) -> Result<(), Option<ErrorObject>> {
        let Some(client) = self.session.client() else { return Err(None) };
        can_be_asked(client, method, params).map_err(Some)?;
        let reachable = match self.subject {
            Subject::Request(_) => !self.detached,
            Subject::Listen => self.session.queue.open_streams() > 0,
        };
        // 2025-11-25 lifecycle: before `initialized` a server asks nothing but pings
        if reachable && self.session.is_initialized() { Ok(()) } else { Err(None) }
    }

    fn settle(&mut self, settled: Settled) {
        let (Settled::Answered(id) | Settled::Withdrawn(id) | Settled::Expired(id) | Settled::Again(id, _)) = &settled;
        self.open.retain(|open| open != id);
        match settled {
            Settled::Answered(_) => {}
            Settled::Again(_, asking) => self.put(*asking),
            Settled::Withdrawn(id) => {
                self.ready.push_back(withdrawal(&id, "the server no longer waits for the answer"));
            }
            Settled::Expired(id) => self.ready.push_back(withdrawal(&id, "the answer did not come in time")),
        }
    }

    fn give_up(&mut self, stop: Stop) {
        match stop {
            // all versions, cancellation: a cancelled request is not answered
            Stop::Cancelled => self.close(),
            Stop::Revoked => self.finish(Err(ErrorObject::internal("access was revoked; log in again"))),
            Stop::SessionEnded => self.finish(Err(ErrorObject::retryable("the session ended before the answer came"))),
        }
    }

    fn finish(&mut self, outcome: Result<Payload, ErrorObject>) {
        self.close();
        if let Subject::Request(id) = &self.subject {
            let outcome = outcome.map(|result| result.json().clone());
            self.ready.push_back(Message::Response { id: Some(id.clone()), outcome });
        }
    }

    /// Lets the questions that are still open outlive the call that carried them: on a channel the server may have asked
    /// beside it. It takes back what it no longer wants to know.
    fn leave_questions(&mut self) {
        let Some(asked) = self.asked.take().filter(|asked| !asked.is_empty()) else { return };
        let Some(tracker) = self.tracker.clone() else { return };
        let session = Arc::clone(&self.session);
        self.open.clear();
        let ended = session.ended.clone();
        tracker.spawn(async move {
            ended.run_until_cancelled(settle_later(asked, session)).await;
        });
    }

    /// Ends the call; questions that are still open are withdrawn.
    fn close(&mut self) {
        self.reply = None;
        self.stop = None;
        self.running = None;
        self.asked = None;
        for id in self.open.drain(..) {
            self.ready.push_back(withdrawal(&id, "the call that it belonged to ended"));
        }
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner")
            .field("session", &self.session.id)
            .field("subject", &self.subject)
            .finish_non_exhaustive()
    }
}

fn stop(
    cancelled: CancellationToken,
    revoked: Arc<CancellationToken>,
    ended: CancellationToken,
) -> BoxFuture<'static, Stop> {
    Box::pin(async move {
        tokio::select! {
            () = cancelled.cancelled() => Stop::Cancelled,
            () = revoked.cancelled() => Stop::Revoked,
            () = ended.cancelled() => Stop::SessionEnded,
        }
    })
}

/// What becomes of questions whose call is over: what there is to say goes down a standalone stream.
async fn settle_later(mut asked: FuturesUnordered<BoxFuture<'static, Settled>>, session: Arc<Session>) {
    while let Some(settled) = asked.next().await {
        match settled {
            Settled::Answered(_) => {}
            Settled::Again(_, asking) => {
                if let Some(Listed { id, method, params, wait }) = session.questions.ask(*asking) {
                    asked.push(wait);
                    session.queue.push(Message::Request { id, method, params: params.json().clone() });
                }
            }
            Settled::Withdrawn(id) => session.queue.push(withdrawal(&id, "the server no longer waits for the answer")),
            Settled::Expired(id) => session.queue.push(withdrawal(&id, "the answer did not come in time")),
        }
    }
}

fn withdrawal(id: &RequestId, reason: &str) -> Message {
    let id = String::from_utf8_lossy(id.json());
    let params = format!(r#"{{"requestId":{id},"reason":{}}}"#, json::quote(reason));
    Message::Notification { method: Method::Cancelled, params: params.into() }
}

/// Whether the client wants to read this: log messages below its level it does not.
fn wanted(told: &Notification, level: Option<Level>) -> bool {
    let (Method::LoggingMessage, Some(lowest)) = (&told.method, level) else { return true };
    told.params.string("level").and_then(|name| Level::parse(&name)).is_none_or(|level| level >= lowest)
}
