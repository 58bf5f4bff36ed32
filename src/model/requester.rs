//! The party on whose behalf a server is called.

use super::{SessionId, UserId};

/// The party on whose behalf a server is called. It owns the state that outlives one message: log levels,
/// subscriptions, tasks, slots for server requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Requester {
    /// A client with a session.
    Session(SessionId),
    /// A client without a session, for this request only (2026-07-28).
    Request(RequestNumber),
    /// All clients without sessions of one user, for their tasks: a task outlives the request that created it.
    TasksOf(UserId),
    Gateway,
}

/// Number of a request without a session, unique in the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestNumber(u64);

// === impl Requester ===

impl Requester {
    /// The session, if any.
    pub const fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Session(session) => Some(session),
            Self::Request(_) | Self::TasksOf(_) | Self::Gateway => None,
        }
    }

    /// True for a client without a session.
    pub const fn is_sessionless(&self) -> bool {
        matches!(self, Self::Request(_) | Self::TasksOf(_))
    }

    /// True for the gateway itself.
    pub const fn is_gateway(&self) -> bool {
        matches!(self, Self::Gateway)
    }
}

// === impl RequestNumber ===

impl RequestNumber {
    /// Wraps a number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
}
