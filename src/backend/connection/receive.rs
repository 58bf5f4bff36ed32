//! Messages of a server, and the call or listen that each is for.

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;

use super::{
    calls::Callers,
    ownership::{Owner, Thing},
    state::{About, ServerConnection},
};
use crate::{
    backend::{
        key::Scope,
        transport::{Incoming, Transport, pump},
        wants::Topic,
    },
    mcp::{
        Era, ErrorObject, Event, Level, Message, Method, Notification, Outcome, Payload, RequestId, Revision,
        json::{self, At, Object},
        meta, task,
    },
    model::Requester,
};

/// Listens that a notification is for.
enum Audience {
    All,
    One(Requester),
    Subscribers(Topic),
    Nobody,
}

/// Begins a connection over a transport that has just been opened: what comes on it is received from now on, until the
/// connection is over; then the transport is closed.
pub(crate) fn begin(about: About, transport: Arc<dyn Transport>, mut incoming: Incoming) -> Arc<ServerConnection> {
    if about.era == Era::Modern {
        transport.negotiated(Revision::V2026_07_28);
    }
    let connection = ServerConnection::new(about, transport);
    let received = Arc::clone(&connection);
    connection.about.tasks.spawn(async move {
        let take = |message| {
            if let Some((call, event)) = received.receive(message, None) {
                received.deliver(call, event);
            }
        };
        let reason = pump(&mut incoming, received.end.token(), take).await;
        received.end(reason.as_deref().unwrap_or("the gateway ended the connection"));
        drop(incoming);
        received.transport.close().await;
    });
    connection
}

