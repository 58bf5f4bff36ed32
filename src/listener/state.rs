//! The state of one connection in one word: a request changes it with one atomic operation.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// There is no connection in this slot.
    Free,
    /// The head of a request is incomplete, or nothing has been received yet.
    Head,
    /// The head is complete, the body is not, and nothing has been answered yet.
    Body,
    /// A request is being handled or its response is being sent. A streaming response stays in this state until its
    /// body ends.
    Request,
    /// The client takes none of the response bytes that wait. The time is still the request's.
    Stalled,
    /// The response is sent; the rest of the body is read and discarded.
    Draining,
    Idle,
    /// The connection speaks another protocol (RFC 9110 7.8).
    Upgraded,
    /// The response is sent, and the connection waits for the client to close it.
    Closing,
    /// The connection is being closed to make room for another. It accepts no more requests.
    Evicted,
}

/// A state and the time it was entered, in milliseconds since the start of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamped {
    pub(super) state: ConnectionState,
    pub(super) since: u64,
}

// === impl ConnectionState ===

impl ConnectionState {
    const ALL: [Self; 10] = [
        Self::Free,
        Self::Head,
        Self::Body,
        Self::Request,
        Self::Stalled,
        Self::Draining,
        Self::Idle,
        Self::Upgraded,
        Self::Closing,
        Self::Evicted,
    ];

    /// The place of a recent head or body in the order of [`Self::eviction_rank`]: after idle connections.
    pub(super) const RECENT_RANK: Option<u8> = Some(4);

    /// The place in this order of a stalled response that began long ago, if its user has many connections or it has no
    /// user: before idle connections, which would otherwise be evicted in favour of clients that read nothing.
    pub(super) const LATE_RANK: Option<u8> = Some(2);

    /// Position in the order in which connections are closed to make room, lowest first; `None` for never.
    pub(super) const fn eviction_rank(self) -> Option<u8> {
        match self {
            Self::Closing | Self::Draining => Some(0),
            Self::Head => Some(1),
            Self::Body => Some(2),
            Self::Idle => Some(3),
            Self::Stalled => Some(5),
            Self::Free | Self::Request | Self::Upgraded | Self::Evicted => None,
        }
    }

    /// The label in metrics.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Head => "head",
            Self::Body => "body",
            Self::Request => "request",
            Self::Stalled => "stalled",
            Self::Draining => "draining",
            Self::Idle => "idle",
            Self::Upgraded => "upgraded",
            Self::Closing => "closing",
            Self::Evicted => "evicted",
        }
    }
}

// === impl Stamped ===

impl Stamped {
    /// Packs the state and its time into a word.
    pub(super) const fn pack(self) -> u64 {
        self.since << 4 | self.state as u64
    }

    /// The inverse of [`pack`](Self::pack).
    pub(super) fn unpack(word: u64) -> Self {
        let index = usize::try_from(word & 0xf).unwrap_or(0);
        Self { state: ConnectionState::ALL.get(index).copied().unwrap_or(ConnectionState::Free), since: word >> 4 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_survives_its_word() {
        for state in ConnectionState::ALL {
            let stamped = Stamped { state, since: 123_456_789 };
            assert_eq!(Stamped::unpack(stamped.pack()), stamped);
        }
    }
}
