//! Errors of starts and of dispatch. The texts are shown to people: in the status, in logs, and in errors of calls.

use std::time::Duration;

use super::start::upgrade::TransportOffer;
use crate::{
    mcp::{
        ErrorObject,
        error::{Retry, Unavailable},
    },
    model::BackendId,
};

/// Failure of a start, and its remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The program cannot be run.
    #[error("{0}")]
    NoCommand(String),
    /// The configuration lacks something that only this server needs.
    #[error("{0}")]
    Misconfigured(&'static str),
    /// No common protocol version (`translation` 6.1).
    #[error("{reason}")]
    Incompatible {
        /// The offered and the received versions, and the remedy.
        reason: String,
        /// The versions that the server listed.
        supported: Vec<String>,
    },
    /// The server reports the other era (`translation` 2.7).
    #[error("{0}: set `era = \"auto\"`, or leave it out")]
    OtherEra(String),
    /// The server wants to be reached over another transport (`translation` 6.8).
    #[error("the server wants to be reached at {0}")]
    Upgrade(TransportOffer),
    /// That is not followed.
    #[error("upgrade refused: the server wants to be reached at {offer}, {why}")]
    UpgradeRefused {
        /// The endpoint and the transport.
        offer: TransportOffer,
        /// The reason.
        why: &'static str,
    },
    /// The server cannot be reached, or the connection broke during the handshake.
    #[error("{0}")]
    Unreachable(String),
    /// The server rejected the handshake.
    #[error("{0}")]
    Refused(String),
    /// The server rejected the credentials, and only the user can get others.
    #[error("{0}")]
    LoginRequired(String),
    /// The answer is no handshake (`translation` 6.3).
    #[error("the server answered `initialize` wrongly: {0}")]
    Malformed(String),
    /// The start failed, and the server printed text on its standard output, which may be why.
    #[error("it prints text on its standard output, where only messages belong; {0}")]
    PrintsText(Box<Self>),
    /// The last start failed, and the next one is due in this time; zero: it runs.
    #[error("{error}; {}", next_try(*.retry_in))]
    Postponed {
        /// The failure.
        error: Box<Self>,
        /// Time until the next start.
        retry_in: Duration,
    },
    /// The handshake timed out.
    #[error("the server did not complete its handshake within {} s; raise `start_timeout` if it needs longer", .0.as_secs())]
    TimedOut(Duration),
    /// It runs at another replica (`home = "one"`).
    #[error("it runs at another replica of this gateway; try again")]
    Elsewhere,
    /// The gateway is stopping, or runs with another configuration of this server.
    #[error("its configuration has changed, or the gateway is stopping; try again")]
    Stopping,
}

/// Failure to begin a call.
pub(crate) enum DispatchError {
    /// No connection can serve it.
    Unavailable(ErrorObject),
    /// The server was just found to be of the other era.
    EraChanged,
}

impl StartError {
    /// This failure of a server that printed text (`has_stray`) before it ended or fell silent.
    #[must_use]
    pub(crate) fn printing_text(self, has_stray: bool) -> Self {
        match self {
            Self::TimedOut(_) | Self::Unreachable(_) if has_stray => Self::PrintsText(Box::new(self)),
            other => other,
        }
    }

    /// This failure, with the time until the next start.
    #[must_use]
    pub(crate) fn postponed(self, retry_in: Duration) -> Self {
        Self::Postponed { error: Box::new(self), retry_in }
    }

    /// True if an early retry is useless.
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

    /// True if only the user can help, by a login.
    fn requires_login(&self) -> bool {
        match self {
            Self::Postponed { error, .. } | Self::PrintsText(error) => error.requires_login(),
            Self::LoginRequired(_) => true,
            _ => false,
        }
    }

    /// The error of a call to this backend.
    pub fn of_call(&self, backend: &BackendId) -> ErrorObject {
        let reason = self.to_string();
        let retry = match self {
            _ if self.requires_login() => Retry::AfterLogin,
            _ if self.is_lasting() => Retry::Useless,
            Self::Elsewhere => Retry::Elsewhere,
            _ => Retry::Possible,
        };
        let supported = self.supported();
        let unavailable = Unavailable { backend, reason: &reason, retry, supported };
        ErrorObject::unavailable(&format!("Server `{backend}` is not available: {reason}"), &unavailable)
    }

    /// The versions that the server listed, if none of them is known here.
    fn supported(&self) -> &[String] {
        match self {
            Self::Incompatible { supported, .. } => supported,
            Self::Postponed { error, .. } | Self::PrintsText(error) => error.supported(),
            _ => &[],
        }
    }
}

/// The time of the next start, for people; a part of a second counts as one.
fn next_try(retry_in: Duration) -> String {
    match retry_in.as_secs() + u64::from(retry_in.subsec_nanos() > 0) {
        0 => "it is being tried again".to_owned(),
        seconds => format!("next try in {seconds} s"),
    }
}

/// The error of a subscription above the limit.
pub(crate) fn too_many_subscriptions() -> ErrorObject {
    ErrorObject::invalid_params("too many resources are subscribed to at this server")
}
