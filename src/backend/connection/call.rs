//! One call on one connection: parameters on the wire, id, progress token, timeout, cancellation.

use std::{future::pending, sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt as _};
use tokio::time::Instant;

use super::{
    call_events::EventReceiver,
    calls::{CallKind, OpenCall, cancellation, timed_out},
    state::ServerConnection,
};
use crate::{
    backend::transport::{Exchange, NotSent, RequestTerms, TransportError},
    mcp::{
        Call, CancelReason, ClientInfo, ErrorObject, Event, Facts, Level, Message, Method, Outcome, Payload, RequestId,
        large_messages::off_worker,
        meta,
        mirrored_params::Mirror,
        translate::{Kind, Profile},
    },
    model::{Caller, Delivery, Requester},
    support::{Account, silence::overdue},
};

/// A call to a server.
#[derive(Debug, Clone)]
pub(crate) struct OutboundCall {
    pub(crate) method: Method,
    /// `None`: the server's protocol decides.
    kind: Option<CallKind>,
    pub(crate) params: Payload,
    /// The owner of the call: a client session, the clients of one user without a session, or the gateway.
    pub(crate) holder: Requester,
    /// The caller; `None` if the gateway makes the call.
    pub(crate) caller: Option<Arc<Caller>>,
    /// The account of the user; `None` if the gateway makes the call.
    pub(crate) account: Option<Account>,
    /// The client; `None` if the gateway makes the call.
    pub(crate) client: Option<Arc<ClientInfo>>,
    /// Parameters that are mirrored in headers (2026-07-28).
    pub(crate) mirror: Option<Arc<Mirror>>,
    /// Lowest level of log messages that the client wants.
    pub(crate) level: Option<Level>,
    /// Treatment of members that the server's version does not define.
    pub(crate) profile: Profile,
    /// Reason sent to the server if the call is cancelled.
    pub(crate) cancel_reason: CancelReason,
}

/// The caller's side of an open call. Dropping it early cancels the call at the server.
struct CallTicket {
    connection: Arc<ServerConnection>,
    id: u64,
    events: EventReceiver,
    cancel_reason: CancelReason,
}

// === impl OutboundCall ===

impl OutboundCall {
    /// A call made for a client.
    pub(crate) fn by(Call { method, params, context }: &Call) -> Self {
        Self {
            method: method.clone(),
            kind: None,
            params: params.clone(),
            holder: context.requester.clone(),
            caller: Some(Arc::clone(&context.caller)),
            account: Some(context.account.clone()),
            client: Some(Arc::clone(&context.client)),
            mirror: context.mirror.clone(),
            level: context.level.get(),
            profile: context.profile,
            cancel_reason: context.cancel_reason.clone(),
        }
    }

    /// A call of the gateway's own. The server cannot send requests in it.
    pub(crate) fn of_gateway(method: Method, params: Payload) -> Self {
        Self {
            method,
            kind: Some(CallKind::Plain),
            params,
            holder: Requester::Gateway,
            caller: None,
            account: None,
            client: None,
            mirror: None,
            level: None,
            profile: Profile::default(),
            cancel_reason: CancelReason::default(),
        }
    }

    /// The handshake with these parameters.
    pub(super) fn handshake(params: Payload) -> Self {
        Self { kind: Some(CallKind::Handshake), ..Self::of_gateway(Method::Initialize, params) }
    }
}

// === impl ServerConnection ===

impl ServerConnection {
    /// Makes one call. The stream ends with [`Event::Done`], or has [`NotSent`] as its only item. A call without any
    /// message for `timeout` is cancelled and fails.
    pub(crate) fn call(
        self: &Arc<Self>,
        call: OutboundCall,
        timeout: Duration,
    ) -> impl Stream<Item = Result<Event, NotSent>> + Send + use<> {
        let connection = Arc::clone(self);
        self.exchange(call, timeout).map(move |event| match event {
            Ok(Event::Done(Outcome::Failed(error))) if connection.context.protocol.is_of_another_version(&error) => {
                // behind an address, this may be one of several machines: `server/discover` shows if all of them agree
                if connection.context.abilities.delivery == Delivery::Channel {
                    connection.end("the server no longer speaks 2026-07-28");
                }
                Err(NotSent("the server uses another version now".to_owned()))
            }
            Ok(event) => Ok(event),
            Err(error) => match error.of_call(&connection.context.backend) {
                Ok(error) => Ok(Event::Done(Outcome::Failed(error))),
                Err(NotSent(reason)) => {
                    connection.end(&reason);
                    Err(NotSent(reason))
                }
            },
        })
    }