impl ServerConnection {
    /// Takes in one message; `on` is the call on whose exchange it came, if it came on one. Gives the call that it is for and
    /// what to tell it; everything else is seen to here.
    pub(super) fn receive(&self, message: Message, on: Option<u64>) -> Option<(u64, Event)> {
        match (message, self.about.era) {
            (Message::Response { id, outcome }, _) => self.answered(id.as_ref(), outcome, on),
            (Message::Notification { method, params }, era) => {
                let notification = Notification { method, params: self.payload(params) };
                match (&notification.method, era) {
                    (Method::Progress, _) => self.progressed(&notification.params),
                    (Method::Cancelled, Era::Legacy) => {
                        self.requests.withdraw(&notification.params);
                        None
                    }
                    (_, Era::Legacy) => self.notified(notification, on),
                    (_, Era::Modern) => self.notified_in_request(notification, on),
                }
            }
            (Message::Request { id, method: Method::Ping, .. }, Era::Legacy) => {
                self.sender.tell(Message::result(id, Bytes::from_static(b"{}")));
                None
            }
            (Message::Request { id, method, params }, Era::Legacy) => self.asked(id, method, params, on),
            (Message::Request { method, .. }, Era::Modern) => {
                self.ignore_request(&method);
                None
            }
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
        let is_modern = self.about.era == Era::Modern;
        let outcome = match outcome {
            Ok(result) => match Outcome::of_result(&self.about.backend, self.payload(result)) {
                Outcome::Complete(result) if is_modern => Outcome::of_modern(&method, result),
                outcome => outcome,
            },
            // 2.3: it could not read what the gateway wrote, which is nothing that the client did
            Err(error) if error.is_of_the_frame() && (is_modern || id.is_none()) => {
                tracing::warn!(backend = %self.about.backend, %error, "the backend could not read a request");
                let error = if is_modern { error.written_in(self.revision()) } else { error };
                Outcome::Failed(error.hidden().naming_backend(&self.about.backend))
            }
            Err(error) => Outcome::Failed(error.written_in(self.revision())),
        };
        if let (Outcome::Complete(result), false) = (&outcome, is_modern) {
            self.note_task(call, result);
        }
        Some((call, Event::Done(outcome)))
    }

    /// Notes the owner of a task that a call made, and of the progress that goes on with it.
    fn note_task(&self, call: u64, result: &Payload) {
        let Some(task) = task::created(result) else { return };
        let Some(owner) = self.calls.owner(call) else { return };
        let mut ownership = self.calls.ownership.lock();
        ownership.note(Thing::Task(task), Owner { token: None, ..owner.clone() });
        ownership.note(Thing::Token(call), owner);
    }

    /// Progress goes to the call whose token it carries, under the client's own token (design rule 1).
    fn progressed(&self, params: &Payload) -> Option<(u64, Event)> {
        let object = params.object()?;
        let id = number(object.get("progressToken")?)?;
        let Some(token) = self.calls.read(id, |call| call.token.clone()) else {
            self.progressed_later(id, params);
            return None;
        };
        Some((id, Event::Notified(under_token(params, &token?))))
    }

    /// Progress of a task goes on after the call that made it (2025-11-25, tasks), to the client session that called.
    fn progressed_later(&self, id: u64, params: &Payload) {
        let owner = self.calls.ownership.lock().owner(&Thing::Token(id)).cloned();
        if let Some(Owner { token: Some(token), holder }) = owner {
            self.about.listens.tell(&self.about.key, &under_token(params, &token), |other| *other == holder);
        }
    }

    /// A notification of a legacy server.
    fn notified(&self, notification: Notification, on: Option<u64>) -> Option<(u64, Event)> {
        if let Some(call) = on {
            return Some((call, Event::Notified(notification)));
        }
        let (key, wants) = (&self.about.key, &self.about.wants);
        let audience = self.audience(&notification);
        let heard = self.about.listens.tell(key, &notification, |holder| match &audience {
            Audience::All => true,
            Audience::One(owner) => holder == owner,
            Audience::Subscribers(topic) => wants.is_subscribed(key, holder, topic),
            Audience::Nobody => false,
        });
        match audience {
            // a client without a session hears it in its call (`translation` 3.4, LOG)
            Audience::One(holder) if !heard => {
                self.calls.latest_of(&holder).map(|call| (call, Event::Notified(notification)))
            }
            _ => None,
        }
    }

    /// The audience of a notification that came on no exchange. If one client session alone is behind this connection, it is
    /// for that one.
    fn audience(&self, notification: &Notification) -> Audience {
        let (params, key) = (&notification.params, &self.about.key);
        if key.is_of_one_client() {
            return Audience::All;
        }
        let owner = |thing| match self.calls.ownership.lock().owner(&thing) {
            Some(owner) => Audience::One(owner.holder.clone()),
            None => Audience::Nobody,
        };
        match &notification.method {
            Method::ToolsListChanged | Method::PromptsListChanged | Method::ResourcesListChanged => Audience::All,
            Method::ResourceUpdated => {
                params.string("uri").map_or(Audience::Nobody, |uri| Audience::Subscribers(Topic::Resource(uri)))
            }
            Method::TaskStatus => params.string("taskId").map_or(Audience::Nobody, |id| owner(Thing::Task(id))),
            Method::ElicitationComplete => {
                params.string("elicitationId").map_or(Audience::Nobody, |id| owner(Thing::Elicitation(id)))
            }
            _ => match self.calls.callers() {
                Callers::One(holder) => Audience::One(holder),
                Callers::Many if key.scope == Scope::All || key.is_base() => {
                    metrics::counter!("lockkeeper_backend_unattributed_total").increment(1);
                    Audience::Nobody
                }
                Callers::None | Callers::Many => Audience::All,
            },
        }
    }

    /// A notification of a modern server: each belongs to a request.
    fn notified_in_request(&self, notification: Notification, on: Option<u64>) -> Option<(u64, Event)> {
        let params = &notification.params;
        let call = match notification.method {
            Method::LoggingMessage => {
                let level = || params.string("level").and_then(|name| Level::parse(&name));
                on.or_else(|| self.calls.logger(level()))
            }
            // a listen is ended so on a channel (2026-07-28, cancellation)
            Method::Cancelled => {
                let call = number(params.object()?.get("requestId")?)?;
                let error = ErrorObject::retryable("the server ended the subscription");
                return Some((call, Event::Done(Outcome::Failed(error))));
            }
            _ => on.or_else(|| subscription(params)),
        };
        if call.is_none() {
            metrics::counter!("lockkeeper_backend_unattributed_total").increment(1);
        }
        call.map(|call| (call, Event::Notified(notification)))
    }

    /// Takes in a request of a legacy server. One that the client can be asked goes to the call that carries it, else to the
    /// listen; everything else is refused on the spot.
    fn asked(&self, id: RequestId, method: Method, params: Bytes, on: Option<u64>) -> Option<(u64, Event)> {
        if !self.can_be_asked(&method) {
            self.requests.refuse_unsupported(id, &method);
            return None;
        }
        let call = on.or_else(|| self.calls.carrier(&self.requests.carriers()));
        if call.is_none() && self.calls.has_lingering() {
            // it may be of a call that was given up, and is nobody else's
            self.requests.refuse_cancelled(id, &method);
            return None;
        }
        self.requests.put(id, method, self.payload(params), call)
    }

    /// Whether the client behind this connection said that it answers `method`, and the handshake is done.
    fn can_be_asked(&self, method: &Method) -> bool {
        let is_of_one_client = self.about.key.is_of_one_client();
        let capability = match method {
            Method::CreateMessage => "sampling",
            Method::Elicit => "elicitation",
            Method::RootsList => "roots",
            // 2025-11-25 tasks: those that the client executes, of which several clients could have one of the same id
            method if method.is_of_core_tasks() && is_of_one_client => "tasks",
            // a method of the server's own: its client is the judge, if there is one
            Method::Other(_) => return self.server().is_some() && is_of_one_client,
            _ => return false,
        };
        self.server().is_some() && self.about.capabilities.has(capability)
    }

    /// 2026-07-28, transports: a server asks in its results alone.
    fn ignore_request(&self, method: &Method) {
        let backend = self.about.backend.to_string();
        metrics::counter!("lockkeeper_backend_requests_ignored_total", "backend" => backend).increment(1);
        if !self.sent_request.swap(true, Ordering::Relaxed) {
            tracing::warn!(backend = %self.about.backend, %method, "a server of 2026-07-28 sends requests; they are ignored");
        }
    }

    fn payload(&self, json: Bytes) -> Payload {
        let payload = Payload::new(self.revision(), json).of_backend(&self.about.backend);
        match self.server().filter(|_| self.about.era == Era::Legacy) {
            Some(server) => payload.of_server(Arc::clone(&server.implementation)),
            None => payload,
        }
    }
}

/// Progress under the client's own token (design rule 1).
fn under_token(params: &Payload, token: &Bytes) -> Notification {
    let token = String::from_utf8_lossy(token).into_owned();
    let params = params.rewrite(&[&[At::Key("progressToken")]], |_| Some(token.clone()));
    Notification { method: Method::Progress, params }
}

/// The listen that a notification belongs to.
fn subscription(params: &Payload) -> Option<u64> {
    let object = params.object()?;
    let meta = Object::parse(object.get(meta::META)?.as_bytes())?;
    number(meta.get(meta::SUBSCRIPTION_ID)?)
}

/// One of the gateway's own numbers, which some servers make a string of.
fn number(text: &str) -> Option<u64> {
    json::unquote(text).unwrap_or_else(|| text.to_owned()).parse().ok()
}
