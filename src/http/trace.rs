//! The log of requests. Knows a request by its method and path alone: a query may hold a key (`OA-123`) and never
//! reaches a span.

use axum::{extract::Request, response::Response};
use metrics::Counter;
use tracing::{
    Span,
    field::{Empty, display},
};

use crate::{
    model::{ClientIp, RequestId},
    support::late_fields::record_late,
};

/// The span in which a request is served.
pub fn span(request: &Request, id: RequestId, from: ClientIp) -> Span {
    let span = tracing::info_span!("request", method = Empty, path = Empty, request_id = Empty, client_ip = Empty);
    let (method, uri) = (request.method().clone(), request.uri().clone());
    record_late(&span, move || {
        vec![
            ("method", Box::new(display(method.clone()))),
            ("path", Box::new(uri.path().to_owned())),
            ("request_id", Box::new(display(id))),
            ("client_ip", Box::new(display(from.0))),
        ]
    });
    span
}

/// Counters of answers, by class of status.
pub struct Answers([Counter; CLASSES.len()]);

/// The classes of status codes, from 100 on.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

// === impl Answers ===

impl Answers {
    /// Registers the counters.
    pub fn register() -> Self {
        Self(CLASSES.map(|class| metrics::counter!("lockkeeper_http_requests_total", "class" => class)))
    }

    /// Logs and counts an answer: faults of the gateway as errors, the rest for those who look closely.
    pub fn add(&self, answer: &Response) {
        let status = answer.status();
        if let Some(counter) = self.0.get(usize::from(status.as_u16() / 100).saturating_sub(1)) {
            counter.increment(1);
        }
        let code = status.as_u16();
        if status.is_server_error() {
            tracing::error!(status = code, "the request failed");
        } else if status.is_client_error() {
            tracing::info!(status = code, "the request was refused");
        } else {
            tracing::debug!(status = code, "the request was answered");
        }
    }
}
