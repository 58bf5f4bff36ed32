//! Serves calls at a server with sessions (2024-11-05 to 2025-11-25): it keeps log level and subscriptions, accepts
//! notifications, and sends its own on the session. Sharers of a session are counted.

use std::sync::Arc;

use futures_util::{StreamExt as _, future::join_all, stream};

use super::route::Route;
use crate::{
    backend::{
        connection::session_protocol::made_task, connection_key::ConnectionKey, error::too_many_subscriptions,
        external_backend::ExternalBackend, subscriptions::Topic,
    },
    mcp::{Call, Era, ErrorObject, Event, Method, Outcome, Payload, Reply, Revision, Server, listen},
};

/// The era of such servers.
const ERA: Era = Era::Legacy;

/// A backend whose server has sessions.
#[derive(Clone)]
pub(super) struct SessionServer(pub(super) Arc<ExternalBackend>);

impl Server for SessionServer {
    fn call(&self, call: Call) -> Reply {
        let route = self.0.route(ERA, &call);
        self.clone().serve(route, call)
    }
}

impl SessionServer {
    /// Serves one call.
    pub(super) fn serve(self, route: Route, call: Call) -> Reply {
        let key = || route.key.clone();
        match call.method {
            Method::Initialize => Reply::failed(ErrorObject::method_not_found("initialize")),
            Method::Listen => self.listen(&route.key, &call),
            Method::SetLevel => Reply::later(async move { self.0.settings.set_level(&call).await }),
            Method::ResourcesSubscribe => Reply::later(self.subscribe(key(), call)),
            Method::ResourcesUnsubscribe => Reply::later(self.unsubscribe(key(), call)),
            ref method if method.is_notification() => Reply::later(self.notify(key(), call)),
            ref method if method.is_of_core_tasks() => {
                let home = self.task_key(route.key, &call);
                self.0.serve(Route::of(ERA, home), call)
            }
            _ => self.0.serve(route, call),
        }
    }

    /// The connection for a task request: the one that created the task, since no other process knows it (2025-11-25,
    /// tasks); if any will do, the sharer's first.
    fn task_key(&self, key: ConnectionKey, call: &Call) -> ConnectionKey {
        let Some(task) = call.params.string("taskId") else { return key };
        let sessions = self.0.pool.sessions(&key);
        sessions.iter().find(|session| made_task(session, &task)).map_or(key, |one| one.context.key.clone())
    }

    /// Serves a listen: all notifications for this client outside of calls, or those of the methods that it names. It
    /// ends if the server turns out to have no sessions.
    fn listen(self, key: &ConnectionKey, call: &Call) -> Reply {
        let methods = listen::methods(&call.params);
        let begins = if methods.is_empty() { None } else { Some(listen::honouring([])) };
        let heard = self.0.listens.listen(key, &call.context, methods);
        let turned = self.0.era.clone().changed_from(ERA);
        Reply::new(stream::iter(begins).chain(heard.take_until(turned)))
    }

    /// Forwards a client's notification to each of its connections.
    async fn notify(self, key: ConnectionKey, call: Call) -> Reply {
        let absent = Payload::absent(call.params.revision);
        let sessions = self.0.pool.sessions(&key);
        // each connection makes its own handshake and cancellations
        if !matches!(call.method, Method::Initialized | Method::Cancelled) {
            let Call { method, params, context } = &call;
            let told = sessions.iter().map(|session| session.notify(method.clone(), params.clone(), context.profile));
            join_all(told).await;
        }
        Reply::complete(absent)
    }

    /// Subscribes: the first subscriber sends the request, others are counted.
    async fn subscribe(self, key: ConnectionKey, call: Call) -> Reply {
        let holder = call.context.requester.clone();
        let Some(uri) = call.params.string("uri") else { return self.0.serve(Route::of(ERA, key), call) };
        let topic = Topic::Resource(uri);
        let subscriptions = Arc::clone(&self.0.subscriptions);
        let turn = subscriptions.turn(&key).await;
        if !key.is_of_one_client() && subscriptions.has_others(&key, &holder, &topic) {
            subscriptions.subscribed(&key, holder, topic);
            return Reply::complete(Payload::empty(Revision::NEWEST_LEGACY));
        }
        if !subscriptions.has_room(&key) {
            return Reply::failed(too_many_subscriptions());
        }
        self.0.serve(Route::of(ERA, key.clone()), call).map(move |event| {
            let _turn = &turn;
            if matches!(event, Event::Done(Outcome::Complete(_))) {
                subscriptions.subscribed(&key, holder.clone(), topic.clone());
            }
            event
        })
    }

    /// Unsubscribes: the last subscriber sends the request.
    async fn unsubscribe(self, key: ConnectionKey, call: Call) -> Reply {
        let holder = call.context.requester.clone();
        let Some(uri) = call.params.string("uri") else { return self.0.serve(Route::of(ERA, key), call) };
        let topic = Topic::Resource(uri);
        let subscriptions = Arc::clone(&self.0.subscriptions);
        let turn = subscriptions.turn(&key).await;
        let others = subscriptions.has_others(&key, &holder, &topic);
        subscriptions.unsubscribed(&key, &holder, &topic);
        if others && !key.is_of_one_client() {
            return Reply::complete(Payload::empty(Revision::NEWEST_LEGACY));
        }
        self.0.serve(Route::of(ERA, key.clone()), call).map(move |event| {
            let _turn = &turn;
            event
        })
    }
}
