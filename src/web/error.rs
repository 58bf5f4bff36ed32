//! The one place where a problem becomes a page, or JSON for a machine that asks for it (`OA-76`). Knows nothing of what
//! led to it.

use std::sync::Arc;

use axum::{
    extract::{self, Request},
    http::HeaderMap,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

use super::{
    accept,
    pages::{self, Frame, Page},
    problem::Problem,
    state::State,
};
use crate::model::RequestId;

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
        accept::Form::Json => json(&problem, id),
        accept::Form::Page => page(&problem, &state, id),
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

fn json(problem: &Problem, id: Option<RequestId>) -> Response {
    let mut body = json!({ "error": problem.error, "error_description": problem.text });
    if let Some(id) = id {
        body["request_id"] = json!(id.to_string());
    }
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let store = (header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    (problem.status, [kind, store], body.to_string()).into_response()
}

fn page(problem: &Problem, state: &State, id: Option<RequestId>) -> Response {
    let page = pages::Problem {
        frame: Frame::new(&state.settings),
        title: problem.title,
        text: &problem.text,
        advice: &problem.advice,
        error: problem.error,
        request: id.map(|id| id.to_string()),
    };
    Page(problem.status, page).into_response()
}
