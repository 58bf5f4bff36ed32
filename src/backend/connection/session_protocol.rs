//! Protocol of servers with sessions (2024-11-05 to 2025-11-25). Such servers send requests during calls, and
//! notifications that name no call. This file attributes each to a client session, and checks which requests a client
//! may send.

use std::{collections::HashSet, sync::Arc};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};

use super::{
    announcements::{announce, is_announcement},
    calls::{CallKind, Callers, Sharing, subscription},
    ownership::{CallOwner, OwnedId},
    receive::unreadable,
    session_interests,
    state::{ConnectionContext, Protocol, ServerConnection},
};
use crate::{
    backend::{interests::Topic, sharing::connection_key::SharingScope},
    mcp::{
        Era, ErrorObject, Event, Facts, Feature, LackingFeature, Level, Message, Method, Notification, Outcome,
        Payload, RequestId, Revision, Untranslatable, declared::declares, hearers::Addressees, methods::ResultShape,
        task, translate::Cause,
    },
    model::{Delivery, Requester},
};

/// The protocol of servers with sessions (up to 2025-11-25).
pub(crate) struct SessionProtocol;

/// Clients that receive a notification.
enum Audience {
    All,
    One(Requester),
    Subscribers(Topic),
    Nobody,
}

// === impl SessionProtocol ===

impl Protocol for SessionProtocol {
    fn era(&self) -> Era {
        Era::Legacy
    }

    fn newest(&self) -> Revision {
        Revision::NEWEST_LEGACY
    }

