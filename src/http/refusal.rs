//! Early refusals. They are JSON, because programs cause them.

use std::time::Duration;

use axum::{
    Extension,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::json;

use crate::model::RefusalReason;

/// Versions whose errors have `"id": null` if they belong to no request; later ones omit `id` (2025-11-25 and later,
/// schema). These are the versions without `Feature::IdlessErrors` in `mcp`, which this module must not import.
const NULL_ID: [&str; 3] = ["2024-11-05", "2025-03-26", "2025-06-18"];

/// A request refused before it reaches a route.
#[derive(Debug)]
pub(super) struct EarlyRefusal {
    status: StatusCode,
    body: String,
    reason: String,
    retry_after: Option<Duration>,
}

impl EarlyRefusal {
    /// A refusal in the format of OAuth errors (RFC 6749 5.2).
    pub(super) fn new(status: StatusCode, error: &str, description: impl AsRef<str>) -> Self {
        let body = json!({ "error": error, "error_description": description.as_ref() }).to_string();
        Self { status, body, reason: description.as_ref().to_owned(), retry_after: None }
    }

    /// Adds `Retry-After` (RFC 9110 10.2.3), in whole seconds.
    #[must_use]
    pub(super) fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// A refusal in the format of MCP (JSON-RPC 2.0, 5.1), without a request id. `asked` are the headers of the
    /// request.
    pub(super) fn json_rpc(status: StatusCode, message: impl AsRef<str>, asked: &HeaderMap) -> Self {
        let error = json!({ "code": -32000, "message": message.as_ref() });
        let version = asked.get("mcp-protocol-version").and_then(|version| version.to_str().ok());
        let body = if version.is_some_and(|version| !NULL_ID.contains(&version)) {
            json!({ "jsonrpc": "2.0", "error": error })
        } else {
            json!({ "jsonrpc": "2.0", "id": null, "error": error })
        };
        Self { status, body: body.to_string(), reason: message.as_ref().to_owned(), retry_after: None }
    }
}

impl IntoResponse for EarlyRefusal {
    fn into_response(self) -> Response {
        let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let headers = [kind, (header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
        let retry = self.retry_after.map(|wait| [(header::RETRY_AFTER, HeaderValue::from(wait.as_secs()))]);
        let reason = Extension(RefusalReason::new(self.reason));
        (self.status, headers, retry, reason, self.body).into_response()
    }
}
