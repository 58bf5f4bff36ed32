//! The route of a call to its server. Knows nothing of how it is found.

use crate::{
    backend::{connection_key::ConnectionKey, pool::LeasedConnection},
    mcp::Era,
};

/// The route of a call.
pub(super) struct Route {
    /// The era of the server.
    pub(super) era: Era,
    /// The key of the connection.
    pub(super) key: ConnectionKey,
    /// The connection, if it is usable at once.
    pub(super) ready: Option<LeasedConnection>,
}

impl Route {
    /// The route to the connection of `key`.
    pub(super) const fn of(era: Era, key: ConnectionKey) -> Self {
        Self { era, key, ready: None }
    }
}
