//! The answer to a request that is not looked at: JSON, since clients and not people cause it.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

/// Why a request is refused before it reaches a route.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    body: String,
    retry_after: Option<Duration>,
}

impl Refusal {
    /// A refusal in the form that OAuth errors have too (RFC 6749 5.2).
    pub fn new(status: StatusCode, error: &str, description: impl AsRef<str>) -> Self {
        let body = json!({ "error": error, "error_description": description.as_ref() }).to_string();
        Self { status, body, retry_after: None }
    }

    /// Says when the client may try again (RFC 9110 10.2.3), in whole seconds.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// A refusal in the form that MCP clients show (JSON-RPC 2.0, 5.1); it answers no particular request.
    pub fn json_rpc(status: StatusCode, message: impl AsRef<str>) -> Self {
        let error = json!({ "code": -32000, "message": message.as_ref() });
        let body = json!({ "jsonrpc": "2.0", "id": null, "error": error }).to_string();
        Self { status, body, retry_after: None }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let headers = [kind, (header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
        let retry = self.retry_after.map(|wait| [(header::RETRY_AFTER, HeaderValue::from(wait.as_secs()))]);
        (self.status, headers, retry, self.body).into_response()
    }
}
