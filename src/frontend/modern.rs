//! Clients of 2026-07-28 over Streamable HTTP: every request stands alone and has one answer, and whoever closes the
//! answer cancels the request. Here is what is kept between requests and by whom: calls that wait for their client
//! ([`parks`]) and questions that wait for a call ([`strays`]), both bounded. What a server of the same version wants to have
//! back it gets from the client ([`seal`]).

mod asked;
mod early;
mod envelope;
mod held;
mod introduction;
mod leg;
mod listen;
mod mirror;
mod parks;
mod seal;
mod strays;
mod users;
mod visits;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio_util::sync::CancellationToken;

pub use self::seal::StateKey;
pub(super) use self::{
    asked::{Asked, notified},
    envelope::{is_around, unsupported},
};
use self::{parks::Parks, seal::Sealer, strays::Strays, users::Users};
use super::{sessions::Deps, settings::Settings};
use crate::{
    model::{SessionId, status::SessionStatus},
    support::Timestamp,
};

/// What the front keeps for clients that have no session.
pub(super) struct Modern {
    users: Users,
    /// How long a client is shown that was here.
    shown_for: Duration,
    parks: Arc<Parks>,
    sealer: Arc<Sealer>,
    strays: Arc<Strays>,
    deps: Deps,
    /// Numbers the requests, so that what each holds at the backends is told apart.
    last: AtomicU64,
    /// Ends everything that runs, when the gateway does.
    closed: CancellationToken,
}

// === impl Modern ===

impl Modern {
    /// Nothing runs yet.
    pub(super) fn new(deps: &Deps, settings: &Settings) -> Self {
        let closed = CancellationToken::new();
        let (random, clock) = (Arc::clone(&deps.random), Arc::clone(&deps.clock));
        Self {
            users: Users::new(settings),
            shown_for: settings.session_idle,
            parks: Parks::new(deps, settings, closed.clone()),
            sealer: Arc::new(Sealer::new(&deps.state_key, random, clock, settings.question_timeout)),
            strays: Strays::new(closed.clone()),
            deps: deps.clone(),
            last: AtomicU64::new(0),
            closed,
        }
    }

    /// The clients that were here of late, for people.
    pub(super) fn status(&self, now: Timestamp) -> Vec<SessionStatus> {
        self.users.status(now - self.shown_for, now)
    }

    /// Forgets the clients that were away for long.
    pub(super) fn sweep(&self, now: Timestamp) {
        self.users.sweep(now - self.shown_for);
    }

    /// Ends everything that runs.
    pub(super) fn close(&self) {
        self.closed.cancel();
    }

    /// The name of one more request.
    fn name(&self) -> SessionId {
        SessionId::new(format!("request {}", self.last.fetch_add(1, Ordering::Relaxed)))
    }
}

impl fmt::Debug for Modern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Modern").finish_non_exhaustive()
    }
}
