//! Incoming messages: answers go to the call with their id, progress to the call with its token, and the protocol of
//! the server's era attributes the rest.

use std::{
    borrow::Cow,
    pin::pin,
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::sync::oneshot;

use super::{
    oddities::Oddity,
    ownership::{CallOwner, OwnedId},
    state::{ConnectionContext, ServerConnection},
};
use crate::{
    backend::transport::{BrokenAnswer, Incoming, ServerInput, Transport, well_formed},
    mcp::{
        ErrorObject, Event, Message, Method, Notification, Outcome, Payload, RequestId,
        hearers::Addressees,
        json::{self, At},
        jsonrpc::{Frame, returned_number},
        large_messages::{MessageOwner, OffWorker, off_worker},
    },
    model::Delivery,
};

/// A connected transport without a [`ServerConnection`].
pub(crate) struct OpenTransport {
    pub(crate) transport: Arc<dyn Transport>,
    incoming: Incoming,
    /// Id of the first request; lower ids were used by an earlier connection on this transport.
    first_id: u64,
}

// === impl OpenTransport ===

impl OpenTransport {
    /// A newly connected transport.
    pub(crate) const fn fresh(transport: Arc<dyn Transport>, incoming: Incoming) -> Self {
        Self { transport, incoming, first_id: 0 }
    }
}

/// Starts a connection. A task receives messages until the connection ends, then closes the transport, unless another
/// connection takes it over.
pub(crate) fn begin(context: ConnectionContext, open: OpenTransport) -> Arc<ServerConnection> {
    let OpenTransport { transport, mut incoming, first_id } = open;
    let (successor, handed_over) = oneshot::channel();
    let connection = ServerConnection::new(context, transport, first_id, handed_over);
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

/// Continues an open session in a new connection with its own context; `None` if the session has ended.
pub(crate) async fn continued(session: &ServerConnection, context: ConnectionContext) -> Option<Arc<ServerConnection>> {
    let server = session.server()?.clone();
    let connection = begin(context, session.hand_over().await?);
    connection.set_server(server);
    Some(connection)
}

impl ServerConnection {
    /// Ends the connection but leaves its transport open for another one; `None` if it was handed over before, or the
    /// transport is lost.
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
    /// Handles text that arrived on the channel, outside of any exchange.
    fn take(&self, text: &Bytes) {
        self.silence.ends();
        let take = |message| {
            if let Some((call, event)) = self.receive(message, None) {
                self.deliver(call, event);
            }
        };
        match Frame::parse(text) {
            Ok(Frame::Single(message)) => take(message),
            several => {
                let (is_unread, read) = (several.is_err(), well_formed(several, text, &self.context.backend));
                if is_unread && read.is_empty() {
                    self.transport.passed_over(text);
                }
                for read in read {
                    match read {
                        Ok(message) => take(message),
                        Err(broken) => self.answered_brokenly(broken),
                    }
                }
            }
        }
    }

    /// Fails the call whose answer cannot be read, if it is open here.
    fn answered_brokenly(&self, broken: BrokenAnswer) {
        let call = self.call_of(&broken.id, None).filter(|call| self.calls.is_open(*call));
        if let Some(call) = call
            && let Ok(error) = broken.error().of_call(&self.context.backend)
        {
            self.deliver(call, Event::Done(Outcome::Failed(error)));
        }
    }

    /// Handles one message, which arrived on the exchange of the call `on`, if any. Returns an event with its call, or
    /// `None` if everything is done.
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
                    Method::Progress => self.progressed(&notification.params, on),
                    _ => self.context.protocol.notified(self, notification, on),
                }
            }
            Message::Request { id, method, params } => {
                self.context.protocol.asked(self, id, method, params.into_text(), on)
            }
        }
    }

    /// Delivers `event` to the call `id`. A server request whose call has just ended goes to the client's listen.
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
            Some(id) => self.call_of(id, on),
            None => on,
        };
        let method = call.and_then(|call| self.calls.read(call, |call| call.method.clone()));
        let (Some(call), Some(method)) = (call, method) else {
            if let Some(call) = call {
                self.calls.answered_late(call);
            }
            self.note_stray_answer(id);
            metrics::counter!("lockkeeper_server_stray_answers_total").increment(1);
            return None;
        };
        let protocol = self.context.protocol;
        let has_yielded = self.calls.read(call, |call| call.request_closed.is_some()) == Some(true);
        let outcome = match outcome {
            Ok(result) => protocol.outcome(self, call, &method, protocol.received(self, result)),
            Err(error) => protocol.failure(self, id, error),
        };
        // the gateway, not the client, answered the server's request
        let outcome = if has_yielded { Outcome::Failed(self.requests.yielded(self.revision())) } else { outcome };
        Some((call, Event::Done(outcome)))
    }

    /// The call that an id belongs to. An id that returns as another JSON type is accepted if the call is open here;
    /// over HTTP, if it arrives on the exchange of that call (`translation` 2.9).
    fn call_of(&self, id: &RequestId, on: Option<u64>) -> Option<u64> {
        id.as_number().or_else(|| self.returned(id.as_returned_number()?, on))
    }

    /// The call of this number, whose id returned as another JSON type.
    fn returned(&self, number: u64, on: Option<u64>) -> Option<u64> {
        let is_here = match self.context.abilities.delivery {
            Delivery::Channel => self.calls.is_open(number),
            Delivery::Exchange => on == Some(number),
        };
        if is_here && self.context.oddities.is_first(Oddity::IdInOtherForm) {
            tracing::warn!(
                server = %self.context.backend,
                "the server returns ids in another form than they were sent in, as text or with a fraction; they are understood"
            );
        }
        is_here.then_some(number)
    }

    /// Logs an answer that belongs to no call. The first one of a server is a warning, the others are at the debug
    /// level.
    fn note_stray_answer(&self, id: Option<&RequestId>) {
        let (server, id) = (&self.context.backend, id.map(|id| String::from_utf8_lossy(id.json())).unwrap_or_default());
        if self.context.oddities.is_first(Oddity::StrayAnswer) {
            tracing::warn!(%server, %id, "the server answers a request that is not open; such answers are ignored");
        } else {
            tracing::debug!(%server, %id, "an answer without an open request is ignored");
        }
    }

    /// The progress event for the call with this token, under the client's own token (design rule 1).
    fn progressed(&self, params: &Payload, on: Option<u64>) -> Option<(u64, Event)> {
        let token = params.member("progressToken")?;
        let id = match token.parse() {
            Ok(id) => id,
            Err(_) => self.returned(returned_number(token)?, on)?,
        };
        let params = &readable_progress(params)?;
        let Some(token) = self.calls.read(id, |call| call.token.clone()) else {
            self.progressed_later(id, params);
            return None;
        };
        Some((id, Event::Notified(under_token(params, &token?))))
    }

    /// Delivers progress of a task after the end of the call that created it (2025-11-25, tasks), to the client session
    /// of that call.
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

