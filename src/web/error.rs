//! What people read when something goes wrong, and the one place where it becomes a page, or JSON for a machine that asks
//! for it (`OA-76`). Knows nothing of what led to it.

use std::sync::Arc;

use axum::{
    extract::{self, Request},
    http::HeaderMap,
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

use super::{
    State, accept,
    pages::{self, Page},
    session,
};
use crate::{
    model::RequestId,
    oauth::{self, Refusal, Unusable},
};

/// What went wrong, for people: what happened, why, and what to do.
#[derive(Debug, Clone)]
pub(super) struct Problem {
    status: StatusCode,
    /// The code for machines.
    error: &'static str,
    title: &'static str,
    text: String,
    advice: Vec<&'static str>,
}

/// Turns the problems of handlers, and what the router itself refuses, into answers.
pub(super) async fn rescue(
    extract::State(state): extract::State<Arc<State>>,
    request: Request,
    next: Next,
) -> Response {
    let preference = accept::preferred(request.headers());
    let id = request.extensions().get::<RequestId>().copied();
    let mut answer = next.run(request).await;
    let status = answer.status();
    let problem = match answer.extensions_mut().remove::<Problem>() {
        Some(problem) => problem,
        None if is_bare(status, answer.headers()) => Problem::of_status(status),
        None => return answer,
    };
    let mut headers = answer.headers().clone();
    headers.remove(header::CONTENT_TYPE);
    headers.remove(header::CONTENT_LENGTH);
    let body = match preference {
        accept::Form::Json => problem.json(id),
        accept::Form::Page => problem.page(&state, id),
    };
    let (mut parts, body) = body.into_parts();
    for (name, value) in &headers {
        parts.headers.append(name, value.clone());
    }
    Response::from_parts(parts, body)
}

/// Whether the router or an extractor refused by itself, without a page.
fn is_bare(status: StatusCode, headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let refused = status.is_client_error() || status.is_server_error();
    refused && kind.is_none_or(|kind| kind.starts_with(b"text/plain"))
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

    fn of_status(status: StatusCode) -> Self {
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

    fn json(&self, id: Option<RequestId>) -> Response {
        let mut body = json!({ "error": self.error, "error_description": self.text });
        if let Some(id) = id {
            body["request_id"] = json!(id.to_string());
        }
        let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let store = (header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        (self.status, [kind, store], body.to_string()).into_response()
    }

    fn page(&self, state: &State, id: Option<RequestId>) -> Response {
        let page = pages::Problem {
            frame: state.frame(),
            title: self.title,
            text: &self.text,
            advice: &self.advice,
            error: self.error,
            request: id.map(|id| id.to_string()),
        };
        Page(self.status, page).into_response()
    }
}

impl IntoResponse for Problem {
    /// An empty answer that [`rescue`] dresses, knowing what the browser asked for.
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
