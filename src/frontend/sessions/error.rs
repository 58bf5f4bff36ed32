//! The errors of opening and looking up a session.

use crate::model::ReplicaNumber;

/// Why a session cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookupError {
    /// No session has this id, or it ended, or it is another caller's: the answer does not reveal which.
    Unknown,
    /// Another replica has it.
    Elsewhere(ReplicaNumber),
    /// The store cannot be read.
    Unavailable,
    /// Too many look-ups of the user wait already.
    TooManyLookups,
    /// It is in the store, but does not fit in memory.
    Limit(LimitReached),
}

/// Why a session cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitReached {
    /// The user has as many as one may have, and all of them are in use.
    User,
    /// The gateway has as many as it can have, and no user with more than this one has an idle session.
    Gateway,
}
