//! Logins of people on pages.

use crate::{
    audit::line::AuditLine,
    model::{KeyId, UserId},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginEvent {
    LoggedIn {
        user: UserId,
        /// The API key or account.
        key: KeyId,
    },
    LoggedOut {
        user: Option<UserId>,
    },
    /// A person who came from a provider was not let in.
    Refused {
        /// The provider's name in the configuration.
        provider: String,
        /// The reason, without the provider's own words.
        reason: String,
    },
}

// === impl LoginEvent ===

impl LoginEvent {
    pub(super) fn line(&self) -> AuditLine {
        use AuditLine as L;
        match self {
            Self::LoggedIn { user, key } => L::new("login", "login").with("user", user).with("key", key),
            Self::LoggedOut { user } => L::new("logout", "logout").maybe("user", user.as_ref()),
            Self::Refused { provider, reason } => L::new("login_refused", "login through a provider refused")
                .with("name", provider)
                .with("reason", reason),
        }
    }
}
