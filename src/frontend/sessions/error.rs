//! The two ways in which there is no session for a client. Knows nothing of how they are answered.

/// Why there is no session to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// There is none of this id, or it ended, or it is another caller's: nobody can tell these apart.
    Unknown,
    /// The store cannot be asked.
    Unavailable,
    /// Too many look-ups of the caller wait already.
    Waiting,
    /// It is in the store, and the memory has no place for it.
    Full(Full),
}

/// Why no session can be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The caller has as many as it may have, and all of them are in use.
    Caller,
    /// The gateway has as many as it can have, and the caller has none to give up.
    Gateway,
}
