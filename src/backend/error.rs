//! Errors of starts and of dispatch. People read the texts in the status, in logs and in errors of calls.

use std::time::Duration;

use super::start::upgrade::TransportOffer;
use crate::{
    mcp::{
        ErrorObject,
        error::{Retry, Unavailable},
    },
    model::BackendId,
};

/// Stands for a reason that only the operator may know.
const NOT_STARTED: &str = "it does not start, and its operator can see why (`lockkeeper status`)";

/// Why a start failed, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The program cannot be run.
    #[error("{0}")]
    NoCommand(String),
    /// The configuration lacks something that only this server needs.
    #[error("{0}")]
    Misconfigured(&'static str),
    /// The server and the gateway have no protocol version in common (`translation` 6.1).
    #[error("{reason}")]
    Incompatible {
        /// Offered and received versions, and what to do.
        reason: String,
        /// The versions that the server listed.
        supported: Vec<String>,
    },
    /// The server belongs to another era than the configured one (`translation` 2.7).
    #[error("{0}: set `era = \"auto\"`, or leave it out")]
    OtherEra(String),
    /// The server asks to be reached over another transport (`translation` 6.8).
    #[error("the server wants to be reached at {0}")]
    Upgrade(TransportOffer),
    /// The gateway does not follow the server to another endpoint.
    #[error("upgrade refused: the server wants to be reached at {offer}, {why}")]
    UpgradeRefused {
        /// Endpoint and transport that the server named.
        offer: TransportOffer,
        /// Why the gateway does not follow, as the end of the sentence.
        why: &'static str,
    },
    /// The server cannot be reached, or the connection broke during the handshake.
    #[error("{0}")]
    Unreachable(String),
    /// The server rejected the handshake.
    #[error("{0}")]
    Refused(String),
    /// The server rejected the credentials, and only the user can get new ones.
    #[error("{0}")]
    LoginRequired(String),
    /// The answer does not fit the handshake (`translation` 6.3).
    #[error("the server answered `initialize` wrongly: {0}")]
    Malformed(String),
    /// The start failed, perhaps because the server printed text on its standard output.
    #[error("it prints text on its standard output, where only messages belong; {0}")]
    PrintsText(Box<Self>),
    /// The last start failed. The next one is due in `retry_in`; at zero, it is running.
    #[error("{error}; {}", next_try(*.retry_in))]
    Postponed {
        /// Why the last start failed.
        error: Box<Self>,
        /// Time until the next start.
        retry_in: Duration,
    },
    /// The handshake took longer than this.
    #[error("the server did not complete its handshake within {} s; raise `start_timeout` if it needs longer", .0.as_secs())]
    TimedOut(Duration),
    /// The server runs at another replica (`home = "one"`).
    #[error("it runs at another replica of this gateway; try again")]
    Elsewhere,
    /// The gateway is stopping, or has another configuration of this server now.
    #[error("its configuration has changed, or the gateway is stopping; try again")]
    Stopping,
}

/// Why a call could not begin.
pub(crate) enum DispatchError {
    /// No connection can serve the call.
    Unavailable(ErrorObject),
    /// The server turned out to be of the other era.
    EraChanged,
}

impl StartError {
    /// Adds that the server printed text (`has_stray`), to an error that this may explain.
    #[must_use]
    pub(crate) fn printing_text(self, has_stray: bool) -> Self {
        match self {
            Self::TimedOut(_) | Self::Unreachable(_) if has_stray => Self::PrintsText(Box::new(self)),
            other => other,
        }
    }

    /// Adds the time until the next start.
    #[must_use]
    pub(crate) fn postponed(self, retry_in: Duration) -> Self {
        Self::Postponed { error: Box::new(self), retry_in }
    }

