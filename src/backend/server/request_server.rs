//! Serves calls at a server without sessions (2026-07-28): self-contained requests, and notifications by listen. All
//! listens on a connection share one `subscriptions/listen`.

use std::{sync::Arc, time::Duration};

use super::{listen::ServerListen, route::Route};
use crate::{
    backend::{connection_key::ConnectionKey, external_backend::ExternalBackend, interests::Topic},
    mcp::{Call, Era, ErrorObject, LogLevel, Method, Payload, Reply, Revision, Server, listen},
};

/// The era of such servers.
const ERA: Era = Era::Modern;
/// Time for a server to acknowledge a client's topics.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(5);

/// A backend whose server has no sessions.
#[derive(Clone)]
pub(super) struct RequestServer(pub(super) Arc<ExternalBackend>);

impl Server for RequestServer {
    fn call(&self, call: Call) -> Reply {
        let route = self.0.route(ERA, &call);
        self.clone().serve(route, call)
    }
}

impl RequestServer {
    /// Serves one call.
    pub(super) fn serve(self, route: Route, call: Call) -> Reply {
        match call.method {
            Method::Initialize => Reply::failed(ErrorObject::method_not_found("initialize")),
            Method::Listen => self.listen(route.key, call),
            Method::Ping | Method::ResourcesUnsubscribe => Reply::complete(Payload::empty(Revision::NEWEST_LEGACY)),
            ref method if method.is_notification() => {
                // a server without sessions has no form for it (design rule 13)
                metrics::counter!("lockkeeper_server_notifications_dropped_total").increment(1);
                Reply::complete(Payload::absent(call.params.revision))
            }
            _ => self.0.serve(route, call),
        }
    }

    /// Serves a listen, which shares the connection's with others.
    fn listen(self, key: ConnectionKey, call: Call) -> Reply {
        let resources = listen::resources(&call.params).into_iter().map(Topic::Resource);
        let topics = resources.chain(listen::task_ids(&call.params).into_iter().map(Topic::Task)).collect();
        // each of its calls has a level of its own
        let level = LogLevel::default();
        ServerListen { backend: self.0, era: ERA, key, call, topics, patience: ACKNOWLEDGE_TIMEOUT, level }.serve()
    }
}
