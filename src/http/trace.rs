//! The log of requests. Knows a request by its method and path alone: a query may hold a key (`OA-123`) and never
//! reaches a span.

use axum::{extract::Request, response::Response};
use tracing::Span;

use crate::model::{ClientIp, RequestId};

/// The span in which a request is served.
pub fn span(request: &Request, id: RequestId, from: ClientIp) -> Span {
    let (method, path) = (request.method(), request.uri().path());
    tracing::info_span!("request", %method, path, request_id = %id, client_ip = %from.0)
}

/// Logs and counts the answer: faults of the gateway as errors, the rest for those who look closely.
pub fn answered(answer: &Response) {
    let status = answer.status().as_u16();
    let class = match status {
        100..=199 => "1xx",
        200..=299 => "2xx",
        300..=399 => "3xx",
        400..=499 => "4xx",
        _ => "5xx",
    };
    metrics::counter!("lockkeeper_http_requests_total", "class" => class).increment(1);
    match class {
        "5xx" => tracing::error!(status, "the request failed"),
        "4xx" => tracing::info!(status, "the request was refused"),
        _ => tracing::debug!(status, "the request was answered"),
    }
}
