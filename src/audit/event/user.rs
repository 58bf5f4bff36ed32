//! Users whom the operator disables, enables or deletes.

use crate::{audit::line::AuditLine, model::UserId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserEvent {
    pub user: UserId,
    pub change: UserChange,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserChange {
    /// Nothing of the user works until the user is enabled again.
    Disabled,
    Enabled,
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