    fn follow_interests(&self, connection: Arc<ServerConnection>) -> BoxFuture<'static, ()> {
        session_interests::run(connection).boxed()
    }

    fn sharing(&self, context: &ConnectionContext) -> Sharing {
        if context.is_of_one_client { Sharing::Unambiguous } else { Sharing::Ambiguous }
    }

    fn kind(&self, method: &Method) -> CallKind {
        if method.may_ask() { CallKind::Asking } else { CallKind::Plain }
    }

    fn params(
        &self,
        connection: &ServerConnection,
        params: Payload,
        facts: &Facts<'_>,
    ) -> Result<Payload, ErrorObject> {
        params.into_revision(connection.revision(), &Facts { client: None, ..*facts }).map_err(|refusal| {
            let refusal = refusal.of(Some(&connection.context.origin));
            refusal.report();
            refusal.error()
        })
    }

    fn level(&self, _: Option<Level>) -> Option<Level> {
        // the level is set once for the whole session
        None
    }

    fn received(&self, connection: &ServerConnection, json: Bytes) -> Payload {
        let payload = Payload::new(connection.revision(), json).written_by(&connection.context.origin);
        match connection.server() {
            Some(server) => payload.of_server(Arc::clone(&server.implementation)),
            None => payload,
        }
    }

    fn outcome(&self, connection: &ServerConnection, call: u64, method: &Method, result: Payload) -> Outcome {
        let result = if method.result() == ResultShape::Tool { without_null_structure(result) } else { result };
        let outcome = Outcome::of_result(&connection.context.backend, result);
        if let Outcome::Complete(result) = &outcome {
            note_task(connection, call, result);
        }
        outcome
    }

    fn failure(&self, connection: &ServerConnection, id: Option<&RequestId>, error: ErrorObject) -> Outcome {
        if error.is_of_the_frame() && id.is_none() {
            return unreadable(connection, error);
        }
        if error.code() == ErrorObject::URL_ELICITATION_REQUIRED {
            note_page(connection);
        }
        Outcome::Failed(error.written_in(connection.revision()))
    }

    fn is_of_another_version(&self, _: &ErrorObject) -> bool {
        false
    }

    fn notified(
        &self,
        connection: &ServerConnection,
        notification: Notification,
        on: Option<u64>,
    ) -> Option<(u64, Event)> {
        if notification.method == Method::Cancelled {
            connection.requests.withdraw(&notification.params);
            return None;
        }
        if let Some(call) = on {
            if is_announcement(&notification.method) {
                return announce(connection, notification, on);
            }
            return Some((call, Event::Notified(notification)));
        }
        if let Method::Other(_) = notification.method
            && let Some(call) = subscription(&notification.params)
        {
            // it belongs to a request of an extension, and only to that one
            let is_open = connection.calls.read(call, |call| matches!(call.method, Method::Other(_))) == Some(true);
            if !is_open {
                metrics::counter!("lockkeeper_server_unattributed_total").increment(1);
            }
            return is_open.then_some((call, Event::Notified(notification)));
        }
        let (key, interests) = (&connection.context.key, &connection.context.interests);
        let audience = Audience::of(connection, &notification);
        let addressees = match &audience {
            Audience::All => Addressees::All,
            Audience::One(owner) => Addressees::one(owner.clone()),
            Audience::Subscribers(topic) => Addressees::Only(interests.holders(key, topic)),
            Audience::Nobody => Addressees::Only(HashSet::new()),
        };
        let heard = connection.context.listens.notify(key, &notification, &addressees);
        match audience {
            // a client without a session receives it in its call (`translation` 3.4, LOG)
            Audience::One(holder) if !heard => {
                connection.calls.latest_of(&holder).map(|call| (call, Event::Notified(notification)))
            }
            _ => None,
        }
    }

    /// Forwards a request that the client supports, in the call that carries it or on the listen; refuses all others.
    fn asked(
        &self,
        connection: &ServerConnection,
        id: RequestId,
        method: Method,
        params: Bytes,
        on: Option<u64>,
    ) -> Option<(u64, Event)> {
        if method == Method::Ping {
            connection.sender.send(Message::result(id, Bytes::from_static(b"{}")));
            return None;
        }
        let is_refused = !can_be_asked(connection, &method);
        let params = self.received(connection, params);
        if is_refused {
            let feature = LackingFeature::of_request(&method).filter(|_| connection.server().is_some());
            if let Some(feature) = feature {
                Untranslatable::undeclared(feature, &params, &connection.context.client).report();
            }
            connection.requests.refuse_unsupported(id, &method);
            return None;
        }
        if method.is_about_tasks() && !connection.requests.client_tasks.may_reach(&method, &params) {
            connection.requests.refuse(id, ErrorObject::unknown_task());
            return None;
        }
        if on.is_none() && asks_on_stream(connection, &method) {
            connection.context.asks_on_stream.note();
        }
        let call = on.or_else(|| connection.calls.carrier(&connection.requests.carriers()));
        if call.is_none() && connection.calls.has_lingering() {
            // the request may belong to a cancelled call, so no other client may receive it
            connection.requests.refuse_cancelled(id, &method);
            return None;
        }
        connection.requests.forward(id, method, params, call)
    }

    /// The server decides by the URI of the resource, even without the capability.
    fn offers(&self, _: &ServerConnection, topic: &Topic) -> bool {
        topic.uri().is_some()
    }

    /// Rejects requests about tasks if the server or its version has none (`translation` 6.5). All versions with
    /// sessions have the other requests of clients, and unknown methods pass.
    fn check(&self, connection: &ServerConnection, method: &Method, params: &Payload) -> Result<(), ErrorObject> {
        let is_of_tasks = method.is_of_core_tasks();
        if *method == Method::TasksUpdate || is_of_tasks && !connection.tasks().has_tasks() {
            let feature = LackingFeature::Method(method.as_str().to_owned());
            let (from, to) = (params.revision, connection.revision());
            let denied = Untranslatable { feature, from, to, origin: None, cause: Cause::Request };
            let denied = denied.of(Some(&connection.context.origin));
            if !to.has_core_tasks() {
                denied.report();
            }
            return Err(denied.error());
        }
        Ok(())
    }
}

/// Removes structured content that is null from the result of a tool: some servers write every member, and mean that
/// there is none (`translation` 3.1).
fn without_null_structure(result: Payload) -> Payload {
    if result.structured_content() == Some("null") { result.without("structuredContent") } else { result }
}

