//! Abilities of the transports toward servers. What runs over a transport asks these, and never which transport it is.

use super::{BackendSpec, TransportSpec};

/// What a transport toward servers can do, and what its connections take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransportAbilities {
    /// Where answers arrive.
    pub delivery: Delivery,
    /// Where header parameters (`x-mcp-header`) are repeated.
    pub header_params: HeaderParams,
    /// File descriptors that it takes.
    pub descriptors: Descriptors,
}

/// Where the answers of a server arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// On the one channel of the connection, between everything else that the server sends. The server knows the connection,
    /// and may keep state for it.
    Channel,
    /// Each on an exchange of its own. Several machines may answer, and the server may be replaced unseen.
    Exchange,
}

/// Where the parameters that a tool annotates with `x-mcp-header` are repeated (2026-07-28, transports).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderParams {
    /// In `Mcp-Param-*` headers.
    Mirrored,
    /// Nowhere: the transport has no headers.
    Ignored,
}

/// File descriptors that a transport takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Descriptors {
    /// None.
    None,
    /// Some for each connection, for as long as it lasts.
    PerConnection,
    /// One for each request that runs.
    PerRequest,
}

// === impl TransportSpec ===

impl TransportSpec {
    /// Abilities of this transport.
    pub const fn abilities(&self) -> TransportAbilities {
        match self {
            Self::Stdio(_) => TransportAbilities {
                delivery: Delivery::Channel,
                header_params: HeaderParams::Ignored,
                descriptors: Descriptors::PerConnection,
            },
            Self::Http(_) => TransportAbilities {
                delivery: Delivery::Exchange,
                header_params: HeaderParams::Mirrored,
                descriptors: Descriptors::PerRequest,
            },
            Self::Demo => TransportAbilities {
                delivery: Delivery::Exchange,
                header_params: HeaderParams::Ignored,
                descriptors: Descriptors::None,
            },
        }
    }
}

// === impl BackendSpec ===

impl BackendSpec {
    /// Whether one channel carries all messages of a connection.
    pub const fn is_channel(&self) -> bool {
        matches!(self.transport.abilities().delivery, Delivery::Channel)
    }

    /// Whether the backend is the built-in one, which lives in this process.
    pub const fn is_built_in(&self) -> bool {
        matches!(self.transport, TransportSpec::Demo)
    }
}
