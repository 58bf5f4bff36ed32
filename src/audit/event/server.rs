//! What users give to servers behind the gateway: their accounts there. Know nothing of tokens.

use crate::{
    audit::line::AuditLine,
    model::{BackendId, UserId},
};

/// An event of a user at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerEvent {
    /// A user connected a server with an account of theirs there.
    Connected(UserId, BackendId),
    /// The connection of a user to a server ended.
    Disconnected(UserId, BackendId),
}

// === impl ServerEvent ===

impl ServerEvent {
    pub(super) fn line(&self) -> AuditLine {
        use AuditLine as L;
        match self {
            Self::Connected(user, backend) => L::new("upstream_connected", "account at a server connected")
                .with("user", user)
                .with("backend", backend),
            Self::Disconnected(user, backend) => L::new("upstream_disconnected", "account at a server disconnected")
                .with("user", user)
                .with("backend", backend),
        }
    }
}