/// Reports that a call needs a page that the client cannot open (2025-11-25, elicitation).
fn note_page(connection: &ServerConnection) {
    let client = &connection.context.client;
    let is_of_version = connection.revision().has(Feature::UrlElicitation);
    if is_of_version && !declares(client, "elicitation", "url") {
        let asked = Payload::absent(connection.revision()).written_by(&connection.context.origin);
        Untranslatable::undeclared(LackingFeature::ElicitationByUrl, &asked, client).report();
    }
}

/// Records the client of a task that the call created, and of the task's progress.
fn note_task(connection: &ServerConnection, call: u64, result: &Payload) {
    let Some(task) = task::created(result) else { return };
    let Some(owner) = connection.calls.owner(call) else { return };
    let mut ownership = connection.calls.ownership.lock();
    ownership.note(OwnedId::Task(task), CallOwner { token: None, ..owner.clone() });
    ownership.note(OwnedId::Token(call), owner);
}

/// True if the handshake is done and the client declared support for `method`.
fn can_be_asked(connection: &ServerConnection, method: &Method) -> bool {
    let is_of_one_client = connection.context.is_of_one_client;
    let capability = match method {
        Method::CreateMessage => "sampling",
        Method::Elicit => "elicitation",
        Method::RootsList => "roots",
        // tasks that the client runs (2025-11-25): two clients could have tasks with the same id
        method if method.is_of_core_tasks() && is_of_one_client => "tasks",
        // an extension's method: a single client can decide for itself
        Method::Other(_) => return connection.server().is_some() && is_of_one_client,
        _ => return false,
    };
    connection.server().is_some() && connection.context.client.capabilities.has(capability)
}

/// True if the request arrived on the standalone stream during a call with its own exchange. Does not count requests
/// for roots: servers send them there outside of calls.
fn asks_on_stream(connection: &ServerConnection, method: &Method) -> bool {
    connection.context.abilities.delivery == Delivery::Exchange
        && matches!(method, Method::CreateMessage | Method::Elicit)
        && connection.calls.may_be_asked()
}

/// True if this connection is known to have created the task `id`.
pub(crate) fn made_task(connection: &ServerConnection, id: &str) -> bool {
    connection.calls.ownership.lock().owner(&OwnedId::Task(id.to_owned())).is_some()
}

// === impl Audience ===

impl Audience {
    /// The audience of a notification outside of any exchange. If the connection serves one client session, it is that
    /// one.
    fn of(connection: &ServerConnection, notification: &Notification) -> Self {
        let (params, key) = (&notification.params, &connection.context.key);
        if connection.context.is_of_one_client {
            return Self::All;
        }
        let owner = |thing| match connection.calls.ownership.lock().owner(&thing) {
            Some(owner) => Self::One(owner.holder.clone()),
            None => Self::Nobody,
        };
        match &notification.method {
            // each listen shows only the tasks of its owner (`OA-115`)
            Method::ToolsListChanged
            | Method::PromptsListChanged
            | Method::ResourcesListChanged
            | Method::TaskStatus => Self::All,
            Method::ResourceUpdated => {
                params.string("uri").map_or(Self::Nobody, |uri| Self::Subscribers(Topic::Resource(uri)))
            }
            Method::ElicitationComplete => {
                params.string("elicitationId").map_or(Self::Nobody, |id| owner(OwnedId::Elicitation(id)))
            }
            _ => match (task::related_to(params), connection.calls.callers()) {
                // a task without an owner in the layers above: a client without tasks waits for it in a call
                (Some(task), _) => owner(OwnedId::Task(task)),
                (None, Callers::One(holder)) => Self::One(holder),
                (None, Callers::Many) if key.scope == SharingScope::All || key.is_base() => {
                    metrics::counter!("lockkeeper_server_unattributed_total").increment(1);
                    Self::Nobody
                }
                // nobody calls, or only sessions of one user
                (None, Callers::None | Callers::Many) => Self::All,
            },
        }
    }
}
