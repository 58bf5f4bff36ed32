//! Shared by all tests.

pub(crate) mod http;
pub(crate) mod oauth;
pub(crate) mod strict;

use serde_json::Value;

/// True for progress about the start of a server, which depends on the machine.
pub(crate) fn is_a_start(params: &Value) -> bool {
    let text = params["message"].as_str().unwrap_or_default();
    !params["progressToken"].is_null() && text.starts_with("waiting for `") && text.ends_with("` to start")
}
