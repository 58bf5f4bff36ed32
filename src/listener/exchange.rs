//! One request and its response, as the connection sees them: how much of the body has arrived, and how much of the
//! response was sent.

use hyper::body::Incoming;
use tokio::time::Instant;

use crate::support::pace::Pace;

/// The current request of a connection, or none.
#[derive(Debug)]
pub(super) struct HttpExchange {
    pub(super) intake: Intake,
    pub(super) delivery: ResponseProgress,
}

/// Progress of the request body.
#[derive(Debug)]
pub(super) enum Intake {
    /// All of it has been read, or there is none.
    Whole,
    /// The handler has the body and does not wait for it.
    Held(Pace),
    /// The handler has been waiting for bytes since this moment.
    Awaited(Pace, Instant),
    /// The client sent too little for too long.
    Overdue,
    /// The handler is done with the body: the rest is read and discarded.
    Left(Remainder),
    /// The rest is not read: the connection ends with this response.
    Abandoned,
}

/// The rest of a body that the handler did not read.
#[derive(Debug)]
pub(super) struct Remainder {
    pub(super) body: Incoming,
    pub(super) since: Instant,
    pub(super) discarded: u64,
}

/// Progress of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseProgress {
    /// There is no request.
    None,
    /// The handler has not answered yet.
    Pending,
    /// hyper has the head; the body has not ended.
    Sending,
    /// The body has ended; the last bytes may still be in a buffer.
    Sent,
    /// The connection speaks another protocol from here on.
    Upgraded,
}

// === impl HttpExchange ===

impl HttpExchange {
    pub(super) const NONE: Self = Self { intake: Intake::Whole, delivery: ResponseProgress::None };
}
