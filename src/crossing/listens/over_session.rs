//! A server with sessions for clients without one (2026-07-28): the level of a call is set for the session while the
//! call runs, and the resources of a listen are subscribed to while it is open. Knows nothing of the owner of the
//! session.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};
use tokio::time::timeout;

use super::client_subscriptions::ClientSubscriptions;
use crate::{
    mcp::{
        Call, Context, Event, Level, Method, Outcome, Payload, Reply, Revision, Server,
        listen::{self, Filter},
        meta,
    },
    model::Requester,
};

/// Time for a server to accept a subscription; one that it accepts later is not acknowledged.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_millis(3_500);
/// Number of concurrent subscribe requests.
const AT_ONCE: usize = 16;

/// A server with sessions, with the levels and listens of requests.
#[derive(Clone)]
pub(crate) struct RequestsOverSession<S> {
    pub(crate) server: S,
    pub(crate) listens: Arc<ClientSubscriptions>,
}

/// State of a request at the server. Dropping it ends that.
struct Hold {
    listens: Arc<ClientSubscriptions>,
    requester: Requester,
}

impl<S: Server + Clone + 'static> Server for RequestsOverSession<S> {
    fn call(&self, call: Call) -> Reply {
        if call.method == Method::Listen {
            let uris = listen::resources(&call.params);
            return if uris.is_empty() { self.server.call(call) } else { self.clone().subscribe(uris, call) };
        }
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
            // a server's refusal is no error for the client (`translation` 3.4, LOG)
            drop(self.server.call(set).outcome().await);
            for await event in self.server.call(call) {
                yield event;
            }
        })
    }

    /// Serves a listen with subscriptions: acknowledges those that the server accepts in time, then forwards their
    /// updates.
    fn subscribe(self, uris: Vec<String>, call: Call) -> Reply {
        Reply::new(async_stream::stream! {
            let _hold = self.hold(&call.context);
            let asked = stream::iter(uris).map(|uri| async {
                let params = Payload::of(Revision::NEWEST_LEGACY, &serde_json::json!({ "uri": uri }));
                let subscribe = Call { method: Method::ResourcesSubscribe, params, context: call.context.clone() };
                let outcome = timeout(SUBSCRIBE_TIMEOUT, self.server.call(subscribe).outcome()).await;
                matches!(outcome, Ok(Outcome::Complete(_))).then_some(uri)
            });
            let accepted: Vec<Option<String>> = asked.buffer_unordered(AT_ONCE).collect().await;
            yield Filter { resources: accepted.into_iter().flatten().collect(), ..Filter::default() }.acknowledged();
            // ends with the session
            let params = listen::for_methods(&[Method::SubscriptionsAcknowledged]);
            for await event in self.server.call(Call { params, ..call }) {
                if matches!(event, Event::Done(_)) {
                    yield event;
                }
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
