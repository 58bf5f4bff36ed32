//! Decorators that only a pair of client and server of different manners needs, each a [`Server`] around a [`Server`]:
//! a call between equals passes none of them. Knows nothing of transports, and of how clients and servers are reached.
//!
//! | Noun | What |
//! |---|---|
//! | `pairs` | client side × server side → the decorators of that pair, as one table; a backend that puts them on |
//! | `repeat` | calls that a server of 2026-07-28 ends with requests, for clients with a session |
//! | `suspend` | calls whose server asks in mid-call, for clients without one; the sealed state of every request |
//! | `listens` | levels and subscriptions of sessions, and of requests without one |
//! | `tasks` | tasks of 2025-11-25 and those of the extension, for clients that have the others or none |
//! | `deferred` | requests of servers that wait for a call to ride on |
//! | `pass_through` | a reply that stays as it is up to the event that needs a decorator |
//! | `window` | the time in which requests are collected, so that the client is asked once |

mod deferred;
mod listens;
mod pairs;
mod pass_through;
mod repeat;
mod suspend;
mod suspension_limits;
pub(crate) mod tasks;
mod window;

use std::{fmt, sync::Arc};

pub(crate) use self::pairs::{Pair, ServerCrossing};
use self::suspend::Suspension;
pub use self::{repeat::repeated, suspend::SuspensionDeps, suspension_limits::SuspensionLimits};
use crate::{
    mcp::{Call, Method, Reply, Server},
    model::Target,
};

/// The state that the decorators of all endpoints share. Cheap to clone.
#[derive(Clone)]
pub struct Crossing(Arc<Suspension>);

/// An endpoint with the decorators that its clients without a session need.
struct EndpointCrossing {
    server: Arc<dyn Server>,
    target: Target,
    suspension: Arc<Suspension>,
}

// === impl Crossing ===

impl Crossing {
    /// Nothing is suspended yet.
    pub fn new(settings: &SuspensionLimits, deps: SuspensionDeps) -> Self {
        Self(Suspension::new(settings, deps))
    }

    /// The server of an endpoint for clients without a session. These decorators belong around the gateway: a state that a
    /// client brings back is bound to the parameters as the client sent them, so that it is opened before the gateway edits
    /// anything.
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

impl Server for EndpointCrossing {
    fn call(&self, call: Call) -> Reply {
        let Self { server, target, suspension } = self;
        match &call.method {
            Method::Listen => suspension.listen(server, target, call),
            method if method.may_require_input() => suspension.call(server, target, call),
            _ => server.call(call),
        }
    }
}
