//! Operations on the running gateway by its control file. Know nothing of how it is asked.

use crate::{
    audit::line::AuditLine,
    model::{BackendId, UserId},
};

/// An event of an operator at the running gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationEvent {
    /// A server was started anew.
    ServerRestarted(BackendId),
    /// Somebody read what the programs of a server print.
    OutputRead(BackendId),
    /// The session of a user was ended; the text is the beginning of its id.
    SessionEnded(UserId, String),
    /// The log has another filter for a while, or again the configured one.
    LogChanged(String),
}

// === impl OperationEvent ===

impl OperationEvent {
    /// The same, done by this user of the operating system.
    #[must_use]
    pub const fn by(self, operator: String) -> OperatorAct {
        OperatorAct { what: self, operator }
    }

    fn line(&self) -> AuditLine {
        use AuditLine as L;
        match self {
            Self::ServerRestarted(server) => L::new("server_restarted", "server restarted").with("server", server),
            Self::OutputRead(server) => L::new("output_read", "output of a server read").with("server", server),
            Self::SessionEnded(user, session) => {
                L::new("session_ended", "session ended").with("user", user).with("name", session)
            }
            Self::LogChanged(change) => L::new("log_changed", "log filter changed").with("reason", change),
        }
    }
}

/// An event of an operator, and who that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorAct {
    /// The event that the operator caused.
    what: OperationEvent,
    /// The user of the operating system.
    operator: String,
}

// === impl OperatorAct ===

impl OperatorAct {
    pub(super) fn line(&self) -> AuditLine {
        self.what.line().by_operator(&self.operator)
    }
}
