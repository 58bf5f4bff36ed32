//! Logins of people on pages. Know nothing of keys and providers.

use crate::{
    audit::line::AuditLine,
    model::{KeyId, UserId},
};

/// An event of a person at the login page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginEvent {
    /// A person logged in.
    LoggedIn {
        /// The user.
        user: UserId,
        /// The API key or account.
        key: KeyId,
    },
    /// A person logged out.
    LoggedOut {
        /// The user.
        user: Option<UserId>,
    },
    /// A person who came from a provider is not let in.
    Refused {
        /// The name of the provider in the configuration.
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
