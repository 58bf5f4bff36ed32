//! One call at one legacy server: its id on the wire, its progress token, its silence, its cancellation.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use parking_lot::Mutex;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{Session, belongings::Owner};
use crate::{
    backend::{
        pending::{cancellation, timed_out},
        question_slots::LINGER,
        transport::{NotSent, TransportError},
    },
    mcp::{
        Context, Event, Facts, Farewell, Message, Method, Outcome, Payload, RequestId, Untranslatable, meta,
        translate::{Kind as Meaning, Profile},
    },
    model::Requester,
};

/// What a session knows of a call that runs.
#[derive(Debug)]
pub(crate) struct Running {
    /// The client's own progress token, where it gave one.
    pub(super) token: Option<Bytes>,
    /// The client session that makes it.
    pub(super) holder: Requester,
    /// When its client last answered something that was asked in it.
    pub(super) answered: Mutex<Option<Instant>>,
    /// When a question of it was closed, unless its client has answered another since.
    pub(super) question_closed: Mutex<Option<Instant>>,
    kind: Kind,
}

/// Whose call it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The handshake: it is never cancelled (all versions, cancellation), and carries no question.
    Handshake,
    /// A client's, in which it may be asked something.
    Asking,
    /// A client's, or the gateway's own, in which nothing is asked.
    Client,
}

/// What is called, and for whom.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The method.
    pub(crate) method: Method,
    /// Its parameters.
    pub(crate) params: Payload,
    /// On whose behalf.
    pub(crate) session: Requester,
    /// What becomes of members that the server's version does not define.
    pub(crate) profile: Profile,
    /// What the server is told where the call is given up.
    pub(crate) farewell: Farewell,
}

/// The caller's side of a call. Dropping it before the end cancels the call at the server.
struct Ticket {
    session: Arc<Session>,
    id: u64,
    kind: Kind,
    events: mpsc::Receiver<Event>,
    patience: Duration,
    farewell: Farewell,
}

// === impl Asked ===

impl Asked {
    /// What a client calls; its tasks are its own.
    pub(crate) fn by(context: &Context, method: &Method, params: &Payload) -> Self {
        let (session, profile) = (context.requester.clone(), context.profile);
        let farewell = context.farewell.clone();
        Self { method: method.clone(), params: params.clone(), session, profile, farewell }
    }

    /// What the gateway itself asks.
    pub(crate) fn of_gateway(method: Method, params: Payload) -> Self {
        let (profile, farewell) = (Profile::default(), Farewell::default());
        Self { method, params, session: Requester::Gateway, profile, farewell }
    }
}

// === impl Running ===

impl Running {
    /// Who owns what comes of the call.
    pub(super) fn owner(&self) -> Owner {
        Owner { holder: self.holder.clone(), token: self.token.clone() }
    }

    /// Whether a question may be put into its reply.
    pub(super) fn carries(&self) -> bool {
        self.kind == Kind::Asking
    }
}

// === impl Session ===

impl Session {
    /// Makes one call. The events end with [`Event::Done`], or with [`NotSent`] as the only one. A call that stays silent
    /// for longer than `patience` is cancelled and fails.
    pub(crate) fn call(
        self: &Arc<Self>,
        asked: Asked,
        patience: Duration,
    ) -> impl Stream<Item = Result<Event, NotSent>> + Send + use<> {
        let kind = if asked.method.may_ask() { Kind::Asking } else { Kind::Client };
        self.request(asked, kind, patience)
    }

    /// Makes one request of any kind.
    pub(super) fn request(
        self: &Arc<Self>,
        asked: Asked,
        kind: Kind,
        patience: Duration,
    ) -> impl Stream<Item = Result<Event, NotSent>> + Send + use<> {
        let session = Arc::clone(self);
        async_stream::stream! {
            let Asked { method, params, session: holder, profile, farewell } = asked;
            let params = match session.in_its_words(Some(kind), &method, (params, profile)) {
                Ok(params) => params,
                Err(refusal) => {
                    yield Ok(Event::Done(Outcome::Failed(refusal.error())));
                    return;
                }
            };
            // on the standalone stream the server may ask in this call
            if kind == Kind::Asking
                && session.about.key.can_be_asked()
                && let Some(listening) = session.transport.listening()
            {
                listening.await;
            }
            let token = meta::progress_token(&params);
            let mut ticket = match Ticket::open(session, Owner { holder, token: token.clone() }, kind, (patience, farewell)) {
                Ok(ticket) => ticket,
                Err(not_run) => {
                    yield Err(not_run);
                    return;
                }
            };
            // the id serves as the token as well: both are unique in this session (design rule 1)
            let params = if token.is_some() { meta::with_progress_token(&params, &ticket.id.to_string()) } else { params };
            let id = RequestId::number(ticket.id);
            let transport = Arc::clone(&ticket.session.transport);
            let request = Message::Request { id, method, params: params.json().clone() };
            let mut exchange = transport.request(request, None).fuse();
            let mut silent_until = Instant::now() + patience;
            loop {
                let step = tokio::select! {
                    biased;
                    event = ticket.events.recv() => Some(Ok(event.unwrap_or_else(|| ticket.lost()))),
                    arrived = exchange.select_next_some(), if !exchange.is_done() => ticket.arrived(arrived),
                    // while its client is asked, the server waits for us
                    () = sleep_until(silent_until) => {
                        if let Some(until) = ticket.answered().map(|at| at + patience).filter(|at| *at > Instant::now()) {
                            silent_until = until;
                            continue;
                        }
                        if ticket.session.asks_in(ticket.id) { None } else { Some(Ok(ticket.timed_out())) }
                    }
                };
                silent_until = Instant::now() + patience;
                let Some(step) = step else { continue };
                if matches!(step, Ok(Event::Notified(_) | Event::Asked(_))) {
                    yield step;
                    continue;
                }
                // what came in the same moment on another stream is not lost with the call
                while let Ok(event) = ticket.events.try_recv() {
                    match event {
                        Event::Notified(_) => yield Ok(event),
                        // where nobody listens it is refused by being dropped
                        Event::Asked(question) => drop(ticket.session.about.listens.ask(&ticket.session.about.key, question)),
                        Event::Done(_) => {}
                    }
                }
                yield step;
                return;
            }
        }
    }

