//! Errors for people.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};

use super::session;
use crate::{
    oauth::{self, AuthorizationError, InvitationRefusal, UnsealError},
    storage::StorageError,
    upstream::LoginError,
};

/// An error for people: what happened, why, and what to do.
#[derive(Debug, Clone)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    /// Error code for programs.
    pub(super) error: &'static str,
    pub(super) title: &'static str,
    pub(super) text: String,
    pub(super) advice: Vec<&'static str>,
    /// `Retry-After`, if waiting helps.
    pub(super) retry_after: Option<Duration>,
    /// The reason for the log, if it says more than the page.
    pub(super) reason: Option<String>,
}

// === impl Problem ===

impl Problem {
    /// A form that was shown in another browser, or too long ago, or that another site sent.
    pub(super) fn foreign_form() -> Self {
        Self {
            status: StatusCode::FORBIDDEN,
            error: "access_denied",
            title: "This form cannot be used",
            text:
                "It was shown in another browser, or more than ten minutes ago in another session, or it was sent by \
                   another site. Sending it has changed nothing."
                    .to_owned(),
            advice: vec![
                "Go back to the app that you want to connect, and start the login there again.",
                "If this happens every time, allow cookies for this site: the gateway recognizes your browser by them.",
            ],
            retry_after: None,
            reason: None,
        }
    }

    /// Adds a reason for the log.
    #[must_use]
    pub(super) fn because(self, reason: &str) -> Self {
        Self { reason: Some(reason.to_owned()), ..self }
    }

    /// An invitation link that is unknown, used, expired or revoked. The page is the same for all of these.
    pub(super) fn unusable_link() -> Self {
        Self {
            status: StatusCode::FORBIDDEN,
            error: "access_denied",
            title: "This link cannot be used",
            text: "An invitation link works once, and for a few days at most. Somebody has used this one, or it is no \
                   longer valid, or a part of it is missing."
                .to_owned(),
            advice: vec![
                "Check that you opened the whole link.",
                "If you have accepted the invitation, log in with your API key.",
                "Otherwise ask the person who invited you for a new link.",
            ],
            retry_after: None,
            reason: None,
        }
    }

    /// A request that belongs to someone other than the logged-in `user`.
    pub(super) fn of_another_person(user: &str) -> Self {
        Self {
            status: StatusCode::FORBIDDEN,
            error: "access_denied",
            title: "Somebody else is logged in now",
            text: format!(
                "This page belongs to somebody who was logged in here before. Now {user} is logged in, so this page \
                 can no longer approve anything."
            ),
            advice: vec![
                "To connect the app as the person who is logged in now, start the login in the app again.",
                "To connect it as the previous person, log out on the account page first.",
            ],
            retry_after: None,
            reason: None,
        }
    }