/// Corrects the types of members in progress: some clients mark a server as failed over a wrong type. `None` if there
/// is no value.
fn readable_progress(params: &Payload) -> Option<Payload> {
    let is_number = |text: &str| text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    let as_number = |text: &str| json::unquote(text).filter(|text| text.parse().is_ok_and(f64::is_finite));
    let mut read = Cow::Borrowed(params);
    let progress = params.member("progress")?;
    if !is_number(progress) {
        read = Cow::Owned(params.with("progress", &as_number(progress)?));
    }
    if let Some(total) = params.member("total").filter(|total| !is_number(total)) {
        read = Cow::Owned(match as_number(total) {
            Some(total) => read.with("total", &total),
            None => read.without("total"),
        });
    }
    if params.member("message").is_some_and(|message| !message.starts_with('"')) {
        read = Cow::Owned(read.without("message"));
    }
    Some(read.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::Revision;

    #[test]
    fn progress_is_repaired_or_dropped() {
        for (written, read) in [
            (r#""progress":1,"total":2,"message":"m""#, Some(r#""progress":1,"total":2,"message":"m""#)),
            (r#""progress":1,"total":null"#, Some(r#""progress":1"#)),
            (r#""progress":"0.5","total":"2""#, Some(r#""progress":0.5,"total":2"#)),
            (r#""progress":1,"total":"many","message":null"#, Some(r#""progress":1"#)),
            (r#""progress":null"#, None),
            (r#""progress":"half""#, None),
            (r#""progress":"NaN""#, None),
            (r#""total":1"#, None),
        ] {
            let payload = |text: &str| Payload::new(Revision::V2025_11_25, format!("{{{text}}}").into());
            assert_eq!(readable_progress(&payload(written)), read.map(payload), "{written}");
        }
    }
}
