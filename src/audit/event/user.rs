//! Users as the operator lets them in and out. Know nothing of what ends with them.

use crate::{audit::line::AuditLine, model::UserId};

/// A change of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserEvent {
    /// The user.
    pub user: UserId,
    /// The change.
    pub change: UserChange,
}

/// Change of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserChange {
    /// Nothing of the user works until it is enabled.
    Disabled,
    /// The user may log in again.
    Enabled,
    /// Everything of the user is gone.
    Deleted,
}

// === impl UserEvent ===

impl UserEvent {
    pub(super) fn line(&self) -> AuditLine {
        let line = match self.change {
            UserChange::Disabled => AuditLine::new("user_disabled", "user disabled"),
            UserChange::Enabled => AuditLine::new("user_enabled", "user enabled"),
            UserChange::Deleted => AuditLine::new("user_deleted", "user deleted"),
        };
        line.with("user", &self.user)
    }
}
