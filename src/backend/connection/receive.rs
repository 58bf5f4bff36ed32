//! Messages of a server: an answer goes to its call, progress under its token; the rest is for the protocol of the server's
//! era to attribute.

use std::{pin::pin, sync::Arc};

use bytes::Bytes;
use futures_util::StreamExt as _;

use super::{
    ownership::{CallOwner, Thing},
    state::{About, ServerConnection},
};
use crate::{
    backend::transport::{Arrival, Incoming, Transport, well_formed},
    mcp::{
        ErrorObject, Event, Message, Method, Notification, Outcome, Payload, RequestId,
        json::{self, At},
        jsonrpc::Frame,
    },
};

/// Begins a connection over a transport that has just been opened: what comes on it is received from now on, until the
/// connection is over; then the transport is closed.
pub(crate) fn begin(about: About, transport: Arc<dyn Transport>, mut incoming: Incoming) -> Arc<ServerConnection> {
    let connection = ServerConnection::new(about, transport);
    let received = Arc::clone(&connection);
    connection.about.tasks.spawn(async move {
        let reason = {
            let mut end = pin!(received.end.token().cancelled());
            loop {
                let arrival = tokio::select! {
                    biased;
                    arrival = incoming.next() => arrival,
                    () = &mut end => break "the gateway ended the connection".to_owned(),
                };
                match arrival {
                    Some(Arrival::Text(text)) => received.take(&text),
                    Some(Arrival::Lost(reason)) => break reason,
                    None => break "the connection ended".to_owned(),
                }
            }
        };
        received.end(&reason);
        drop(incoming);
        received.transport.close().await;
    });
    connection
}

impl ServerConnection {
    /// Takes in what came outside of any exchange.
    fn take(&self, text: &Bytes) {
        let take = |message| {
            if let Some((call, event)) = self.receive(message, None) {
                self.deliver(call, event);
            }
        };
        match Frame::parse(text) {
            Ok(Frame::Single(message)) => take(message),
            several => well_formed(several, text).into_iter().for_each(take),
        }
    }

    /// Takes in one message; `on` is the call on whose exchange it came, if it came on one. Gives the call that it is for and
    /// what to tell it; everything else is seen to here.
    pub(super) fn receive(&self, message: Message, on: Option<u64>) -> Option<(u64, Event)> {
        match message {
            Message::Response { id, outcome } => self.answered(id.as_ref(), outcome, on),
            Message::Notification { method, params } => {
                let notification = Notification { method, params: self.about.protocol.received(self, params) };
                match notification.method {
                    Method::Progress => self.progressed(&notification.params),
                    _ => self.about.protocol.notified(self, notification, on),
                }
            }
            Message::Request { id, method, params } => self.about.protocol.asked(self, (id, method, params), on),
        }
    }

    /// Hands `event` to the call `id`. A request of the server whose call has just ended goes to the listen.
    pub(super) fn deliver(&self, id: u64, event: Event) {
        if let Some(Event::Asked(question)) = self.calls.deliver(id, event) {
            // if nobody listens it is refused by being dropped
            drop(self.about.listens.ask(&self.about.key, question));
        }
    }

    fn answered(
        &self,
        id: Option<&RequestId>,
        outcome: Result<Bytes, ErrorObject>,
        on: Option<u64>,
    ) -> Option<(u64, Event)> {
        // an error whose request could not be read has no id: the exchange tells which it is
        let call = match id {
            Some(id) => id.as_number(),
            None => on,
        };
        let method = call.and_then(|call| self.calls.read(call, |call| call.method.clone()));
        let (Some(call), Some(method)) = (call, method) else {
            if let Some(call) = call {
                self.calls.answered_late(call);
            }
            tracing::debug!(backend = %self.about.backend, "an answer to no open request is passed over");
            metrics::counter!("lockkeeper_backend_stray_answers_total").increment(1);
            return None;
        };
        let protocol = self.about.protocol;
        let outcome = match outcome {
            Ok(result) => protocol.outcome(self, (call, &method), protocol.received(self, result)),
            Err(error) => protocol.failure(self, id, error),
        };
        Some((call, Event::Done(outcome)))
    }

    /// Progress goes to the call whose token it carries, under the client's own token (design rule 1).
    fn progressed(&self, params: &Payload) -> Option<(u64, Event)> {
        let id = number(params.member("progressToken")?)?;
        let Some(token) = self.calls.read(id, |call| call.token.clone()) else {
            self.progressed_later(id, params);
            return None;
        };
        Some((id, Event::Notified(under_token(params, &token?))))
    }

    /// Progress of a task goes on after the call that made it (2025-11-25, tasks), to the client session that called.
    fn progressed_later(&self, id: u64, params: &Payload) {
        let owner = self.calls.ownership.lock().owner(&Thing::Token(id)).cloned();
        if let Some(CallOwner { token: Some(token), holder }) = owner {
            self.about.listens.tell(&self.about.key, &under_token(params, &token), |other| *other == holder);
        }
    }
}

/// The outcome of a call that the server could not read (`translation` 2.3): nothing that the client did is at fault.
pub(super) fn unreadable(connection: &ServerConnection, error: ErrorObject) -> Outcome {
    tracing::warn!(backend = %connection.about.backend, %error, "the backend could not read a request");
    Outcome::Failed(error.hidden().naming_backend(&connection.about.backend))
}

/// Progress under the client's own token (design rule 1).
fn under_token(params: &Payload, token: &Bytes) -> Notification {
    let token = String::from_utf8_lossy(token).into_owned();
    let params = params.rewrite(&[&[At::Key("progressToken")]], |_| Some(token.clone()));
    Notification { method: Method::Progress, params }
}

/// One of the gateway's own numbers, which some servers make a string of.
pub(super) fn number(text: &str) -> Option<u64> {
    json::unquote(text).unwrap_or_else(|| text.to_owned()).parse().ok()
}
