//! The headers of a client's HTTP requests.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use lockkeeper::mcp::Revision;
use reqwest::RequestBuilder;
use serde_json::Value;

use super::connection::PlayerConnection;

impl PlayerConnection {
    /// Adds the headers of every request: the credential, and the session if there is one.
    pub(super) fn headed(&self, request: RequestBuilder) -> RequestBuilder {
        let mut request = accepting(request.bearer_auth(&self.card.door.key));
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        let version = self.card.version;
        if self.is_stateless() || (self.session.is_some() && version >= Revision::V2025_06_18) {
            request = request.header("mcp-protocol-version", version.as_str());
        }
        request
    }

    /// A request with the headers that mirror this message in its version.
    pub(super) fn mirrored(&self, request: RequestBuilder, message: &Value) -> RequestBuilder {
        let mut request = self.headed(request).header("content-type", "application/json");
        if self.is_stateless() {
            let params = &message["params"];
            request = request.header("mcp-method", message["method"].as_str().unwrap_or_default());
            let name = ["name", "uri", "taskId"].iter().find_map(|member| params[*member].as_str());
            if let Some(name) = name {
                request = request.header("mcp-name", header_value(name));
            }
            if name == Some("mirrored") {
                request = with_arguments(request, &params["arguments"]);
            }
        }
        request.body(message.to_string())
    }
}

/// Accepts both forms of a response.
pub(super) fn accepting(request: RequestBuilder) -> RequestBuilder {
    request.header("accept", "application/json, text/event-stream")
}

/// The headers that mirror the arguments of the tool `mirrored`.
fn with_arguments(mut request: RequestBuilder, arguments: &Value) -> RequestBuilder {
    for (header, pointer) in [("Region", "/region"), ("Count", "/count"), ("Flag", "/deep/flag")] {
        let value = match arguments.pointer(pointer) {
            None | Some(Value::Null) => continue,
            Some(Value::String(text)) => header_value(text),
            Some(value) => value.to_string(),
        };
        request = request.header(format!("Mcp-Param-{header}"), value);
    }
    request
}

/// A value in a form that a header can carry.
fn header_value(value: &str) -> String {
    let plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~')) && value.trim() == value;
    if plain && !value.starts_with("=?base64?") {
        value.to_owned()
    } else {
        format!("=?base64?{}?=", STANDARD.encode(value))
    }
}
