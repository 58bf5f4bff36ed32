//! One call on one connection: its parameters on the wire, its id, its progress token, its silence, its cancellation.

use std::{future::pending, sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt as _};
use tokio::time::{Instant, sleep_until};

use super::{
    call_events::EventReceiver,
    calls::{CallKind, OpenCall, cancellation, timed_out},
    state::ServerConnection,
};
use crate::{
    backend::transport::{Exchange, NotSent, TransportError},
    mcp::{
        CancelReason, ClientInfo, Context, ErrorObject, Event, Facts, Message, Method, Outcome, Payload, RequestId,
        meta,
        mirrored::Mirror,
        translate::{Kind, Profile},
    },
    model::{Delivery, Requester},
};

/// A call to be made.
#[derive(Debug, Clone)]
pub(crate) struct OutboundCall {
    /// The method.
    pub(crate) method: Method,
    /// Its parameters.
    pub(crate) params: Payload,
    /// For whom the call is made: a client session, the clients of one user without a session, or the gateway itself.
    pub(crate) holder: Requester,
    /// The client; `None` for the gateway itself.
    pub(crate) client: Option<Arc<ClientInfo>>,
    /// Parameters that are mirrored beside the body (2026-07-28).
    pub(crate) mirror: Option<Arc<Mirror>>,
    /// What becomes of members that the server's version does not define.
    pub(crate) profile: Profile,
    /// What the server is told if the call is given up.
    pub(crate) cancel_reason: CancelReason,
}

/// The caller's side of an open call. Dropping it before the end cancels the call at the server.
struct CallTicket {
    connection: Arc<ServerConnection>,
    id: u64,
    events: EventReceiver,
    cancel_reason: CancelReason,
}

// === impl OutboundCall ===

impl OutboundCall {
    /// A client's call.
    pub(crate) fn by(context: &Context, method: &Method, params: &Payload) -> Self {
        Self {
            method: method.clone(),
            params: params.clone(),
            holder: context.requester.clone(),
            client: Some(Arc::clone(&context.client)),
            mirror: context.mirror.clone(),
            profile: context.profile,
            cancel_reason: context.cancel_reason.clone(),
        }
    }

    /// A call of the gateway's own.
    pub(crate) fn of_gateway(method: Method, params: Payload) -> Self {
        let (profile, cancel_reason) = (Profile::default(), CancelReason::default());
        Self { method, params, holder: Requester::Gateway, client: None, mirror: None, profile, cancel_reason }
    }
}

// === impl ServerConnection ===

impl ServerConnection {
    /// Makes one call. The events end with [`Event::Done`], or with [`NotSent`] as the only one. A call that stays silent for
    /// longer than `timeout` is cancelled and fails.
    pub(crate) fn call(
        self: &Arc<Self>,
        call: OutboundCall,
        timeout: Duration,
    ) -> impl Stream<Item = Result<Event, NotSent>> + Send + use<> {
        let kind = self.about.protocol.kind(&call.method);
        self.call_of(call, kind, timeout)
    }

    /// Makes one call of any kind.
    pub(super) fn call_of(
        self: &Arc<Self>,
        call: OutboundCall,
        kind: CallKind,
        timeout: Duration,
    ) -> impl Stream<Item = Result<Event, NotSent>> + Send + use<> {
        let connection = Arc::clone(self);
        self.exchange(call, kind, timeout).map(move |event| match event {
            Ok(Event::Done(Outcome::Failed(error))) if connection.about.protocol.is_of_another_version(&error) => {
                // elsewhere it may be one of several machines that says so: it is asked whether all do
                if connection.about.abilities.delivery == Delivery::Channel {
                    connection.end("the server no longer speaks 2026-07-28");
                }
                Err(NotSent("the server speaks another version now".to_owned()))
            }
            Ok(event) => Ok(event),
            Err(error) => match error.of_call(&connection.about.backend) {
                Ok(error) => Ok(Event::Done(Outcome::Failed(error))),
                Err(NotSent(reason)) => {
                    connection.end(&reason);
                    Err(NotSent(reason))
                }
            },
        })
    }

    /// Makes one call, without judging what becomes of the connection.
    pub(super) fn exchange(
        self: &Arc<Self>,
        call: OutboundCall,
        kind: CallKind,
        timeout: Duration,
    ) -> impl Stream<Item = Result<Event, TransportError>> + Send + use<> {
        let connection = Arc::clone(self);
        async_stream::stream! {
            let params = match connection.params(&call, kind) {
                Ok(params) => params,
                Err(error) => {
                    yield Ok(Event::Done(Outcome::Failed(error)));
                    return;
                }
            };
            // on the standalone stream the server may send requests in this call
            if kind == CallKind::Asking
                && connection.about.key.can_be_asked()
                && let Some(listening) = connection.transport.listening()
            {
                listening.await;
            }
            let OutboundCall { method, holder, mirror, cancel_reason, .. } = call;
            let token = meta::progress_token(&params);
            let level = connection.about.protocol.level(&params);
            let open = OpenCall { token: token.clone(), holder, level, ..OpenCall::new(method.clone(), kind) };
            let mut ticket = match CallTicket::open(connection, open, cancel_reason) {
                Ok(ticket) => ticket,
                Err(reason) => {
                    yield Err(TransportError::Gone(reason));
                    return;
                }
            };
            // the id serves as the token as well: both are unique on this connection (design rule 1)
            let params = if token.is_some() { meta::with_progress_token(&params, &ticket.id.to_string()) } else { params };
            let request = Message::Request { id: RequestId::number(ticket.id), method, params: params.json().clone() };
            let transport = Arc::clone(&ticket.connection.transport);
            let mut exchange = transport.request(request, mirror);
            let mut silent_until = Instant::now() + timeout;
            loop {
                let step = tokio::select! {
                    biased;
                    event = ticket.events.next() => Some(Ok(event.unwrap_or_else(|| ticket.lost()))),
                    arrived = arrived(&mut exchange) => ticket.arrived(arrived),
                    () = sleep_until(silent_until) => match ticket.waits_until(timeout) {
                        Some(until) => {
                            silent_until = until;
                            continue;
                        }
                        None => Some(Ok(timed_out(&ticket.connection.about.backend, timeout))),
                    },
                };
                if matches!(step, None | Some(Ok(Event::Notified(_) | Event::Asked(_)))) {
                    silent_until = Instant::now() + timeout;
                }
                let Some(step) = step else { continue };
                if matches!(step, Ok(Event::Notified(_) | Event::Asked(_))) {
                    yield step;
                    continue;
                }
                // what came in the same moment on another stream is not lost with the call
                while let Some(event) = ticket.next_late() {
                    yield Ok(event);
                }
                yield step;
                return;
            }
        }
    }

