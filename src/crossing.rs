//! Decorators for pairs of client and server that differ in era or in tasks, each a [`Server`] around a [`Server`]. A
//! call between peers of the same era passes none.
//!
//! | Noun | What |
//! |---|---|
//! | `pairs` | client side × server side → the decorators of that pair, as one table; a backend that applies them |
//! | `repeat` | calls that a server of 2026-07-28 ends with requests, for clients with a session |
//! | `suspend` | calls whose server asks in mid-call, for clients without one; the sealed state of every request |
//! | `subscriptions` | subscriptions of sessions, as listens |
//! | `tasks` | tasks of 2025-11-25 and of the extension, for clients with the other kind or none |
//! | `deferred` | requests of servers that wait for a call to carry them |
//! | `collection_window` | the time to collect requests, so that the client gets them at once |

mod collection_window;
mod deferred;
mod pairs;
pub(crate) mod repeat;
mod subscriptions;
pub(crate) mod suspend;
pub(crate) mod tasks;

use std::{fmt, sync::Arc};

pub(crate) use self::pairs::{Pair, ServerCrossing};
use self::suspend::Suspension;
pub use self::{repeat::repeated, suspend::SuspensionDeps};
use crate::{
    mcp::{Call, Method, Reply, Server},
    model::{LimitsConfig, Target},
    support::Live,
};

/// State that the decorators of all endpoints share. Cheap to clone.
#[derive(Clone)]
pub struct Crossing(Arc<Suspension>);

/// An endpoint with the decorators for clients without a session.
struct EndpointCrossing {
    server: Arc<dyn Server>,
    target: Target,
    suspension: Arc<Suspension>,
}

// === impl Crossing ===

impl Crossing {
    /// Creates an empty state.
    pub fn new(limits: Live<LimitsConfig>, deps: SuspensionDeps) -> Self {
        Self(Suspension::new(limits, deps))
    }

    /// Puts the decorators for clients without a session around an endpoint.
    pub fn around_endpoint(&self, target: Target, server: Arc<dyn Server>) -> Arc<dyn Server> {
        Arc::new(EndpointCrossing { server, target, suspension: Arc::clone(&self.0) })
    }

    /// Ends all suspended calls and deferred requests, and waits for their end.
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
