//! The events of the audit trail, one file for each subject. No event contains a secret.

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

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditEvent {
    /// A person at the login page.
    Login(LoginEvent),
    Refusal(RefusalEvent),
    /// A grant, or something based on it.
    Grant(GrantEvent),
    Client(ClientEvent),
    Invitation(InvitationEvent),
    Key(KeyEvent),
    User(UserEvent),
    /// A user at a server behind the gateway.
    Server(ServerEvent),
    /// An operator at the running gateway.
    Operation(OperatorAct),
    /// The gateway runs with a new configuration.
    ConfigurationChanged {
        /// The added, removed and replaced servers, and changes that take effect at the next start.
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
