//! The subscriptions of sessions, each of which is a listen at the server (`translation` 3.4, SUB). Knows nothing of the
//! client's streams.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use crate::{
    mcp::{Call, ErrorObject, Event, Method, Outcome, Payload, Reply, Revision, Server, listen},
    model::Requester,
};

/// The listens of the subscriptions at one backend, by session and URI. Dropping one unsubscribes.
#[derive(Default)]
pub(crate) struct SessionListens(Mutex<HashMap<Requester, HashMap<String, Reply>>>);

/// A server that is told by listens what a session subscribes to.
#[derive(Clone)]
pub(crate) struct SubscriptionsOverListens<S> {
    pub(crate) server: S,
    pub(crate) listens: Arc<SessionListens>,
}

// === impl SessionListens ===

impl SessionListens {
    /// Unsubscribes a session that is gone.
    pub(crate) fn ended(&self, session: &Requester) {
        let listens = self.0.lock().remove(session);
        // without the lock: the end of a listen calls the server
        drop(listens);
    }

    fn has(&self, session: &Requester, uri: &str) -> bool {
        self.0.lock().get(session).is_some_and(|listens| listens.contains_key(uri))
    }

    fn add(&self, session: Requester, uri: String, listen: Reply) {
        let before = self.0.lock().entry(session).or_default().insert(uri, listen);
        drop(before);
    }

    fn remove(&self, session: &Requester, uri: &str) {
        let mut sessions = self.0.lock();
        let Some(listens) = sessions.get_mut(session) else { return };
        let listen = listens.remove(uri);
        if listens.is_empty() {
            sessions.remove(session);
        }
        drop(sessions);
        drop(listen);
    }
}

// === impl SubscriptionsOverListens ===

impl<S: Server + Clone + 'static> Server for SubscriptionsOverListens<S> {
    fn call(&self, call: Call) -> Reply {
        match &call.method {
            Method::ResourcesSubscribe => Reply::later(self.clone().subscribe(call)),
            Method::ResourcesUnsubscribe => self.unsubscribe(call),
            _ => self.server.call(call),
        }
    }
}

impl<S: Server + Clone> SubscriptionsOverListens<S> {
    /// `resources/subscribe`: answered once the server has acknowledged the resource (`translation` 4d).
    async fn subscribe(self, call: Call) -> Reply {
        let session = call.context.requester.clone();
        let Some(uri) = call.params.string("uri") else { return no_uri() };
        if self.listens.has(&session, &uri) {
            return done();
        }
        let mut listen =
            self.server.call(Call { method: Method::Listen, params: listen::for_resources(&[&uri]), ..call });
        while let Some(event) = listen.next_event().await {
            match event {
                Event::Notified(told) if told.method == Method::SubscriptionsAcknowledged => {
                    if !listen::resources(&told.params).contains(&uri) {
                        break;
                    }
                    self.listens.add(session, uri, listen);
                    return done();
                }
                Event::Done(Outcome::Failed(error)) => return Reply::failed(error),
                Event::Done(_) => break,
                Event::Notified(_) | Event::Asked(_) => {}
            }
        }
        Reply::failed(ErrorObject::invalid_params("The server does not tell when this resource changes"))
    }

    /// `resources/unsubscribe`: answered by the server, which may have to hear of it.
    fn unsubscribe(&self, call: Call) -> Reply {
        let Some(uri) = call.params.string("uri") else { return no_uri() };
        self.listens.remove(&call.context.requester, &uri);
        self.server.call(call)
    }
}

fn no_uri() -> Reply {
    Reply::failed(ErrorObject::invalid_params("Invalid params: `uri` is missing"))
}

fn done() -> Reply {
    Reply::complete(Payload::empty(Revision::NEWEST_LEGACY))
}
