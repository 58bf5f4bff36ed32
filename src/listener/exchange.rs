//! One request and its response, as far as the connection has to know: how much of the body is there, and how much of the
//! response is sent. Knows nothing of sockets and of eviction.

use hyper::body::Incoming;
use tokio::time::Instant;

use crate::support::pace::Pace;

/// The request that a connection handles, or none.
#[derive(Debug)]
pub(super) struct HttpExchange {
    pub(super) intake: Intake,
    pub(super) delivery: ResponseProgress,
}

/// Progress of the request body.
#[derive(Debug)]
pub(super) enum Intake {
    /// All of it, or there is none.
    Whole,
    /// The handler has the body and does not wait for it.
    Held(Pace),
    /// The handler waits for bytes since this moment.
    Awaited(Pace, Instant),
    /// The client sent too little for too long.
    Overdue,
    /// The handler is done with the body: what remains is read and discarded.
    Left(Remainder),
    /// The rest is not read: the connection ends with this response.
    Abandoned,
}

/// Rest of a body that the handler did not read.
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
    /// The head is given to hyper, the body has not ended.
    Sending,
    /// The body has ended; the last bytes may wait in a buffer.
    Sent,
    /// The connection speaks another protocol from here on.
    Upgraded,
}

// === impl HttpExchange ===

impl HttpExchange {
    pub(super) const NONE: Self = Self { intake: Intake::Whole, delivery: ResponseProgress::None };
}
