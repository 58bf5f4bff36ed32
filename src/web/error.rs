//! Turns problems into pages, or into JSON for programs that ask for it (`OA-76`).

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
    pages::{self, Layout, PageResponse},
    problem::Problem,
    state::WebState,
    texts,
};
use crate::model::{CorrelationId, RefusalCode, RefusalReason};

/// Middleware: turns problems of handlers, and errors of the router, into responses.
pub(super) async fn rescue(
    extract::State(state): extract::State<Arc<WebState>>,
    request: Request,
    next: Next,
) -> Response {
    let preference = accept::preferred(request.headers());
    let id = request.extensions().get::<CorrelationId>().copied();
    let mut answer = next.run(request).await;
    let status = answer.status();
    let problem = match answer.extensions_mut().remove::<Problem>() {
        Some(problem) => problem,
        None if is_bare(status, answer.headers()) => Problem::of_status(status),
        None => return answer,
    };
    let code = RefusalCode::mint(&*state.random);
    let mut headers = answer.headers().clone();
    headers.remove(header::CONTENT_TYPE);
    headers.remove(header::CONTENT_LENGTH);
    let body = match preference {
        accept::ErrorFormat::Json => json(&problem, id, code),
        accept::ErrorFormat::Page => page(&problem, &state, id, code),
    };
    let (mut parts, body) = body.into_parts();
    let reason = format!("{}: {}", problem.error, problem.reason.as_deref().unwrap_or(&problem.text)).into();
    parts.extensions.insert(RefusalReason { reason, code: Some(code) });
    for (name, value) in &headers {
        parts.headers.append(name, value.clone());
    }
    Response::from_parts(parts, body)
}

/// True if the router or an extractor responded with an error without a page.
fn is_bare(status: StatusCode, headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let refused = status.is_client_error() || status.is_server_error();
    refused && kind.is_none_or(|kind| kind.starts_with(b"text/plain"))
}

fn json(problem: &Problem, id: Option<CorrelationId>, code: RefusalCode) -> Response {
    let mut body = json!({ "error": problem.error, "error_description": problem.text, "refusal": code.to_string() });
    if let Some(id) = id {
        body["request_id"] = json!(id.to_string());
    }
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let store = (header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    (problem.status, [kind, store], body.to_string()).into_response()
}

fn page(problem: &Problem, state: &WebState, id: Option<CorrelationId>, code: RefusalCode) -> Response {
    let page = pages::ProblemPage {
        layout: Layout::new(&state.settings),
        title: problem.title,
        text: &texts::plain(&problem.text),
        advice: problem.advice.iter().map(|advice| texts::plain(advice)).collect(),
        error: problem.error,
        refusal: code.to_string(),
        request: id.map(|id| id.to_string()),
    };
    PageResponse(problem.status, page).into_response()
}
