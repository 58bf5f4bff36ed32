//! The headers of a 2026-07-28 request, which mirror its body.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::HeaderMap;
use serde_json::Value;

use super::{
    state::Core,
    stateless::{ASKING, PREFIX, Refusal},
};

impl Core {
    /// Checks the headers of an HTTP request.
    pub(super) fn judge_headers(&self, headers: &HeaderMap, message: &Value) -> Result<(), Refusal> {
        let (method, params) = (message["method"].as_str().unwrap(), &message["params"]);
        let mut expected = vec![
            ("mcp-method".to_owned(), method.to_owned()),
            ("mcp-protocol-version".to_owned(), text(&params["_meta"][format!("{PREFIX}protocolVersion")])),
        ];
        if ASKING.contains(&method) {
            expected.push(("mcp-name".to_owned(), text(params.get("name").unwrap_or(&params["uri"]))));
        }
        if method == "tools/call"
            && let Some(tool) = self.offers.entries("tools").iter().find(|tool| tool["name"] == params["name"])
        {
            mirrors(&tool["inputSchema"], &params["arguments"], &mut expected);
        }
        let stated = headers.iter().filter(|(name, _)| name.as_str().starts_with("mcp-"));
        let mut stated: Vec<(String, String)> = stated
            .map(|(name, value)| (name.to_string(), value.to_str().map_or_else(|_| format!("{value:?}"), decoded)))
            .collect();
        stated.sort();
        expected.sort();
        if stated != expected {
            self.notes.fault(format!("{method}: the headers are {stated:?} and not {expected:?}"));
            return Err(Refusal::new(400, -32020, "Header mismatch"));
        }
        let accept = headers.get("accept").and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        if !accept.contains("application/json") || !accept.contains("text/event-stream") {
            self.notes.fault(format!("{method} accepts {accept}"));
        }
        for name in ["authorization", "cookie", "last-event-id"] {
            if headers.contains_key(name) {
                self.notes.fault(format!("{method} with {name}"));
            }
        }
        Ok(())
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn decoded(value: &str) -> String {
    let encoded = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    encoded.map_or_else(|| value.to_owned(), |encoded| String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap())
}

/// The headers of a call according to its tool's annotations.
fn mirrors(schema: &Value, arguments: &Value, found: &mut Vec<(String, String)>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let value = &arguments[name];
        if !property.is_object() || value.is_null() {
            continue;
        }
        if let Some(header) = property["x-mcp-header"].as_str() {
            found.push((format!("mcp-param-{}", header.to_lowercase()), text(value)));
        }
        mirrors(property, value, found);
    }
}