    /// The parameters as this server reads them; those of the handshake are in its version already.
    ///
    /// # Errors
    ///
    /// If the server's version has no form for them; that is reported.
    fn params(&self, call: &OutboundCall, kind: CallKind) -> Result<Payload, ErrorObject> {
        let params = call.params.clone();
        if kind == CallKind::Handshake {
            return Ok(params);
        }
        let client = call.client.as_deref();
        let facts = Facts { profile: call.profile, client, ..Facts::new(Kind::Request, &call.method) };
        self.about.protocol.params(self, params, &facts)
    }

    /// Passes on a notification of the client's.
    pub(crate) async fn notify(&self, method: Method, params: Payload, profile: Profile) {
        let facts = Facts { profile, ..Facts::new(Kind::ClientNotification, &method) };
        let params = match params.into_revision(self.revision(), &facts) {
            Ok(params) => params.json().clone(),
            Err(refusal) => return refusal.of(Some(&self.about.backend)).report(),
        };
        let sent = self.transport.send(Message::Notification { method, params }).await;
        if let Err(error) = sent {
            tracing::debug!(backend = %self.about.backend, %error, "a client's notification was not delivered");
        }
    }
}

/// The next that comes on the exchange of a call; on a channel nothing does.
async fn arrived(exchange: &mut Exchange) -> Result<Message, TransportError> {
    if let Exchange::Own(messages) = exchange {
        if let Some(message) = messages.next().await {
            return message;
        }
        *exchange = Exchange::Channel;
    }
    pending().await
}

// === impl CallTicket ===

impl CallTicket {
    fn open(connection: Arc<ServerConnection>, call: OpenCall, cancel_reason: CancelReason) -> Result<Self, String> {
        let kind = call.kind;
        let (id, events) = connection.calls.open(call, || connection.end.has_come().then(|| connection.reason()))?;
        if kind == CallKind::Asking && !connection.deferred.is_empty() {
            connection.requests.put_deferred(id);
        }
        Ok(Self { connection, id, events, cancel_reason })
    }

    /// What came on the exchange of this call: what is for it is given at once, the rest goes where it belongs.
    fn arrived(&self, arrived: Result<Message, TransportError>) -> Option<Result<Event, TransportError>> {
        match arrived {
            Ok(message) => {
                let received = self.connection.receive(message, Some(self.id))?;
                let others = |call, event| self.connection.deliver(call, event);
                self.connection.calls.own(self.id, received, others).map(Ok)
            }
            Err(error) => {
                self.connection.calls.close(self.id);
                Some(Err(error))
            }
        }
    }

    /// The time until which a server that is silent is waited for, since it waits for its client; `None` if it does not.
    fn waits_until(&self, timeout: Duration) -> Option<Instant> {
        let now = Instant::now();
        let answered = self.connection.calls.read(self.id, |call| call.answered).flatten();
        let after_answer = answered.map(|at| at + timeout).filter(|until| *until > now);
        after_answer.or_else(|| self.connection.requests.is_open_in(self.id).then_some(now + timeout))
    }

    /// The next notification that came in the same moment as the end. A request of the server goes to the listen; if nobody
    /// listens it is refused by being dropped.
    fn next_late(&mut self) -> Option<Event> {
        loop {
            match self.events.ready()? {
                Event::Asked(question) => {
                    let about = &self.connection.about;
                    drop(about.listens.ask(&about.key, question));
                }
                Event::Done(_) => {}
                event @ Event::Notified(_) => return Some(event),
            }
        }
    }

    fn lost(&self) -> Event {
        Event::Done(Outcome::Failed(self.connection.lost_error()))
    }
}

impl Drop for CallTicket {
    fn drop(&mut self) {
        let Some(call) = self.connection.calls.close(self.id) else { return };
        if call.kind == CallKind::Handshake || self.connection.is_over() {
            return;
        }
        self.connection.calls.given_up(self.id, call);
        // `translation` 4b.6: what the server asked in it is answered first
        let mut messages = self.connection.requests.close_of(self.id);
        messages.push(cancellation(self.id, &self.cancel_reason));
        self.connection.sender.tell_in_order(messages);
    }
}
