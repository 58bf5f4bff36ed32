//! The end of what serves calls, and why it came. Knows nothing of what it is.

use std::sync::OnceLock;

use tokio_util::sync::CancellationToken;

use crate::{
    mcp::{
        ErrorObject,
        error::{Retry, Unavailable},
    },
    model::BackendId,
};

/// The end of a session or a connection: it comes once, for one reason.
pub(crate) struct End {
    token: CancellationToken,
    reason: OnceLock<String>,
}

impl End {
    /// It has not come. It comes with `all` at the latest.
    pub(crate) fn within(all: &CancellationToken) -> Self {
        Self { token: all.child_token(), reason: OnceLock::new() }
    }

    /// Cancelled when it comes.
    pub(crate) const fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// It comes now; the first reason stays.
    pub(crate) fn comes(&self, reason: &str) {
        let _ = self.reason.set(reason.to_owned());
        self.token.cancel();
    }

    /// Whether it has come.
    pub(crate) fn has_come(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits for it and tells the reason.
    pub(crate) async fn over(&self) -> String {
        self.token.cancelled().await;
        self.reason()
    }

    /// Why it came.
    pub(crate) fn reason(&self) -> String {
        self.reason.get().cloned().unwrap_or_else(|| "the gateway is stopping".to_owned())
    }

    /// The error of a call to this backend that it left without an answer.
    pub(crate) fn error(&self, backend: &BackendId) -> ErrorObject {
        let reason = self.reason();
        let message = format!("The connection to backend `{backend}` was lost: {reason}");
        let lost = Unavailable { backend, reason: &reason, retry: Retry::Possible, supported: &[] };
        ErrorObject::unavailable(&message, &lost)
    }
}
