//! Accounts at servers behind the gateway, and secrets for them, given by users.

use crate::{
    audit::line::AuditLine,
    model::{BackendId, SecretName, UserId},
};

/// Events of a user at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerEvent {
    /// A user connected a server with an account there.
    Connected(UserId, BackendId),
    /// A user's connection to a server ended.
    Disconnected(UserId, BackendId),
    /// A user entered a secret for servers.
    SecretEntered(UserId, SecretName),
    /// A user's secret was deleted.
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
