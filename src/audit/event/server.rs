//! What users give to servers behind the gateway: accounts there, and secrets. Know nothing of tokens and values.

use crate::{
    audit::line::AuditLine,
    model::{BackendId, SecretName, UserId},
};

/// An event of a user at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerEvent {
    /// A user connected a server with an account of theirs there.
    Connected(UserId, BackendId),
    /// The connection of a user to a server ended.
    Disconnected(UserId, BackendId),
    /// A user entered a secret for servers.
    SecretEntered(UserId, SecretName),
    /// A secret of a user was deleted.
    SecretEnded(UserId, SecretName),
}

// === impl ServerEvent ===

impl ServerEvent {
    pub(super) fn line(&self) -> AuditLine {
        use AuditLine as L;
        match self {
            Self::Connected(user, backend) => {
                L::new("upstream_connected", "account at a server connected").with("user", user).with("server", backend)
            }
            Self::Disconnected(user, backend) => L::new("upstream_disconnected", "account at a server disconnected")
                .with("user", user)
                .with("server", backend),
            Self::SecretEntered(user, name) => {
                L::new("secret_entered", "secret for servers entered").with("user", user).with("name", name)
            }
            Self::SecretEnded(user, name) => {
                L::new("secret_ended", "secret for servers deleted").with("user", user).with("name", name)
            }
        }
    }
}
