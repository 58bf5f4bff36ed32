//! On whose behalf a server is called. Knows nothing of what it holds.

use super::{SessionId, UserId};

/// On whose behalf a server is called: holds what outlives a single message (log levels, subscriptions, tasks, question
/// slots).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Requester {
    /// A client with a session.
    Session(SessionId),
    /// A client without one, for this request alone (2026-07-28).
    Request(RequestNumber),
    /// A user's clients without sessions, for all that concerns tasks: these outlive the requests that make them.
    TasksOf(UserId),
    /// The gateway itself.
    Gateway,
}

/// Number of a request without a session, unique in the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestNumber(u64);

// === impl Requester ===

impl Requester {
    /// The session, if there is one.
    pub const fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Session(session) => Some(session),
            Self::Request(_) | Self::TasksOf(_) | Self::Gateway => None,
        }
    }

    /// Whether this is a client that has no session.
    pub const fn is_sessionless(&self) -> bool {
        matches!(self, Self::Request(_) | Self::TasksOf(_))
    }

    /// Whether this is the gateway itself.
    pub const fn is_gateway(&self) -> bool {
        matches!(self, Self::Gateway)
    }
}

// === impl RequestNumber ===

impl RequestNumber {
    /// The request of this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
}