    /// Makes one call. Never ends the connection, even after an error.
    pub(super) fn exchange(
        self: &Arc<Self>,
        call: OutboundCall,
        timeout: Duration,
    ) -> impl Stream<Item = Result<Event, TransportError>> + Send + use<> {
        let connection = Arc::clone(self);
        async_stream::stream! {
            off_worker(call.params.json().len()).await;
            let kind = call.kind.unwrap_or_else(|| connection.context.protocol.kind(&call.method));
            let params = match connection.params(&call, kind) {
                Ok(params) => params,
                Err(error) => {
                    yield Ok(Event::Done(Outcome::Failed(error)));
                    return;
                }
            };
            connection.awaits_stream(kind).await;
            off_worker(call.params.json().len()).await;
            // translation changes neither of these
            let token = meta::progress_token(&call.params);
            let level = connection.context.protocol.level(call.level);
            let OutboundCall { method, holder, caller, account, mirror, cancel_reason, .. } = call;
            let account = account.unwrap_or_else(|| connection.context.origin.account());
            let terms = RequestTerms { mirror, account: account.clone() };
            let open = OpenCall { token: token.clone(), caller, holder, level, ..OpenCall::new(method.clone(), kind) };
            let mut ticket = match CallTicket::open(connection, open, account, cancel_reason) {
                Ok(ticket) => ticket,
                Err(reason) => {
                    yield Err(TransportError::Gone(reason));
                    return;
                }
            };
            // the id is also the token: both are unique on this connection (design rule 1)
            let params = if token.is_some() { meta::with_progress_token(&params, &ticket.id.to_string()) } else { params };
            let request = Message::Request { id: RequestId::number(ticket.id), method, params: params.into_params() };
            let transport = Arc::clone(&ticket.connection.transport);
            let mut exchange = transport.request(request, terms);
            let mut silent_until = Instant::now() + timeout;
            loop {
                let step = tokio::select! {
                    biased;
                    event = ticket.events.next() => Some(Ok(event.unwrap_or_else(|| ticket.lost()))),
                    arrived = arrived(&mut exchange) => ticket.arrived(arrived),
                    () = overdue(silent_until) => {
                        if let Some(until) = ticket.waits_until(timeout) {
                            silent_until = until;
                            continue;
                        }
                        Some(Ok(ticket.given_up(timeout)))
                    }
                };
                if matches!(step, None | Some(Ok(Event::Notified(_) | Event::Asked(_)))) {
                    silent_until = Instant::now() + timeout;
                }
                let Some(step) = step else { continue };
                // messages on a channel are read on the server's turn, but translated on the caller's
                off_worker(step.as_ref().map_or(0, Event::payload_len)).await;
                if matches!(step, Ok(Event::Notified(_) | Event::Asked(_))) {
                    yield step;
                    continue;
                }
                // keep messages that arrived at the same moment on another stream
                while let Some(event) = ticket.next_late() {
                    yield Ok(event);
                }
                yield step;
                return;
            }
        }
    }

    /// Waits until the standalone stream is open, if the server may send requests of such a call there.
    async fn awaits_stream(&self, kind: CallKind) {
        if kind == CallKind::Asking
            && self.context.can_be_asked()
            && let Some(listening) = self.transport.listening()
        {
            listening.await;
        }
    }

