//! What went wrong, for people. Knows nothing of what led to it and of how it is shown.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};

use super::session;
use crate::oauth::{self, Refusal, Unusable};

/// What went wrong, for people: what happened, why, and what to do.
#[derive(Debug, Clone)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    /// The code for machines.
    pub(super) error: &'static str,
    pub(super) title: &'static str,
    pub(super) text: String,
    pub(super) advice: Vec<&'static str>,
}

// === impl Problem ===

impl Problem {
    /// A form that was not shown to this browser, was used already, or was sent by another site.
    pub(super) fn foreign_form() -> Self {
        Self {
            status: StatusCode::FORBIDDEN,
            error: "access_denied",
            title: "This form cannot be used",
            text: "It was used already, was shown in another browser or session, or was sent by another site. \
                   Nothing was changed."
                .to_owned(),
            advice: vec![
                "Go back to the app that you want to connect, and start the login there again.",
                "If this happens every time, allow cookies for this site: they tell the gateway that it is still you.",
            ],
        }
    }

    /// An authorization request that is no longer there.
    pub(super) fn lapsed() -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            error: "invalid_request",
            title: "This login has lapsed",
            text: "A request to connect an app waits ten minutes for an answer and can be answered once. This one has \
                   lapsed or was answered already, or it was begun in another browser."
                .to_owned(),
            advice: vec!["Go back to the app that you want to connect, and start the login there again."],
        }
    }

    /// The key of the login has ended (`OA-128`).
    pub(super) fn logged_out() -> Self {
        Refusal::logged_out().into()
    }

    /// No page at this address.
    pub(super) fn not_found() -> Self {
        Self::of_status(StatusCode::NOT_FOUND)
    }

    /// A fault of the gateway; the cause is in the log alone.
    pub(super) fn internal() -> Self {
        Self::of_status(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// What the router itself refuses.
    pub(super) fn of_status(status: StatusCode) -> Self {
        let (error, title, text, advice) = match status.as_u16() {
            404 => (
                "not_found",
                "There is no such page",
                "Nothing is at this address.",
                "MCP clients use the address that the start page shows.",
            ),
            405 => (
                "method_not_allowed",
                "This address is used in another way",
                "It does not answer this kind of request.",
                "Open the page that leads here and use its button.",
            ),
            413 => (
                "payload_too_large",
                "That was too much",
                "More was sent than a form of this page can hold.",
                "Go back and try again.",
            ),
            503 => (
                "temporarily_unavailable",
                "The gateway is busy",
                "It cannot do this at the moment.",
                "Wait a few seconds and try again.",
            ),
            500..=599 => (
                "server_error",
                "Something went wrong here",
                "The gateway failed at this request. Nothing that you did caused it.",
                "Try again. If it stays, tell the operator the request id below: the log has the reason under it.",
            ),
            _ => (
                "invalid_request",
                "This request cannot be used",
                "It is not what this page sends.",
                "Go back and try again.",
            ),
        };
        Self { status, error, title, text: text.to_owned(), advice: vec![advice] }
    }
}

impl IntoResponse for Problem {
    /// An empty answer that `rescue` dresses, knowing what the browser asked for.
    fn into_response(self) -> Response {
        let mut answer = self.status.into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("2"));
        }
        answer.extensions_mut().insert(self);
        answer
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST);
        if status.is_server_error() {
            return Self::of_status(status);
        }
        let (title, advice) = match refusal.error {
            "invalid_client" => (
                "This app is not known here",
                vec![
                    "Claude Code: /mcp, then clear the authentication. VS Code: “Authentication: Remove Dynamic \
                     Authentication Providers”. mcp-remote: delete the folder ~/.mcp-auth.",
                ],
            ),
            _ => (
                "The app asked in a way that cannot be answered",
                vec![
                    "Start the login in the app again.",
                    "If this stays, tell the makers of the app what is written here.",
                ],
            ),
        };
        Self { status, error: refusal.error, title, text: refusal.description, advice }
    }
}

impl From<Unusable> for Problem {
    fn from(unusable: Unusable) -> Self {
        match unusable {
            Unusable::Foreign => Self::foreign_form(),
            Unusable::Expired => Self::lapsed(),
            Unusable::Refused(refusal) => refusal.into(),
        }
    }
}

impl From<oauth::Error> for Problem {
    fn from(error: oauth::Error) -> Self {
        tracing::error!(%error, "a page could not be made");
        match error {
            oauth::Error::Storage(error) if error.is_busy() => Self::of_status(StatusCode::SERVICE_UNAVAILABLE),
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
