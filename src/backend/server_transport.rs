//! The transport of one backend's server: as configured, or another one that the server was found to need. Knows nothing
//! of connections.

use std::sync::Arc;

use parking_lot::RwLock;

use crate::model::{BackendSpec, Delivery, TransportAbilities, TransportSpec};

/// The transport of one backend's server.
pub(crate) struct ServerTransport {
    spec: Arc<BackendSpec>,
    /// The transport in place of the configured one.
    found: RwLock<Option<TransportSpec>>,
}

// === impl ServerTransport ===

impl ServerTransport {
    /// The transport as configured.
    pub(super) fn new(spec: &Arc<BackendSpec>) -> Self {
        Self { spec: Arc::clone(spec), found: RwLock::default() }
    }

    /// The transport for the next connection.
    pub(super) fn current(&self) -> TransportSpec {
        self.found.read().clone().unwrap_or_else(|| self.spec.transport.clone())
    }

    /// True if one channel carries all messages of a connection.
    pub(super) fn is_channel(&self) -> bool {
        self.abilities().delivery == Delivery::Channel
    }

    /// The abilities of the transport for the next connection.
    pub(super) fn abilities(&self) -> TransportAbilities {
        self.found.read().as_ref().unwrap_or(&self.spec.transport).abilities()
    }

    /// The name of the transport for the next connection.
    pub(super) fn name(&self) -> &'static str {
        self.found.read().as_ref().unwrap_or(&self.spec.transport).name()
    }

    /// Stores the transport over which a connection was opened in place of the configured one.
    pub(super) fn found(&self, transport: TransportSpec) {
        tracing::info!(server = %self.spec.id, transport = transport.name(), "the server is reached over another transport");
        *self.found.write() = Some(transport);
    }

    /// Returns to the configured transport: the server may have been replaced.
    pub(super) fn forget(&self) {
        *self.found.write() = None;
    }
}