    /// Translates the parameters into the server's version. Those of the handshake are in it already.
    ///
    /// # Errors
    ///
    /// An error, counted, if the server's version has no form for them.
    fn params(&self, call: &OutboundCall, kind: CallKind) -> Result<Payload, ErrorObject> {
        let params = call.params.clone();
        if kind == CallKind::Handshake {
            return Ok(params);
        }
        let params = match self.context.protocol.level(call.level) {
            Some(level) if meta::log_level(&params).is_none() => meta::with_log_level(&params, level),
            _ => params,
        };
        let client = call.client.as_deref();
        let facts = Facts { profile: call.profile, client, ..Facts::new(Kind::Request, &call.method) };
        self.context.protocol.params(self, params, &facts)
    }

    /// Forwards a client's notification.
    pub(crate) async fn notify(&self, method: Method, params: Payload, profile: Profile) {
        off_worker(params.json().len()).await;
        // the status of a task that the client runs for another server's request
        if method == Method::TaskStatus && !self.requests.client_tasks.may_reach(&method, &params) {
            return;
        }
        let facts = Facts { profile, ..Facts::new(Kind::ClientNotification, &method) };
        let params = match params.into_revision(self.revision(), &facts) {
            Ok(params) => params.into_params(),
            Err(refusal) => return refusal.of(Some(&self.context.origin)).report(),
        };
        let sent = self.transport.send(Message::Notification { method, params }).await;
        if let Err(error) = sent {
            tracing::debug!(server = %self.context.backend, %error, "a client's notification was not delivered");
        }
    }
}

/// The next message on the exchange of a call; pending forever on a channel.
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
    fn open(
        connection: Arc<ServerConnection>,
        call: OpenCall,
        account: Account,
        cancel_reason: CancelReason,
    ) -> Result<Self, String> {
        let kind = call.kind;
        let (id, events) =
            connection.calls.open(call, account, || connection.end.is_set().then(|| connection.reason()))?;
        if kind == CallKind::Asking && !connection.deferred.is_empty() {
            connection.requests.forward_deferred(id);
        }
        Ok(Self { connection, id, events, cancel_reason })
    }

    /// Handles a message on the exchange of this call: returns an event of this call, and routes everything else.
    fn arrived(&self, arrived: Result<Message, TransportError>) -> Option<Result<Event, TransportError>> {
        match arrived {
            Ok(message) => {
                let (to, event) = self.connection.receive(message, Some(self.id))?;
                let others = |call, event| self.connection.deliver(call, event);
                self.connection.calls.own(self.id, to, event, others).map(Ok)
            }
            Err(error) => {
                self.connection.calls.close(self.id);
                Some(Err(error))
            }
        }
    }

    /// The time until which the gateway waits for a server that is silent because it waits for its client; `None` if it
    /// does not wait.
    fn waits_until(&self, timeout: Duration) -> Option<Instant> {
        let now = Instant::now();
        let answered = self.connection.calls.read(self.id, |call| call.answered).flatten();
        let after_answer = answered.map(|at| at + timeout).filter(|until| *until > now);
        after_answer.or_else(|| self.connection.requests.is_open_in(self.id).then_some(now + timeout))
    }

    /// Ends a call after `timeout` without a message.
    fn given_up(&self, timeout: Duration) -> Event {
        self.connection.given_up_for_silence(timeout);
        timed_out(&self.connection.context.backend, timeout)
    }

    /// The next notification that arrived at the same moment as the end. A server request goes to the client's listen,
    /// or is refused by dropping it.
    fn next_late(&mut self) -> Option<Event> {
        loop {
            match self.events.ready()? {
                Event::Asked(question) => drop(self.connection.requests.ask_listener(question)),
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
        let Some(kind) = self.connection.calls.give_up(self.id) else { return };
        if kind == CallKind::Handshake || self.connection.is_over() {
            return;
        }
        // `translation` 4b.6: first answer the server requests of the call
        let mut messages = self.connection.requests.close_of(self.id);
        messages.push(cancellation(self.id, &self.cancel_reason));
        self.connection.sender.send_in_order(messages);
    }
}