    /// An authorization request that has expired, or was started in another browser.
    pub(super) fn lapsed() -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            error: "invalid_request",
            title: "This login request has expired",
            text:
                "A request to connect an app is valid for a limited time. This one has expired, or it was started in \
                   another browser or session."
                    .to_owned(),
            advice: vec!["Go back to the app that you want to connect, and start the login there again."],
            retry_after: None,
            reason: None,
        }
    }

    /// A login whose API key was revoked or has expired (`OA-128`), or no login.
    pub(super) fn logged_out() -> Self {
        let AuthorizationError { error, description, .. } = AuthorizationError::logged_out();
        Self {
            status: StatusCode::FORBIDDEN,
            error,
            title: "You are logged out",
            text: description,
            advice: vec!["Go back to the app that you want to connect, and start the login there again."],
            retry_after: None,
            reason: None,
        }
    }

    /// The database is busy.
    pub(super) fn busy() -> Self {
        Self::of_status(StatusCode::SERVICE_UNAVAILABLE)
    }

    /// A login at a server that failed.
    pub(super) fn unconnectable(error: &LoginError) -> Self {
        let (status, code, advice) = match error {
            LoginError::Untrusted(_) => {
                (StatusCode::BAD_REQUEST, "invalid_request", "Tell the operator of this gateway.")
            }
            LoginError::NoRegistration { .. } => (
                StatusCode::BAD_GATEWAY,
                "server_error",
                "The operator of this gateway must register it there, and set `client_id` for this server.",
            ),
            _ => (
                StatusCode::BAD_GATEWAY,
                "temporarily_unavailable",
                "Try again later. If the error persists, tell the operator of this gateway.",
            ),
        };
        let text = match error {
            LoginError::NoRegistration { issuer, redirect_uri } => format!(
                "The authorization server {issuer} accepts only clients that were registered there by hand, with the \
                 redirect URI {redirect_uri}."
            ),
            error => format!("The login at the server did not succeed: {error}."),
        };
        let title = "The server cannot be connected";
        Self { status, error: code, title, text, advice: vec![advice], retry_after: None, reason: None }
    }

    /// There is no page at this address.
    pub(super) fn not_found() -> Self {
        Self::of_status(StatusCode::NOT_FOUND)
    }

    /// An internal error; only the log has the cause.
    pub(super) fn internal() -> Self {
        Self::of_status(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// A database operation that failed during a login.
    pub(super) fn from_storage(error: &StorageError) -> Self {
        tracing::error!(%error, "a login could not be stored");
        if error.is_busy() { Self::of_status(StatusCode::SERVICE_UNAVAILABLE) } else { Self::internal() }
    }

    /// The error for an HTTP status, such as one that the router or an extractor answered with.
    pub(super) fn of_status(status: StatusCode) -> Self {
        let (error, title, text, advice) = match status.as_u16() {
            404 => (
                "not_found",
                "Page not found",
                "There is no page at this address.",
                "MCP clients use the address that the start page shows.",
            ),
            405 => (
                "method_not_allowed",
                "Method not allowed",
                "This address does not accept this kind of request.",
                "Open the page that leads here and use its button.",
            ),
            413 => (
                "payload_too_large",
                "The form is too large",
                "The form has more data than this page accepts.",
                "Go back and try again.",
            ),
            503 => (
                "temporarily_unavailable",
                "The gateway is busy",
                "It cannot handle this request now.",
                "Wait a few seconds and try again.",
            ),
            500..=599 => (
                "server_error",
                "Something went wrong here",
                "The gateway could not handle this request. Nothing that you did caused it.",
                "Try again. If the error persists, give the operator the request id below: the log has the reason.",
            ),
            _ => (
                "invalid_request",
                "This request cannot be used",
                "The request does not have the form that this page sends.",
                "Go back and try again.",
            ),
        };
        let retry_after = (status == StatusCode::SERVICE_UNAVAILABLE).then_some(Duration::from_secs(2));
        Self { status, error, title, text: text.to_owned(), advice: vec![advice], retry_after, reason: None }
    }
}

impl IntoResponse for Problem {
    /// An empty response; `rescue` turns it into the format that the browser accepts.
    fn into_response(self) -> Response {
        let mut answer = self.status.into_response();
        if let Some(wait) = self.retry_after {
            // rounded up
            let seconds = wait.as_millis().div_ceil(1000).max(1);
            let seconds = HeaderValue::try_from(seconds.to_string());
            answer.headers_mut().extend(seconds.map(|seconds| (header::RETRY_AFTER, seconds)));
        }
        answer.extensions_mut().insert(self);
        answer
    }
}

const FORGET_IN_CLAUDE_CODE: &str = "Claude Code: claude mcp remove NAME, then add it again with claude mcp add.";
const FORGET_IN_VS_CODE: &str = "VS Code: “Authentication: Remove Dynamic Authentication Providers”.";

impl From<AuthorizationError> for Problem {
    fn from(refusal: AuthorizationError) -> Self {
        let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST);
        if status.is_server_error() && status != StatusCode::BAD_GATEWAY {
            return Self::of_status(status);
        }
        let (title, advice) = match refusal.error {
            _ if status == StatusCode::BAD_GATEWAY => (
                "The gateway cannot read the description of the app",
                vec![
                    "Start the login in the app again in five minutes: apps that can register will do so then.",
                    "If this page appears again, make the app forget its login first:",
                    FORGET_IN_CLAUDE_CODE,
                    FORGET_IN_VS_CODE,
                    "If that does not help, send this text to the operator of this gateway.",
                ],
            ),
            "temporarily_unavailable" => {
                ("Too many requests", vec!["Wait a minute, and start the login in the app again."])
            }
            "invalid_client" => (
                "Unknown app",
                vec![
                    FORGET_IN_CLAUDE_CODE,
                    FORGET_IN_VS_CODE,
                    "lockkeeper connect --logout, once.",
                    "mcp-remote: delete the folder ~/.mcp-auth.",
                ],
            ),
            "invalid_request_uri" => (
                "This login request has expired",
                vec!["Go back to the app that you want to connect, and start the login there again."],
            ),
            _ => (
                "The app sent an invalid request",
                vec![
                    "Start the login in the app again.",
                    "If the error persists, send this text to the developers of the app.",
                ],
            ),
        };
        let AuthorizationError { error, description: text, retry_after, .. } = refusal;
        Self { status, error, title, text, advice, retry_after, reason: None }
    }
}

