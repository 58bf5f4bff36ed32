//! Answers to an authorization request: a redirect to the client, or a page for the person. Knows nothing of requests.

use std::fmt;

use crate::oauth::error::Error;

/// A redirect to the client. `Debug` shows nothing of the query, which may hold a code.
#[derive(Clone, PartialEq, Eq)]
pub struct Redirect {
    /// The whole URI, to be sent with 303 and `no-store`.
    pub location: String,
    /// Whether the browser may be sent there without a click.
    pub trust: Trust,
}

/// Whether the browser may be sent somewhere without a click (`OA-75`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// It may: answer 303.
    Automatic,
    /// It may not: show a page that says what happened, with a link to the location.
    ShowLink {
        /// The host to name in the link.
        host: String,
        /// What happened, for people.
        reason: String,
    },
}

/// Why a request ends on a local page (`OA-63`, `OA-76`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The code of RFC 6749, such as `invalid_request`, `invalid_client`, `server_error`.
    pub error: &'static str,
    /// What happened and what to do.
    pub description: String,
    /// The status of the page: 400, 403, 500 or 503.
    pub status: u16,
}

// === impl Refusal ===

impl Refusal {
    pub(super) fn request(error: &'static str, description: impl Into<String>) -> Self {
        Self { error, description: description.into(), status: 400 }
    }

    pub(super) fn internal(error: &Error) -> Self {
        tracing::error!(%error, "an authorization request failed");
        if error.is_busy() {
            return Self::busy();
        }
        let description =
            "Something inside the gateway failed. Try again; if it goes on, tell the operator.".to_owned();
        Self { error: "server_error", description, status: 500 }
    }

    fn busy() -> Self {
        let description = "The gateway is busy. Try again in a moment.".to_owned();
        Self { error: "temporarily_unavailable", description, status: 503 }
    }

    /// The same refusal, with a line in the log that has its reason.
    pub(super) fn logged(self) -> Self {
        tracing::info!(target: "audit", error = self.error, reason = self.description, "OAuth request refused");
        self
    }

    pub(super) fn gone() -> Self {
        let description = "This request was decided already, or it was begun in another browser. Start again from your \
                           MCP client.";
        Self { error: "invalid_request", description: description.to_owned(), status: 403 }
    }

    pub(super) fn lapsed() -> Self {
        Self::request("invalid_request", "This request has lapsed. Start again from your MCP client.")
    }

    /// The API key of the browser session was revoked or has expired (`OA-128`).
    pub fn logged_out() -> Self {
        let description = "The API key of this session has ended. Log in with another one.".to_owned();
        Self { error: "access_denied", description, status: 403 }
    }
}

impl fmt::Debug for Redirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = self.location.split('?').next().unwrap_or_default();
        f.debug_struct("Redirect").field("target", &target).field("trust", &self.trust).finish_non_exhaustive()
    }
}
