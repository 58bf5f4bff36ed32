//! What the front keeps for clients that have no session: counters. Knows nothing of how a request is served.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::users::Users;
use crate::{
    frontend::{sessions::Deps, settings::Settings},
    model::{RequestNumber, status::SessionStatus},
    support::Timestamp,
};

/// What the front keeps for clients that have no session.
pub(crate) struct Modern {
    pub(super) users: Users,
    /// How long a client is shown that was here.
    shown_for: Duration,
    pub(super) deps: Deps,
    /// Numbers the requests, so that what each holds at the backends is told apart.
    last: AtomicU64,
    /// Ends everything that runs, when the gateway does.
    pub(super) closed: CancellationToken,
}

// === impl Modern ===

impl Modern {
    /// Nothing runs yet.
    pub(crate) fn new(deps: &Deps, settings: &Settings) -> Self {
        let closed = CancellationToken::new();
        Self {
            users: Users::new(settings),
            shown_for: settings.session_idle,
            deps: deps.clone(),
            last: AtomicU64::new(0),
            closed,
        }
    }

    /// The clients that were here of late, for people.
    pub(crate) fn status(&self, now: Timestamp) -> Vec<SessionStatus> {
        self.users.status(now - self.shown_for, now)
    }

    /// Forgets the clients that were away for long.
    pub(crate) fn sweep(&self, now: Timestamp) {
        self.users.sweep(now - self.shown_for);
    }

    /// Ends everything that runs.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    /// The number of one more request.
    pub(super) fn number(&self) -> RequestNumber {
        RequestNumber::new(self.last.fetch_add(1, Ordering::Relaxed))
    }
}

impl fmt::Debug for Modern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Modern").finish_non_exhaustive()
    }
}
