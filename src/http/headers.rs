//! Headers that every answer carries, and those that pages carry (`OA-26`, `OA-27`). Knows nothing of what is on a page.

use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use url::Url;

use crate::model::RequestId;

/// What pages may load and who may frame them. There is no `form-action` in it (`OA-28`): Chromium and Safari apply it
/// to the whole chain of redirects after a form was sent, so that the way back to the client would silently die.
const CONTENT_SECURITY_POLICY: &str =
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The headers that depend on the gateway alone.
#[derive(Debug)]
pub struct Common {
    transport_security: Option<HeaderValue>,
}

impl Common {
    /// The headers of a gateway at `public_url`: `Strict-Transport-Security` only where that is https.
    pub fn new(public_url: &Url) -> Self {
        let https = public_url.scheme() == "https";
        Self { transport_security: https.then(|| HeaderValue::from_static("max-age=31536000")) }
    }

    /// Adds to an answer what it has not set itself.
    pub fn dress(&self, answer: &mut Response, id: RequestId) {
        let is_page = answer.headers().get(header::CONTENT_TYPE).is_some_and(is_html);
        let leads_on = answer.status().is_redirection();
        let headers = answer.headers_mut();
        if let Ok(id) = HeaderValue::try_from(id.to_string()) {
            headers.insert("x-request-id", id);
        }
        default(headers, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
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

fn is_html(kind: &HeaderValue) -> bool {
    kind.as_bytes().starts_with(b"text/html")
}

fn default(headers: &mut HeaderMap, name: HeaderName, value: &'static str) {
    headers.entry(name).or_insert(HeaderValue::from_static(value));
}
