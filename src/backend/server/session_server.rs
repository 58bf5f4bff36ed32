//! Serves calls at a server with sessions (2024-11-05 to 2025-11-25): it keeps log level and subscriptions, accepts
//! notifications, and sends its own on the session. Sharers of a session are counted.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;

use super::{listen::ServerListen, route::Route};
use crate::{
    backend::{
        connection::session_protocol::made_task, connection_key::ConnectionKey, external_backend::ExternalBackend,
        interests::Topic,
    },
    mcp::{Call, Era, ErrorObject, Method, Payload, Reply, Revision, Server, listen},
};

/// The era of such servers.
const ERA: Era = Era::Legacy;
/// Time for a server to accept a subscription of a client without a session.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_millis(3_500);
/// Time for which the subscription of a session outlasts the request to its server, to have that one's error.
const GRACE: Duration = Duration::from_secs(1);

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
        match call.method {
            Method::Initialize => Reply::failed(ErrorObject::method_not_found("initialize")),
            Method::Listen => self.listen(route.key, call),
            Method::ResourcesUnsubscribe => Reply::later(self.unsubscribed(route.key, call)),
            ref method if method.is_notification() => Reply::later(self.notify(route.key, call)),
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

    /// Serves a listen.
    fn listen(self, key: ConnectionKey, call: Call) -> Reply {
        let topics = listen::resources(&call.params).into_iter().map(Topic::Resource).collect();
        // a client without a session is told what was accepted by then
        let is_sessionless = call.context.requester.is_sessionless();
        let patience = if is_sessionless { SUBSCRIBE_TIMEOUT } else { self.0.spec.call_timeout + GRACE };
        let level = call.context.level.clone();
        ServerListen { backend: self.0, era: ERA, key, call, topics, patience, level }.serve()
    }

    /// Answers once the server knows that nobody wants a resource whose subscription has ended.
    async fn unsubscribed(self, key: ConnectionKey, call: Call) -> Reply {
        if let Some(topic) = call.params.string("uri").map(Topic::Resource)
            && let Some(leased) = self.0.pool.ready(&key)
            && !self.0.interests.is_wanted(&key, &topic)
        {
            leased.connection.interests().left(&topic).await;
        }
        Reply::complete(Payload::empty(Revision::NEWEST_LEGACY))
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
}
