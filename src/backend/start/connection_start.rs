//! Parameters for opening a connection.

use crate::{backend::sharing::connection_key::ConnectionKey, model::UserId};

#[derive(Clone, Copy)]
pub(crate) struct ConnectionStart<'a> {
    pub(crate) key: &'a ConnectionKey,
    /// First or later connection of this key.
    pub(crate) succession: Succession,
    /// User for whom it is opened; `None` for a base connection.
    pub(crate) user: Option<&'a UserId>,
}

/// Distinguishes the first connection of a key from later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Succession {
    /// The key has had no connection.
    First,
    /// The key had a connection that was lost or closed as idle.
    Another,
}
