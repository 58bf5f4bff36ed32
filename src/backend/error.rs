//! Why a backend did not start. The texts are read by people: in the status, in logs, and in the errors of calls.

use std::time::Duration;

use crate::{
    mcp::{
        Era, ErrorObject,
        error::{Retry, Unavailable},
    },
    model::BackendId,
};

/// Why a backend did not start, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The program cannot be run.
    #[error("{0}")]
    NoCommand(String),
    /// The two have no protocol version in common (`translation` 6.1).
    #[error("{reason}")]
    Incompatible {
        /// What was offered and answered, and what to do.
        reason: String,
        /// The versions that the server named.
        supported: Vec<String>,
    },
    /// The server says that it is of the other era than it was taken for (`translation` 2.7).
    #[error("{0}: set `era = \"auto\"`, or leave it out")]
    OtherEra(String),
    /// The server cannot be reached, or the connection broke in the handshake.
    #[error("{0}")]
    Unreachable(String),
    /// The server turned the gateway away.
    #[error("{0}")]
    Refused(String),
    /// What it answered is no handshake (`translation` 6.3).
    #[error("the server answered `initialize` wrongly: {0}")]
    Malformed(String),
    /// The handshake was not done in time.
    #[error("the server did not complete its handshake within {} s; raise `start_timeout` if it needs longer", .0.as_secs())]
    TimedOut(Duration),
    /// The gateway is stopping.
    #[error("the gateway is stopping")]
    Stopping,
}

/// The reason why a call was not begun.
pub(crate) enum DispatchError {
    /// There is nothing that could serve it.
    Unavailable(ErrorObject),
    /// The server was found to be of this era in this moment.
    Turned(Era),
}

impl StartError {
    /// Whether trying again soon is of no use.
    pub const fn is_lasting(&self) -> bool {
        matches!(self, Self::NoCommand(_) | Self::Incompatible { .. } | Self::OtherEra(_))
    }

    /// The error of a call at this backend that it keeps from being made.
    pub fn of_call(&self, backend: &BackendId) -> ErrorObject {
        let reason = self.to_string();
        let retry = if self.is_lasting() { Retry::Useless } else { Retry::Possible };
        let supported = match self {
            Self::Incompatible { supported, .. } => supported.as_slice(),
            _ => &[],
        };
        let unavailable = Unavailable { backend, reason: &reason, retry, supported };
        ErrorObject::unavailable(&format!("Backend `{backend}` is not available: {reason}"), &unavailable)
    }
}

/// The error of a subscription that has no room.
pub(crate) fn too_many_subscriptions() -> ErrorObject {
    ErrorObject::invalid_params("too many resources are subscribed to at this backend")
}
