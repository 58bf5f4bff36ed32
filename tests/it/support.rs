//! What the tests share.

pub(crate) mod http;
pub(crate) mod oauth;
pub(crate) mod strict;

use serde_json::Value;

/// Whether the parameters of a notification say that a server is still starting: how long it takes is the machine's business.
pub(crate) fn is_a_start(params: &Value) -> bool {
    let text = params["message"].as_str().unwrap_or_default();
    !params["progressToken"].is_null() && text.starts_with("waiting for `") && text.ends_with("` to start")
}
