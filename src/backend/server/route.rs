//! The way of a call to its server. Knows nothing of how it is found.

use crate::{
    backend::{connection_key::ConnectionKey, pool::LeasedConnection},
    mcp::Era,
};

/// The way of a call.
pub(super) struct Route {
    /// The era of its server.
    pub(super) era: Era,
    /// The owner of its connection.
    pub(super) key: ConnectionKey,
    /// The connection, if it can be used at once.
    pub(super) ready: Option<LeasedConnection>,
}

impl Route {
    /// The way to the connection of `key`.
    pub(super) const fn of(era: Era, key: ConnectionKey) -> Self {
        Self { era, key, ready: None }
    }
}
