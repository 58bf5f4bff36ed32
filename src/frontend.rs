//! The clients in front of the gateway: Streamable HTTP for all protocol versions that have it, HTTP+SSE. Knows the
//! servers as [`Server`] alone, and who is let in as [`crate::resource::Admission`].
//!
//! Every request must carry an `Admission` as an extension; the layer that puts it there is `resource`'s.
//!
//! | Noun | What |
//! |---|---|
//! | `arrival`, `refusal`, `answer` | a request, the refusals, the two forms of answers |
//! | `streamable`, `connected` | the two bindings |
//! | `sessions`, `session` | who talks, and how long |
//! | `legacy` | what legacy clients say, turned into calls |
//! | `exchange`, `calls`, `questions` | one call on its way, all that run, all that is asked |
//! | `rounds` | calls whose server asks by ending them (2026-07-28) |
//! | `outbox`, `transcript`, `streams` | what waits for streams, and for clients that come back to them |
//! | `told`, `event_id` | one stream of events on its way |
//! | `modern` | what clients of 2026-07-28 say, who have no session |
//! | `spoken`, `able` | the client's own version, and what it can be asked |

mod able;
mod answer;
mod arrival;
mod calls;
mod connected;
mod event_id;
mod exchange;
mod legacy;
mod modern;
mod outbox;
mod questions;
mod refusal;
mod rounds;
mod session;
mod sessions;
mod settings;
mod spoken;
mod streamable;
mod streams;
mod told;
mod transcript;

use std::{collections::BTreeMap, fmt, sync::Arc};

use axum::{
    Router,
    routing::{self, MethodRouter},
};
use tokio::time::MissedTickBehavior;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{modern::Modern, sessions::Sessions};
pub use self::{modern::StateKey, sessions::Deps, settings::Settings};
use crate::{
    mcp::Server,
    model::{BackendId, SessionId, Target, status::SessionStatus},
};

/// The clients' side of the gateway. Cheap to clone.
#[derive(Clone)]
pub struct Frontend(Arc<Inner>);

/// Which server answers at which endpoint.
#[derive(Clone)]
pub struct Routes {
    /// At `/mcp` and `/sse`.
    pub merged: Arc<dyn Server>,
    /// At `/mcp/{backend}` and `/sse/{backend}`.
    pub backends: BTreeMap<BackendId, Arc<dyn Server>>,
}

struct Inner {
    routes: Routes,
    settings: Settings,
    sessions: Sessions,
    modern: Modern,
    /// Owns what goes on without a reader: listens, and calls whose client vanished.
    tracker: TaskTracker,
    /// Cancelled when no stream may stay open.
    drained: CancellationToken,
}

// === impl Frontend ===

impl Frontend {
    /// A front before these servers.
    pub fn new(routes: Routes, settings: Settings, deps: Deps) -> Self {
        let tracker = TaskTracker::new();
        Self(Arc::new(Inner {
            routes,
            modern: Modern::new(&deps, &settings),
            sessions: Sessions::new(deps, settings.clone(), tracker.clone()),
            settings,
            tracker,
            drained: CancellationToken::new(),
        }))
    }

    /// The routes of the MCP endpoints.
    pub fn router(&self) -> Router {
        let mcp = || -> MethodRouter<Self> {
            routing::post(streamable::post).get(streamable::get).delete(streamable::delete)
        };
        Router::new()
            .route("/mcp", mcp())
            .route("/mcp/", mcp())
            .route("/mcp/{backend}", mcp())
            .route("/mcp/{backend}/", mcp())
            .route("/sse", routing::get(connected::get))
            .route("/sse/{backend}", routing::get(connected::get))
            .route("/messages", routing::post(connected::post))
            .with_state(self.clone())
    }

    /// The sessions that are in memory, oldest first, then the clients without sessions that were here of late.
    pub fn status(&self) -> Vec<SessionStatus> {
        let mut clients = self.sessions().status();
        clients.extend(self.modern().status(self.sessions().now()));
        clients
    }

    /// Ends a session whose state at a backend is lost (`on_loss = "end"`): from now on it is answered 404.
    pub async fn end_session(&self, id: &SessionId) {
        self.sessions().end_by_id(id).await;
    }

    /// One round of the reaper: ends the sessions that are due and writes the activity of the others to the store.
    pub async fn sweep(&self) {
        self.sessions().sweep().await;
        self.modern().sweep(self.sessions().now());
    }

    /// Sweeps again and again until `cancel`, and once more then.
    pub async fn run_reaper(&self, cancel: CancellationToken) {
        let mut rounds = tokio::time::interval(self.settings().sweep_every);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = cancel.cancelled() => break,
                _ = rounds.tick() => self.sweep().await,
            }
        }
        self.sweep().await;
    }

    /// Ends the standalone streams and the HTTP+SSE sessions, which would keep connections open for ever; calls go on.
    pub fn drain(&self) {
        self.0.drained.cancel();
    }

    /// Ends everything that runs and waits until it has ended. Sessions stay in the store, for the next process.
    pub async fn close(&self) {
        self.drain();
        self.sessions().close();
        self.modern().close();
        self.0.tracker.close();
        self.0.tracker.wait().await;
    }

    fn server(&self, target: &Target) -> Option<&Arc<dyn Server>> {
        match target {
            Target::Merged => Some(&self.0.routes.merged),
            Target::Backend(backend) => self.0.routes.backends.get(backend),
        }
    }

    fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    fn modern(&self) -> &Modern {
        &self.0.modern
    }

    fn settings(&self) -> &Settings {
        &self.0.settings
    }

    fn tracker(&self) -> &TaskTracker {
        &self.0.tracker
    }

    fn drained(&self) -> &CancellationToken {
        &self.0.drained
    }
}

impl fmt::Debug for Frontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frontend").field("settings", self.settings()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routes").field("backends", &self.backends.keys()).finish_non_exhaustive()
    }
}
