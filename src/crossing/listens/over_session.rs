//! A server with sessions for clients without one (2026-07-28): the level that a call asks for itself is one of the session
//! for as long as the call runs. Knows nothing of whose session it is.

use std::sync::Arc;

use super::Listens;
use crate::{
    mcp::{Call, Context, Level, Method, Payload, Reply, Revision, Server, meta},
    model::Requester,
};

/// A server with sessions, with the levels of requests.
#[derive(Clone)]
pub(in crate::crossing) struct RequestsOverSession<S> {
    pub(in crate::crossing) server: S,
    pub(in crate::crossing) listens: Arc<Listens>,
}

/// What a request holds at the server; it ends when this is dropped.
struct Hold {
    listens: Arc<Listens>,
    requester: Requester,
}

impl<S: Server + Clone + 'static> Server for RequestsOverSession<S> {
    fn call(&self, call: Call) -> Reply {
        match meta::log_level(&call.params) {
            Some(level) => self.clone().call_with_level(level, call),
            None => self.server.call(call),
        }
    }
}

impl<S: Server + 'static> RequestsOverSession<S> {
    /// Serves a call that asks for log messages (2026-07-28, logging).
    fn call_with_level(self, level: Level, call: Call) -> Reply {
        Reply::new(async_stream::stream! {
            let _hold = self.hold(&call.context);
            let params = Payload::of(Revision::NEWEST_LEGACY, &serde_json::json!({ "level": level.as_str() }));
            let set = Call { method: Method::SetLevel, params, context: call.context.clone() };
            // what a server makes of the level is its own matter (`translation` 3.4, LOG)
            drop(self.server.call(set).outcome().await);
            for await event in self.server.call(call) {
                yield event;
            }
        })
    }

    fn hold(&self, context: &Context) -> Hold {
        Hold { listens: Arc::clone(&self.listens), requester: context.requester.clone() }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        (self.listens.ended)(&self.requester);
    }
}
