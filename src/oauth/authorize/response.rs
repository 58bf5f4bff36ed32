//! Responses to an authorization request: a redirect to the client, or a page for the person.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    audit::{Audit, RefusalEvent},
    oauth::{clients::client_lookup::ClientRefusal, error::OAuthError},
};

/// A redirect to the client. `Debug` hides the query, which may hold a code.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redirect {
    /// The whole URI. Send it with 303 and `no-store`.
    pub location: String,
    /// Automatic redirect or link.
    pub trust: Trust,
}

/// Permission to redirect without a click (`OA-75`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trust {
    Automatic,
    /// Show a page with the reason and a link to the location.
    ShowLink {
        /// Host shown in the link.
        host: String,
        reason: String,
    },
}

/// Error shown on a local page (`OA-63`, `OA-76`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizationError {
    /// The code of RFC 6749, such as `invalid_request`, `invalid_client`, `server_error`.
    pub error: &'static str,
    /// Reason and advice.
    pub description: String,
    /// The status of the page: 400, 403, 429, 500, 502 (this gateway cannot read the client's document) or 503.
    pub status: u16,
    /// With 429: time until the next request is possible.
    pub retry_after: Option<Duration>,
}

// === impl AuthorizationError ===

impl AuthorizationError {
    pub(super) fn request(error: &'static str, description: impl Into<String>) -> Self {
        Self { error, description: description.into(), status: 400, retry_after: None }
    }

    pub(super) fn internal(error: &OAuthError) -> Self {
        tracing::error!(%error, "an authorization request failed");
        if error.is_busy() {
            return Self::busy();
        }
        let description = "The gateway failed. Try again; if the error persists, tell the operator.".to_owned();
        Self { error: "server_error", description, status: 500, retry_after: None }
    }

    fn busy() -> Self {
        let description = "The gateway is busy. Try again in a moment.".to_owned();
        Self { error: "temporarily_unavailable", description, status: 503, retry_after: None }
    }

    /// Records the error with its reason and returns it.
    pub(super) fn logged(self, audit: &Audit) -> Self {
        audit.record(RefusalEvent::Request { error: self.error, reason: self.description.clone() });
        self
    }

    pub(super) fn gone() -> Self {
        let description = "This request was started in another browser or by another person, or you have logged out since. \
                           Start again from your MCP client.";
        Self { error: "invalid_request", description: description.to_owned(), status: 403, retry_after: None }
    }

    pub(super) fn lapsed() -> Self {
        Self::request("invalid_request", "This request has expired. Start again from your MCP client.")
    }

    /// The client's description changed while the page was open (`OA-52`).
    pub(super) fn changed_client() -> Self {
        Self::request(
            "invalid_client",
            "The app has changed its description since this request began. Start again from your MCP client.",
        )
    }

    /// The API key of the browser session was revoked or has expired (`OA-128`).
    pub fn logged_out() -> Self {
        let description =
            "Your session here has ended, or its API key or account is revoked or expired. Log in again.".to_owned();
        Self { error: "access_denied", description, status: 403, retry_after: None }
    }
}

impl From<ClientRefusal> for AuthorizationError {
    fn from(refusal: ClientRefusal) -> Self {
        match refusal {
            ClientRefusal::Failed(error) => Self::internal(&error),
            ClientRefusal::NoEgress { .. } => {
                let description = refusal.to_string();
                Self { error: "temporarily_unavailable", description, status: 502, retry_after: None }
            }
            ClientRefusal::Limited(wait) | ClientRefusal::HostLimited(_, wait) => {
                let description = refusal.to_string();
                Self { error: "temporarily_unavailable", description, status: 429, retry_after: Some(wait) }
            }
            _ => Self::request("invalid_client", refusal.to_string()),
        }
    }
}

impl fmt::Debug for Redirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = self.location.split('?').next().unwrap_or_default();
        f.debug_struct("Redirect").field("target", &target).field("trust", &self.trust).finish_non_exhaustive()
    }
}
