//! Errors from opening a session or looking one up.

use crate::model::ReplicaNumber;

/// Reason why a session cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookupError {
    /// No session has this id, or it has ended, or it belongs to another caller. The answer does not reveal which.
    Unknown,
    /// Another replica owns it.
    Elsewhere(ReplicaNumber),
    /// The store cannot be read.
    Unavailable,
    /// Too many look-ups of the user are waiting.
    TooManyLookups,
    /// It is in the store, but does not fit into memory.
    Limit(LimitReached),
}

/// Reason why a session cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitReached {
    /// The user has as many sessions as allowed, and all of them are in use.
    User,
    /// The gateway has as many sessions as it can hold, and no user with more sessions than this one has an idle one.
    Gateway,
}
