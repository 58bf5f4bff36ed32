//! Headers, log line and metric of every response, and headers of pages (`OA-26`, `OA-27`).

use std::sync::Arc;

use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use metrics::Counter;
use url::Url;

use super::refusal_budget::RefusalBudget;
use crate::{
    model::{ClientIp, CorrelationId, OwnedElsewhere, RefusalCode, RefusalReason, RequestPlace},
    support::{Random, printable},
};

/// Content security policy of pages. Without `form-action` (`OA-28`): Chromium and Safari apply it to the whole chain
/// of redirects after a form, so the redirect to the client would silently fail.
const CONTENT_SECURITY_POLICY: &str =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'";

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The classes of status codes, from 100 on.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Response extension that marks the answer to a probe. Such an answer describes the gateway's health, so an error in
/// it is not an error of the gateway.
#[derive(Debug, Clone, Copy)]
pub struct Probed;

/// The parts that all responses share: headers, counters, and the budget for log lines.
pub(super) struct Answers {
    transport_security: Option<HeaderValue>,
    /// Number of responses, by class of status.
    counters: [Counter; CLASSES.len()],
    refusals: RefusalBudget,
    random: Arc<dyn Random>,
}

// === impl Answers ===

impl Answers {
    /// For a gateway at `public_url`. Only an https URL gets `Strict-Transport-Security`.
    pub(super) fn new(public_url: &Url, random: Arc<dyn Random>) -> Self {
        let https = public_url.scheme() == "https";
        Self {
            transport_security: https.then(|| HeaderValue::from_static("max-age=31536000")),
            counters: CLASSES.map(|class| metrics::counter!("lockkeeper_http_requests_total", "class" => class)),
            refusals: RefusalBudget::new(),
            random,
        }
    }

    /// Logs and counts a response: server errors as errors, others at lower levels, and refusals within a budget.
    pub(super) fn log(&self, answer: &Response, client: ClientIp) {
        let status = answer.status();
        let code = status.as_u16();
        if let Some(counter) = self.counters.get(usize::from(code / 100).saturating_sub(1)) {
            counter.increment(1);
        }
        if answer.extensions().get::<Probed>().is_some() {
            tracing::debug!(status = code, "a probe was answered");
        } else if status.is_server_error() {
            tracing::error!(status = code, "the request failed");
        } else if goes_back(answer) {
            tracing::debug!("the request goes back to the replica that carried it");
        } else if status.is_client_error() {
            if let Some(count) = self.refusals.summary() {
                tracing::info!(count, "further requests were refused");
            }
            if self.refusals.take(client) {
                self.log_refusal(code, answer.extensions().get());
            }
        } else {
            tracing::debug!(status = code, "the request was answered");
        }
    }

    /// Writes the log line of a refusal, with a code unique to it, next to the request id.
    fn log_refusal(&self, status: u16, reason: Option<&RefusalReason>) {
        let refusal = reason.and_then(|reason| reason.code).unwrap_or_else(|| RefusalCode::mint(&*self.random));
        if let Some(RefusalReason { reason, .. }) = reason {
            tracing::info!(status, %refusal, reason = printable(reason), "the request was refused");
        } else {
            tracing::info!(status, %refusal, "the request was refused");
        }
    }

    /// Adds headers that the response has not set.
    pub(super) fn add_headers(&self, answer: &mut Response, id: CorrelationId) {
        let is_page = answer.headers().get(header::CONTENT_TYPE).is_some_and(is_html);
        let leads_on = answer.status().is_redirection();
        let headers = answer.headers_mut();
        if let Ok(id) = HeaderValue::from_bytes(&id.digits()) {
            headers.insert(REQUEST_ID, id);
        }
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if let Some(value) = &self.transport_security {
            headers.insert(header::STRICT_TRANSPORT_SECURITY, value.clone());
        }
        if is_page {
            default(headers, header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY);
            default(headers, header::X_FRAME_OPTIONS, "DENY");
        }
        if is_page || leads_on {
            default(headers, header::REFERRER_POLICY, "no-referrer");
            default(headers, header::CACHE_CONTROL, "no-store");
            default(headers, header::PRAGMA, "no-cache");
        }
    }
}

/// True if the replica that carried the request should answer it instead, because this one lacks what it names.
fn goes_back(answer: &Response) -> bool {
    let extensions = answer.extensions();
    extensions.get() == Some(&RequestPlace::Carried) || extensions.get::<OwnedElsewhere>().is_some()
}

fn is_html(kind: &HeaderValue) -> bool {
    kind.as_bytes().starts_with(b"text/html")
}

fn default(headers: &mut HeaderMap, name: HeaderName, value: &'static str) {
    headers.entry(name).or_insert(HeaderValue::from_static(value));
}
