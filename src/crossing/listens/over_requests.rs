//! A server without sessions (2026-07-28) for clients with one: the session's level is added to each of its calls, and
//! a subscription becomes a listen. Knows nothing of the client's streams.

use std::sync::Arc;

use super::client_subscriptions::ClientSubscriptions;
use crate::mcp::{Call, ErrorObject, Event, Level, Method, Outcome, Payload, Reply, Revision, Server, listen, meta};

/// A server without sessions, with the level and the subscriptions of sessions.
#[derive(Clone)]
pub(crate) struct SessionOverRequests<S> {
    pub(crate) server: S,
    pub(crate) listens: Arc<ClientSubscriptions>,
}

impl<S: Server + Clone + 'static> Server for SessionOverRequests<S> {
    fn call(&self, call: Call) -> Reply {
        match &call.method {
            Method::SetLevel => self.set_level(&call),
            Method::ResourcesSubscribe => Reply::later(self.clone().subscribe(call)),
            Method::ResourcesUnsubscribe => self.unsubscribe(&call),
            Method::Ping => done(),
            method if method.is_notification() => {
                // a server without sessions has no form for it (design rule 13)
                metrics::counter!("lockkeeper_server_notifications_dropped_total").increment(1);
                Reply::complete(Payload::absent(call.params.revision))
            }
            _ => match self.listens.level(&call.context.requester) {
                Some(level) => self.server.call(Call { params: meta::with_log_level(&call.params, level), ..call }),
                None => self.server.call(call),
            },
        }
    }
}

impl<S: Server + Clone> SessionOverRequests<S> {
    /// Stores the level; from now on it is added to each call of this session (`translation` 3.4, LOG).
    fn set_level(&self, call: &Call) -> Reply {
        let Some(level) = call.params.string("level").as_deref().and_then(Level::parse) else {
            return Reply::failed(ErrorObject::invalid_params("Invalid params: `level` names no level"));
        };
        self.listens.set_level(call.context.requester.clone(), level);
        done()
    }

    /// `resources/subscribe`: answered once the server has acknowledged the resource (`translation` 4d).
    async fn subscribe(self, call: Call) -> Reply {
        let session = call.context.requester.clone();
        let Some(uri) = call.params.string("uri") else {
            return Reply::failed(ErrorObject::invalid_params("Invalid params: `uri` is missing"));
        };
        if self.listens.is_subscribed(&session, &uri) {
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
                    self.listens.subscribe(session, uri, listen);
                    return done();
                }
                Event::Done(Outcome::Failed(error)) => return Reply::failed(error),
                Event::Done(_) => break,
                Event::Notified(_) | Event::Asked(_) => {}
            }
        }
        Reply::failed(ErrorObject::invalid_params("The server does not tell when this resource changes"))
    }

    fn unsubscribe(&self, call: &Call) -> Reply {
        if let Some(uri) = call.params.string("uri") {
            self.listens.unsubscribe(&call.context.requester, &uri);
        }
        done()
    }
}

fn done() -> Reply {
    Reply::complete(Payload::empty(Revision::NEWEST_LEGACY))
}