    /// True if an early retry cannot help.
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::Postponed { error, .. } | Self::PrintsText(error) => error.is_lasting(),
            Self::NoCommand(_)
            | Self::Misconfigured(_)
            | Self::Incompatible { .. }
            | Self::OtherEra(_)
            | Self::UpgradeRefused { .. }
            | Self::LoginRequired(_) => true,
            _ => false,
        }
    }

    /// True if only a login by the user helps.
    fn requires_login(&self) -> bool {
        match self {
            Self::Postponed { error, .. } | Self::PrintsText(error) => error.requires_login(),
            Self::LoginRequired(_) => true,
            _ => false,
        }
    }

    /// The error of a call to `backend`, with the whole reason.
    pub fn of_call(&self, backend: &BackendId) -> ErrorObject {
        self.unavailable(backend, &self.to_string())
    }

    /// The same for a caller who does not administer the gateway, and learns no more than on its pages: a reason that
    /// may name files and hosts, or quote the server, is left to the operator.
    pub fn of_users_call(&self, backend: &BackendId) -> ErrorObject {
        self.unavailable(backend, &self.public_reason())
    }

    fn public_reason(&self) -> String {
        match self {
            Self::Postponed { error, retry_in } => format!("{}; {}", error.public_reason(), next_try(*retry_in)),
            Self::NoCommand(_)
            | Self::Misconfigured(_)
            | Self::Upgrade(_)
            | Self::UpgradeRefused { .. }
            | Self::Unreachable(_)
            | Self::Refused(_)
            | Self::Malformed(_)
            | Self::PrintsText(_) => NOT_STARTED.to_owned(),
            Self::Incompatible { .. }
            | Self::OtherEra(_)
            | Self::LoginRequired(_)
            | Self::TimedOut(_)
            | Self::Elsewhere
            | Self::Stopping => self.to_string(),
        }
    }

    fn unavailable(&self, backend: &BackendId, reason: &str) -> ErrorObject {
        let retry = match self {
            _ if self.requires_login() => Retry::AfterLogin,
            _ if self.is_lasting() => Retry::Useless,
            Self::Elsewhere => Retry::Elsewhere,
            _ => Retry::Possible,
        };
        let supported = self.supported();
        let unavailable = Unavailable { backend, reason, retry, supported };
        ErrorObject::unavailable(&format!("Server `{backend}` is not available: {reason}"), &unavailable)
    }

    /// Versions that the server listed; empty unless the gateway knows none of them.
    fn supported(&self) -> &[String] {
        match self {
            Self::Incompatible { supported, .. } => supported,
            Self::Postponed { error, .. } | Self::PrintsText(error) => error.supported(),
            _ => &[],
        }
    }
}

/// The time of the next start, for people; a fraction of a second counts as a whole one.
fn next_try(retry_in: Duration) -> String {
    match retry_in.as_secs() + u64::from(retry_in.subsec_nanos() > 0) {
        0 => "it is being tried again".to_owned(),
        seconds => format!("next try in {seconds} s"),
    }
}

/// The error of a subscription above `MAX_SUBSCRIPTIONS`.
pub(crate) fn too_many_subscriptions() -> ErrorObject {
    ErrorObject::invalid_params("too many resources are subscribed to at this server")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_learns_when_the_next_try_is_and_no_file_or_host() {
        let backend = BackendId::parse("files").unwrap();
        let reason = "the file /etc/secret of db.internal was not found".to_owned();
        let error = StartError::NoCommand(reason.clone()).postponed(Duration::from_secs(5));
        assert_eq!(
            error.of_users_call(&backend).message(),
            "Server `files` is not available: it does not start, and its operator can see why (`lockkeeper status`); \
             next try in 5 s"
        );
        assert!(!String::from_utf8_lossy(error.of_users_call(&backend).json()).contains("secret"));
        assert!(error.of_call(&backend).message().contains(&reason));
        let login = StartError::LoginRequired("log in at the server".to_owned());
        assert_eq!(
            login.of_users_call(&backend).message(),
            login.of_call(&backend).message(),
            "only the user can do that"
        );
    }
}
