//! Clients of the gateway: Streamable HTTP in all protocol versions that have it, HTTP+SSE, WebSocket, stdio. Servers
//! appear here only as [`crate::mcp::Server`], and callers as [`crate::resource::Authorized`].
//!
//! Every request comes with its `Authorized`, made by the gate of `resource`; behind a router, as an extension.
//!
//! | File | Content |
//! |---|---|
//! | `binding` | bytes, status and headers to messages and back, for each transport |
//! | `state`, `frontend_settings` | state shared by all, and its limits |
//! | `sessions` | the table of sessions: owners, limits, ends |
//! | `session` | one session: its messages, its calls |
//! | `server_requests` | the requests of servers to the client of a session |
//! | `unfinished_tasks` | tasks of sessions, which a stopping replica waits for |
//! | `replay` | messages for streams, and for clients that return to them |
//! | `request_limits` | the limits of requests without a session |
//! | `stateless_request` | one request without a session |

mod binding;
mod frontend_settings;
mod replay;
mod request_limits;
mod server_requests;
mod session;
mod sessions;
mod state;
mod stateless_request;
mod unfinished_tasks;

use std::sync::Arc;

use axum::{Router, extract::Request};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::MissedTickBehavior,
};
use tokio_util::sync::CancellationToken;

use self::state::{FrontendState, Sender};
pub use self::{
    binding::{StreamableHttp, UpgradeOffer},
    frontend_settings::FrontendSettings,
    sessions::Deps,
    state::{BehindEndpoint, EndpointServers, Routes},
};
use crate::{
    model::{Binding, ClientId, Endpoint, KeyId, SessionId, Target, UserId, status::SessionStatus},
    resource::{Authorized, Unheard},
};

/// The client side of the gateway. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Frontend(Arc<FrontendState>);

/// The result of a request to end a session.
#[derive(Debug)]
pub enum EndedSession {
    /// The one session with this beginning, which has been ended.
    One(SessionStatus),
    /// No session begins with this text.
    Unknown,
    /// This many sessions begin with this text; none was ended.
    Several(usize),
}

// === impl Frontend ===

impl Frontend {
    /// Creates the client side of these servers.
    pub fn new(routes: Routes, settings: FrontendSettings, deps: Deps) -> Self {
        Self(Arc::new(FrontendState::new(routes, settings, deps)))
    }

    /// The routes of the MCP endpoints.
    pub fn router(&self) -> Router {
        binding::router(Arc::clone(&self.0))
    }

    /// The endpoints of Streamable HTTP without a router, for the common requests.
    pub fn streamable(&self) -> StreamableHttp {
        StreamableHttp::new(Arc::clone(&self.0))
    }

    /// Serves one local client on `input` and `output` until it closes `input`, stops reading, or the gateway ends.
    /// Does nothing if the target's backend does not exist.
    pub async fn serve_stdio(
        &self,
        admission: Authorized,
        target: Target,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin,
    ) {
        let Some(servers) = self.0.servers_at(&target) else { return };
        let endpoint = Endpoint { binding: Binding::Stdio, target };
        binding::stdio::serve(Arc::clone(&self.0), Sender { admission, endpoint, servers }, input, output).await;
    }

    /// Takes the answers from a request that was refused. A client sends an answer to a server's request only once. So
    /// the server gets the answer, or an error if it may not be used; otherwise its call would wait forever.
    pub async fn take_unheard(&self, request: Request, unheard: Unheard) {
        binding::take_unheard(&self.0, request, unheard).await;
    }

    /// The servers at the endpoints.
    pub fn routes(&self) -> Arc<Routes> {
        self.0.routes.load_full()
    }

    /// Replaces the servers at the endpoints. From now on, clients at a removed endpoint get 404.
    pub fn replace_routes(&self, routes: Routes) {
        self.0.routes.store(Arc::new(routes));
    }

    /// The sessions in memory, oldest first, then the recent clients without sessions.
    pub fn status(&self) -> Vec<SessionStatus> {
        let mut clients = self.0.sessions.status();
        clients.extend(self.0.requests.status(self.0.clock.now()));
        clients
    }

    /// The sessions of one user. Does not read the sessions of others.
    pub fn status_of(&self, user: &UserId) -> Vec<SessionStatus> {
        let mut clients = self.0.sessions.status_of(user);
        clients.extend(self.0.requests.status_of(user, self.0.clock.now()));
        clients
    }

    /// Ends a session whose state at a backend is lost (`on_loss = "end"`); further requests get 404.
    pub async fn end_session(&self, id: &SessionId) {
        self.0.sessions.end_by_id(id).await;
    }

    /// Ends the session whose id begins like this, if only one session in memory does.
    pub async fn end_session_like(&self, beginning: &str) -> EndedSession {
        let sessions = &self.0.sessions;
        match &sessions.beginning_with(beginning)[..] {
            [id] => match sessions.status_by_id(id) {
                Some(status) => {
                    sessions.end_by_id(id).await;
                    EndedSession::One(status)
                }
                None => EndedSession::Unknown,
            },
            [] => EndedSession::Unknown,
            several => EndedSession::Several(several.len()),
        }
    }

    /// Ends the sessions of a deleted user, and forgets the user's clients.
    pub async fn end_user(&self, user: &UserId) {
        self.0.sessions.end_of_user(user, |_| true).await;
        self.0.requests.forget_user(user);
    }

    /// Ends the sessions of a user's key that was sent directly.
    pub async fn end_key(&self, user: &UserId, key: &KeyId) {
        self.0.sessions.end_of_user(user, |owner| owner.key.as_ref() == Some(key)).await;
    }

    /// Ends the sessions of a user's app.
    pub async fn end_app(&self, user: &UserId, client: &ClientId) {
        self.0.sessions.end_of_user(user, |owner| owner.client.as_ref() == Some(client)).await;
    }

    /// Ends expired sessions, and writes the activity of the others to the store.
    pub async fn sweep(&self) {
        self.sweep_memory().await;
        self.0.sessions.delete_idle_rows().await;
    }

    /// The same, except for sessions that are only in the store.
    async fn sweep_memory(&self) {
        self.0.sessions.sweep().await;
        self.0.requests.sweep(self.0.clock.now());
    }

    /// Sweeps at the configured interval until `cancel`, then sweeps the memory once more.
    pub async fn run_reaper(&self, cancel: CancellationToken) {
        let mut sweeps = tokio::time::interval(self.0.settings.sweep_every);
        sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = cancel.cancelled() => break,
                _ = sweeps.tick() => {
                    self.sweep_memory().await;
                    // deleting many rows takes a while, and the next start continues with them
                    cancel.run_until_cancelled(self.0.sessions.delete_idle_rows()).await;
                }
            }
        }
        self.sweep_memory().await;
    }

    /// Ends standalone streams at once, and HTTP+SSE sessions once their calls are answered, because these would keep
    /// connections open forever. Calls continue.
    pub fn drain(&self) {
        self.0.drained.cancel();
    }

    /// True if sessions have running tasks, or finished tasks whose results were not fetched.
    pub fn has_tasks(&self) -> bool {
        self.0.sessions.tasks.has_any()
    }

    /// Waits until no task is left for which [`Self::has_tasks`] is true.
    pub async fn tasks_ended(&self) {
        self.0.sessions.tasks.all_ended().await;
    }

    /// Ends everything that is running, and waits for it. Sessions stay in the store, for the next process.
    pub async fn close(&self) {
        self.drain();
        self.0.sessions.close();
        self.0.requests.close();
        self.0.tracker.close();
        self.0.tracker.wait().await;
    }
}