impl From<UnsealError> for Problem {
    fn from(unusable: UnsealError) -> Self {
        match unusable {
            UnsealError::Foreign => Self::foreign_form(),
            UnsealError::Expired => Self::lapsed(),
            UnsealError::Refused(refusal) => refusal.into(),
        }
    }
}

impl From<InvitationRefusal> for Problem {
    fn from(refusal: InvitationRefusal) -> Self {
        match refusal {
            InvitationRefusal::Unusable { retry_after: None } => Self::unusable_link(),
            InvitationRefusal::Unusable { retry_after } => {
                Self { status: StatusCode::TOO_MANY_REQUESTS, retry_after, ..Self::unusable_link() }
            }
            InvitationRefusal::Unavailable(error) => error.into(),
        }
    }
}

impl From<oauth::OAuthError> for Problem {
    fn from(error: oauth::OAuthError) -> Self {
        tracing::error!(%error, "a page could not be created");
        match error {
            oauth::OAuthError::Storage(error) if error.is_busy() => Self::of_status(StatusCode::SERVICE_UNAVAILABLE),
            _ => Self::internal(),
        }
    }
}

impl From<tower_sessions::session::Error> for Problem {
    fn from(error: tower_sessions::session::Error) -> Self {
        tracing::error!(%error, "a browser session could not be read or written");
        if session::is_busy(&error) { Self::of_status(StatusCode::SERVICE_UNAVAILABLE) } else { Self::internal() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 6749 4.1.2.1: `temporarily_unavailable` is for what passes
    #[test]
    fn a_login_that_fails_until_the_operator_acts_is_not_called_temporary() {
        let by_hand = LoginError::NoRegistration {
            issuer: "https://as.example".to_owned(),
            redirect_uri: "https://mcp.example.com/cb".to_owned(),
        };
        for (error, status, code) in [
            (LoginError::Untrusted("it names another issuer".to_owned()), 400, "invalid_request"),
            (by_hand, 502, "server_error"),
            (LoginError::Unavailable("it answers 503".to_owned()), 502, "temporarily_unavailable"),
        ] {
            let problem = Problem::unconnectable(&error);
            let tries_again = problem.advice[0].contains("Try again later");
            assert_eq!((problem.status.as_u16(), problem.error), (status, code), "{error}");
            assert_eq!(tries_again, code == "temporarily_unavailable", "{error}");
        }
    }
}
