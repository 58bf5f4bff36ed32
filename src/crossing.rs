//! Decorators that only a pair of client and server of different manners needs, each a [`Server`] around a [`Server`]:
//! a call between equals passes none of them. Knows nothing of transports, and of how clients and servers are reached.
//!
//! | Noun | What |
//! |---|---|
//! | `pairs` | client side × server side → the decorators of that pair, as one table |
//! | `repeat` | calls that a server of 2026-07-28 ends with requests, for clients with a session |
//! | `suspend` | calls whose server asks in mid-call, for clients without one; the sealed state of every request |
//! | `listens` | levels and subscriptions of sessions, and of requests without one |
//! | `tasks` | tasks of 2025-11-25 and those of the extension, for clients that have the others or none |
//! | `deferred` | requests of servers that wait for a call to ride on |
//! | `server` | the decorators of one backend, put on when its server is known |
//! | `pass_through` | a reply that stays as it is up to the event that needs a decorator |
//! | `window` | the time in which requests are collected, so that the client is asked once |

mod deferred;
mod listens;
mod pairs;
mod pass_through;
mod repeat;
mod server;
mod settings;
mod suspend;
pub(crate) mod tasks;
mod window;

use std::{fmt, sync::Arc};

use self::{pairs::Decorator, suspend::Suspension};
pub(crate) use self::{pairs::Pair, server::ServerCrossing};
pub use self::{settings::Settings, suspend::Deps};
use crate::{
    mcp::{Call, Reply, Server},
    model::Target,
};

/// The state that the decorators of all endpoints share. Cheap to clone.
#[derive(Clone)]
pub struct Crossing(Arc<Suspension>);

/// A backend with the decorators that its clients need.
struct BackendCrossing(Arc<dyn Server>);

/// An endpoint with the decorators that its clients need.
struct EndpointCrossing {
    server: Arc<dyn Server>,
    target: Target,
    suspension: Arc<Suspension>,
}

/// A backend with the decorators that belong inside the gateway: each call that they make finds its own connection.
pub fn around_backend(server: Arc<dyn Server>) -> Arc<dyn Server> {
    Arc::new(BackendCrossing(server))
}

// === impl Crossing ===

impl Crossing {
    /// Nothing is suspended yet.
    pub fn new(settings: &Settings, deps: Deps) -> Self {
        Self(Suspension::new(settings, deps))
    }

    /// The server of an endpoint with the decorators that belong around the gateway: a state that a client brings back is
    /// bound to the parameters as the client sent them, so that it is opened before the gateway edits anything.
    pub fn around_endpoint(&self, target: Target, server: Arc<dyn Server>) -> Arc<dyn Server> {
        Arc::new(EndpointCrossing { server, target, suspension: Arc::clone(&self.0) })
    }

    /// Ends everything that is suspended or deferred, and waits until it has ended.
    pub async fn close(&self) {
        self.0.close().await;
    }
}

impl fmt::Debug for Crossing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crossing").finish_non_exhaustive()
    }
}

impl Server for BackendCrossing {
    fn call(&self, call: Call) -> Reply {
        match pairs::at_backend(&call) {
            Decorator::Repeat => repeat::call(&self.0, call),
            Decorator::None | Decorator::Suspend | Decorator::Defer => self.0.call(call),
        }
    }
}

impl Server for EndpointCrossing {
    fn call(&self, call: Call) -> Reply {
        let Self { server, target, suspension } = self;
        match pairs::at_endpoint(&call) {
            Decorator::Suspend => suspension.call(server, target, call),
            Decorator::Defer => suspension.listen(server, target, call),
            Decorator::None | Decorator::Repeat => server.call(call),
        }
    }
}
