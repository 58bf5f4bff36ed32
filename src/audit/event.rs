//! The events of the audit trail, a file for each subject. None holds a secret. Know nothing of logs and tables.

mod client;
mod grant;
mod invitation;
mod key;
mod login;
mod operation;
mod refusal;
mod server;
mod user;

use self::operation::OperatorAct;
pub use self::{
    client::ClientEvent,
    grant::{GrantEvent, GrantParties, Revoker},
    invitation::InvitationEvent,
    key::KeyEvent,
    login::LoginEvent,
    operation::OperationEvent,
    refusal::RefusalEvent,
    server::ServerEvent,
    user::{UserChange, UserEvent},
};
use super::line::AuditLine;

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditEvent {
    /// A person at the login page.
    Login(LoginEvent),
    /// A refused credential or request.
    Refusal(RefusalEvent),
    /// A grant, or what rests on it.
    Grant(GrantEvent),
    /// A client.
    Client(ClientEvent),
    /// An invitation.
    Invitation(InvitationEvent),
    /// A key.
    Key(KeyEvent),
    /// A user was disabled, enabled or deleted.
    User(UserEvent),
    /// A user at a server behind the gateway.
    Server(ServerEvent),
    /// An operator at the running gateway.
    Operation(OperatorAct),
    /// The gateway runs with another configuration.
    ConfigurationChanged {
        /// The servers that were added, removed and replaced, and what waits for the next start.
        summary: String,
    },
}

// === impl AuditEvent ===

impl AuditEvent {
    /// Its names and texts.
    pub(super) fn line(&self) -> AuditLine {
        match self {
            Self::Login(event) => event.line(),
            Self::Refusal(event) => event.line(),
            Self::Grant(event) => event.line(),
            Self::Client(event) => event.line(),
            Self::Invitation(event) => event.line(),
            Self::Key(event) => event.line(),
            Self::User(event) => event.line(),
            Self::Server(event) => event.line(),
            Self::Operation(act) => act.line(),
            Self::ConfigurationChanged { summary } => {
                AuditLine::new("configuration_changed", "configuration changed").with("reason", summary)
            }
        }
    }
}

macro_rules! subjects {
    ($($variant:ident($event:ty)),*) => {
        $(impl From<$event> for AuditEvent {
            fn from(event: $event) -> Self {
                Self::$variant(event)
            }
        })*
    };
}

subjects!(
    Login(LoginEvent),
    Refusal(RefusalEvent),
    Grant(GrantEvent),
    Client(ClientEvent),
    Invitation(InvitationEvent),
    Key(KeyEvent),
    User(UserEvent),
    Server(ServerEvent),
    Operation(OperatorAct)
);
