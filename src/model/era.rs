//! In which manner a server is spoken to. Knows nothing of how it is found out.

use crate::support::{Digest, Timestamp};

/// Who keeps the state of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// An `initialize` handshake opens a session.
    Legacy,
    /// Every request stands alone.
    Modern,
}

/// What was found out about the era of a server (`translation` 2.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownEra {
    /// Which server: [`super::TransportSpec::server`].
    pub server: Digest,
    /// Of which era it was.
    pub era: Era,
    /// When that was found out.
    pub found: Timestamp,
}
