//! Incoming messages: answers go to their call, progress goes by token, the protocol of the server's era attributes the
//! rest.

use std::{pin::pin, sync::Arc};

use bytes::Bytes;
use futures_util::StreamExt as _;

use super::{
    ownership::{CallOwner, OwnedId},
    state::{ConnectionContext, ServerConnection},
};
use crate::{
    backend::transport::{Incoming, ServerInput, Transport, well_formed},
    mcp::{
        ErrorObject, Event, Message, Method, Notification, Outcome, Payload, RequestId,
        json::{self, At},
        jsonrpc::Frame,
    },
};

/// Starts a connection over a fresh transport: receives messages until the connection ends, then closes the transport.
pub(crate) fn begin(
    context: ConnectionContext,
    transport: Arc<dyn Transport>,
    mut incoming: Incoming,
) -> Arc<ServerConnection> {
    let connection = ServerConnection::new(context, transport);
    let received = Arc::clone(&connection);
    connection.context.tasks.spawn(async move {
        let reason = {
            let mut end = pin!(received.end.token().cancelled());
            loop {
                let arrival = tokio::select! {
                    biased;
                    arrival = incoming.next() => arrival,
                    () = &mut end => break "the gateway ended the connection".to_owned(),
                };
                match arrival {
                    Some(ServerInput::Text(text)) => received.take(&text),
                    Some(ServerInput::Lost(reason)) => break reason,
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
    /// Handles a message outside of any exchange.
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

    /// Handles one message; `on` is the call on whose exchange it came. Returns the call that it belongs to and its
    /// event; everything else is done here.
    pub(super) fn receive(&self, message: Message, on: Option<u64>) -> Option<(u64, Event)> {
        match message {
            Message::Response { id, outcome } => self.answered(id.as_ref(), outcome, on),
            Message::Notification { method, params } => {
                let notification = Notification { method, params: self.context.protocol.received(self, params) };
                match notification.method {
                    Method::Progress => self.progressed(&notification.params),
                    _ => self.context.protocol.notified(self, notification, on),
                }
            }
            Message::Request { id, method, params } => self.context.protocol.asked(self, (id, method, params), on),
        }
    }

    /// Delivers `event` to the call `id`. A server request whose call has just ended goes to the listen.
    pub(super) fn deliver(&self, id: u64, event: Event) {
        if let Some(Event::Asked(question)) = self.calls.deliver(id, event) {
            // without a listen it is dropped, which refuses it
            drop(self.context.listens.forward_request(&self.context.key, question));
        }
    }

    fn answered(
        &self,
        id: Option<&RequestId>,
        outcome: Result<Bytes, ErrorObject>,
        on: Option<u64>,
    ) -> Option<(u64, Event)> {
        // an error for an unreadable request has no id; the exchange identifies the call
        let call = match id {
            Some(id) => id.as_number(),
            None => on,
        };
        let method = call.and_then(|call| self.calls.read(call, |call| call.method.clone()));
        let (Some(call), Some(method)) = (call, method) else {
            if let Some(call) = call {
                self.calls.answered_late(call);
            }
            tracing::debug!(backend = %self.context.backend, "an answer without an open request is ignored");
            metrics::counter!("lockkeeper_backend_stray_answers_total").increment(1);
            return None;
        };
        let protocol = self.context.protocol;
        let outcome = match outcome {
            Ok(result) => protocol.outcome(self, (call, &method), protocol.received(self, result)),
            Err(error) => protocol.failure(self, id, error),
        };
        Some((call, Event::Done(outcome)))
    }

    /// The progress event of the call with the token, under the client's own token (design rule 1).
    fn progressed(&self, params: &Payload) -> Option<(u64, Event)> {
        let id = number(params.member("progressToken")?)?;
        let Some(token) = self.calls.read(id, |call| call.token.clone()) else {
            self.progressed_later(id, params);
            return None;
        };
        Some((id, Event::Notified(under_token(params, &token?))))
    }

    /// Delivers progress of a task after the call that created it (2025-11-25, tasks) to the client session of that
    /// call.
    fn progressed_later(&self, id: u64, params: &Payload) {
        let owner = self.calls.ownership.lock().owner(&OwnedId::Token(id)).cloned();
        if let Some(CallOwner { token: Some(token), holder }) = owner {
            self.context.listens.notify(&self.context.key, &under_token(params, &token), |other| *other == holder);
        }
    }
}

/// The outcome of a call that the server could not read (`translation` 2.3): the client is not at fault.
pub(super) fn unreadable(connection: &ServerConnection, error: ErrorObject) -> Outcome {
    tracing::warn!(backend = %connection.context.backend, %error, "the backend could not read a request");
    Outcome::Failed(error.hidden().naming_backend(&connection.context.backend))
}

/// Progress under the client's own token (design rule 1).
fn under_token(params: &Payload, token: &Bytes) -> Notification {
    let token = String::from_utf8_lossy(token).into_owned();
    let params = params.rewrite(&[&[At::Key("progressToken")]], |_| Some(token.clone()));
    Notification { method: Method::Progress, params }
}

/// An id of the gateway; some servers return it as a string.
pub(super) fn number(text: &str) -> Option<u64> {
    json::unquote(text).unwrap_or_else(|| text.to_owned()).parse().ok()
}
