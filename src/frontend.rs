//! The clients in front of the gateway: Streamable HTTP for all protocol versions that have it, HTTP+SSE. Knows the
//! servers as [`crate::mcp::Server`] alone, and who is let in as [`crate::resource::Admission`].
//!
//! Every request must carry an `Admission` as an extension; the layer that puts it there is `resource`'s.
//!
//! | Noun | What |
//! |---|---|
//! | `binding` | Streamable HTTP, HTTP+SSE: bytes, status and headers to messages and back |
//! | `state`, `settings` | what everything below shares, and its bounds |
//! | `sender` | the sender of a message |
//! | `sessions` | the table of sessions: who may use which, and how long |
//! | `session` | one session of a legacy client: its messages, its calls |
//! | `server_requests` | the requests of servers to clients |
//! | `replay` | what waits for streams, and for clients that come back to them |
//! | `request` | one request of a client without a session (2026-07-28) |
//! | `requests` | the bounds of such requests |

mod binding;
mod replay;
mod request;
mod requests;
mod sender;
mod server_requests;
mod session;
mod sessions;
mod settings;
mod state;

use axum::Router;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use self::state::FrontendState;
pub use self::{sessions::Deps, settings::Settings, state::Routes};
use crate::model::{SessionId, status::SessionStatus};

/// The clients' side of the gateway. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Frontend(FrontendState);

// === impl Frontend ===

impl Frontend {
    /// A front before these servers.
    pub fn new(routes: Routes, settings: Settings, deps: Deps) -> Self {
        Self(FrontendState::new(routes, settings, deps))
    }

    /// The routes of the MCP endpoints.
    pub fn router(&self) -> Router {
        binding::router(self.0.clone())
    }

    /// The sessions that are in memory, oldest first, then the clients without sessions that were here of late.
    pub fn status(&self) -> Vec<SessionStatus> {
        let mut clients = self.0.sessions().status();
        clients.extend(self.0.requests().status(self.0.sessions().now()));
        clients
    }

    /// Ends a session whose state at a backend is lost (`on_loss = "end"`): from now on it is answered 404.
    pub async fn end_session(&self, id: &SessionId) {
        self.0.sessions().end_by_id(id).await;
    }

    /// One round of the reaper: ends the sessions that are due and writes the activity of the others to the store.
    pub async fn sweep(&self) {
        self.0.sessions().sweep().await;
        self.0.requests().sweep(self.0.sessions().now());
    }

    /// Sweeps again and again until `cancel`, and once more then.
    pub async fn run_reaper(&self, cancel: CancellationToken) {
        let mut rounds = tokio::time::interval(self.0.settings().sweep_every);
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
        self.0.drained().cancel();
    }

    /// Ends everything that runs and waits until it has ended. Sessions stay in the store, for the next process.
    pub async fn close(&self) {
        self.drain();
        self.0.sessions().close();
        self.0.requests().close();
        self.0.tracker().close();
        self.0.tracker().wait().await;
    }
}