    /// What a client says, in the version of this server. What that has no form for is reported; the handshake is in it
    /// already.
    fn in_its_words(
        &self,
        request: Option<Kind>,
        method: &Method,
        (params, profile): (Payload, Profile),
    ) -> Result<Payload, Untranslatable> {
        let meaning = match request {
            Some(Kind::Handshake) => return Ok(params),
            Some(Kind::Asking | Kind::Client) => Meaning::Request,
            None => Meaning::ClientNotification,
        };
        let facts = Facts { profile, ..Facts::new(meaning, method) };
        params.into_revision(self.revision(), &facts).map_err(|refusal| {
            let refusal = refusal.of(Some(&self.about.backend));
            refusal.report();
            refusal
        })
    }

    /// Passes on a notification of the client's.
    pub(crate) async fn notify(&self, method: Method, params: Payload, profile: Profile) {
        let params = match self.in_its_words(None, &method, (params, profile)) {
            Ok(params) => params.json().clone(),
            // reported already
            Err(_) => return,
        };
        let sent = self.transport.send(Message::Notification { method, params }).await;
        if let Err(error) = sent {
            tracing::debug!(backend = %self.about.backend, %error, "a client's notification was not delivered");
        }
    }
}

// === impl Ticket ===

impl Ticket {
    fn open(
        session: Arc<Session>,
        owner: Owner,
        kind: Kind,
        (patience, farewell): (Duration, Farewell),
    ) -> Result<Self, NotSent> {
        let Owner { holder, token } = owner;
        let (answered, question_closed) = (Mutex::default(), Mutex::default());
        let running = Running { token, holder, answered, question_closed, kind };
        let (id, events) = session.enter(running).map_err(NotSent)?;
        if kind == Kind::Asking {
            session.ask_held(id);
        }
        Ok(Self { session, id, kind, events, patience, farewell })
    }

    /// What came on the exchange of this call: what is for it is given at once, the rest goes where it belongs.
    fn arrived(&self, arrived: Result<Message, TransportError>) -> Option<Result<Event, NotSent>> {
        match arrived {
            Ok(message) => {
                let received = self.session.receive(message, Some(self.id))?;
                let others = |call, event| self.session.deliver(call, event);
                self.session.calls.own(self.id, received, others).map(Ok)
            }
            Err(error) => {
                self.session.calls.close(self.id);
                Some(self.broken(error))
            }
        }
    }

    fn broken(&self, error: TransportError) -> Result<Event, NotSent> {
        let error =
            error.of_call(&self.session.about.backend).inspect_err(|NotSent(reason)| self.session.end(reason))?;
        Ok(Event::Done(Outcome::Failed(error)))
    }

    /// When its client last answered something.
    fn answered(&self) -> Option<Instant> {
        *self.session.calls.lock().get(self.id)?.note.answered.lock()
    }

    fn lost(&self) -> Event {
        Event::Done(Outcome::Failed(self.session.lost_error()))
    }

    fn timed_out(&self) -> Event {
        timed_out(&self.session.about.backend, self.patience)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(running) = self.session.calls.close(self.id)
            && self.kind != Kind::Handshake
            && !self.session.is_over()
        {
            if !self.session.about.key.is_of_one_client() {
                self.session.lingering.lock().insert(self.id, (running.holder, Instant::now() + LINGER));
            }
            // translation 4b.6: what the server asked in it is answered first
            let mut messages = self.session.close_questions(self.id);
            messages.push(cancellation(self.id, &self.farewell));
            self.session.tell_in_order(messages);
        }
    }
}
