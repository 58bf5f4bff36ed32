//! Incoming messages: answers go to their call, progress goes by token, the protocol of the server's era attributes the
//! rest.

use std::{
    pin::pin,
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::sync::oneshot;

use super::{
    ownership::{CallOwner, OwnedId},
    state::{ConnectionContext, ServerConnection},
};
use crate::{
    backend::transport::{BrokenAnswer, Incoming, ServerInput, Transport, well_formed},
    mcp::{
        ErrorObject, Event, Message, Method, Notification, Outcome, Payload, RequestId,
        hearers::Addressees,
        json::{self, At},
        jsonrpc::Frame,
        large_messages::{MessageOwner, OffWorker, off_worker},
    },
};

/// A transport without a connection.
pub(crate) struct OpenTransport {
    /// The transport.
    pub(crate) transport: Arc<dyn Transport>,
    incoming: Incoming,
    /// The first id for requests: those below were used on it.
    first_id: u64,
}

// === impl OpenTransport ===

impl OpenTransport {
    /// A transport that was just connected.
    pub(crate) const fn fresh(transport: Arc<dyn Transport>, incoming: Incoming) -> Self {
        Self { transport, incoming, first_id: 0 }
    }
}

/// Starts a connection: receives messages until the connection ends, then closes the transport, unless it is handed
/// over.
pub(crate) fn begin(context: ConnectionContext, open: OpenTransport) -> Arc<ServerConnection> {
    let OpenTransport { transport, mut incoming, first_id } = open;
    let (successor, handed_over) = oneshot::channel();
    let connection = ServerConnection::new(context, (transport, first_id), handed_over);
    let received = Arc::clone(&connection);
    let owner = MessageOwner::Server(connection.context.backend.clone());
    let receiving = async move {
        let lost = {
            let mut end = pin!(received.end.token().cancelled());
            loop {
                let arrival = tokio::select! {
                    biased;
                    arrival = incoming.next() => arrival,
                    () = &mut end => break None,
                };
                match arrival {
                    Some(ServerInput::Text(text)) => {
                        off_worker(text.len()).await;
                        received.take(&text);
                    }
                    Some(ServerInput::Lost(reason)) => break Some(reason),
                    None => break Some("the connection ended".to_owned()),
                }
            }
        };
        if lost.is_none() && received.is_handed_over.load(Ordering::Acquire) {
            let Err(unclaimed) = successor.send(incoming) else { return };
            incoming = unclaimed;
        }
        received.end(lost.as_deref().unwrap_or("the gateway ended the connection"));
        drop(incoming);
        received.transport.close().await;
    };
    connection.context.tasks.spawn(OffWorker::future(owner, Box::pin(receiving)));
    connection
}

/// Continues an open session as a connection with another owner; `None` if it has ended.
pub(crate) async fn continued(session: &ServerConnection, context: ConnectionContext) -> Option<Arc<ServerConnection>> {
    let server = session.server()?.clone();
    let connection = begin(context, session.hand_over().await?);
    connection.set_server(server);
    Some(connection)
}

impl ServerConnection {
    /// Ends the connection without its transport, which another one continues; `None` if it has ended before.
    pub(crate) async fn hand_over(&self) -> Option<OpenTransport> {
        let incoming = self.incoming.lock().take()?;
        self.is_handed_over.store(true, Ordering::Release);
        self.end("another connection continues its channel");
        let incoming = incoming.await.ok()?;
        Some(OpenTransport { transport: Arc::clone(&self.transport), incoming, first_id: self.calls.next_id() })
    }

    /// Ends the connection, and waits until its transport is closed.
    pub(crate) async fn close(&self) {
        self.end("the gateway ended the connection");
        self.transport.close().await;
    }
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
            several => {
                if several.is_err() {
                    self.transport.passed_over(text);
                }
                for read in well_formed(several, text) {
                    match read {
                        Ok(message) => take(message),
                        Err(broken) => self.answered_brokenly(broken),
                    }
                }
            }
        }
    }

    /// Ends the call whose answer cannot be read, if it is open here.
    fn answered_brokenly(&self, broken: BrokenAnswer) {
        let call = broken.id.as_number().filter(|call| self.calls.read(*call, |_| ()).is_some());
        if let Some(call) = call
            && let Ok(error) = broken.error().of_call(&self.context.backend)
        {
            self.deliver(call, Event::Done(Outcome::Failed(error)));
        }
    }

    /// Handles one message; `on` is the call on whose exchange it came. Returns the call that it belongs to and its
    /// event; everything else is done here.
    pub(super) fn receive(&self, message: Message, on: Option<u64>) -> Option<(u64, Event)> {
        if !matches!(message, Message::Response { .. }) {
            self.has_spoken.store(true, Ordering::Release);
        }
        match message {
            Message::Response { id, outcome } => self.answered(id.as_ref(), outcome, on),
            Message::Notification { method, params } => {
                let notification =
                    Notification { method, params: self.context.protocol.received(self, params.into_text()) };
                match notification.method {
                    Method::Progress => self.progressed(&notification.params),
                    _ => self.context.protocol.notified(self, notification, on),
                }
            }
            Message::Request { id, method, params } => {
                self.context.protocol.asked(self, (id, method, params.into_text()), on)
            }
        }
    }

    /// Delivers `event` to the call `id`. A server request whose call has just ended goes to the listen.
    pub(super) fn deliver(&self, id: u64, event: Event) {
        if let Some(Event::Asked(question)) = self.calls.deliver(id, event) {
            // without a listen it is dropped, which refuses it
            drop(self.requests.ask_listener(question));
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
            tracing::debug!(server = %self.context.backend, "an answer without an open request is ignored");
            metrics::counter!("lockkeeper_server_stray_answers_total").increment(1);
            return None;
        };
        let protocol = self.context.protocol;
        let has_yielded = self.calls.read(call, |call| call.request_closed.is_some()) == Some(true);
        let outcome = match outcome {
            Ok(result) => protocol.outcome(self, (call, &method), protocol.received(self, result)),
            Err(error) => protocol.failure(self, id, error),
        };
        // its client did not say what the server was told in its place
        let outcome = if has_yielded { Outcome::Failed(self.requests.yielded(self.revision())) } else { outcome };
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
        if let Some(CallOwner { token: Some(token), holder, .. }) = owner {
            let (key, told) = (&self.context.key, under_token(params, &token));
            self.context.listens.notify(key, &told, &Addressees::one(holder));
        }
    }
}

/// The outcome of a call that the server could not read (`translation` 2.3): the client is not at fault.
pub(super) fn unreadable(connection: &ServerConnection, error: ErrorObject) -> Outcome {
    tracing::warn!(server = %connection.context.backend, %error, "the server could not read a request");
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
