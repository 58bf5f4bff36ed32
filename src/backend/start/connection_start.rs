//! A connection that is to be opened. Knows nothing of how it is opened.

use crate::{backend::sharing::connection_key::ConnectionKey, model::UserId};

/// A connection that is to be opened.
#[derive(Clone, Copy)]
pub(crate) struct ConnectionStart<'a> {
    /// Its key.
    pub(crate) key: &'a ConnectionKey,
    /// The connections of this key before it.
    pub(crate) succession: Succession,
    /// The user for whom it is opened; `None` for a base connection.
    pub(crate) user: Option<&'a UserId>,
}

/// Tells a first connection of a key from later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Succession {
    /// The key has had no connection.
    First,
    /// The key had a connection that was lost or closed as idle.
    Another,
}
