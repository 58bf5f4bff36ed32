//! Whether what came is what a vector expects.

use axum::http::HeaderMap;
use serde_json::Value;

use super::vector::{leave_minted, leave_words};

/// Who receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// What the gateway mints on the way to a server is left open.
    Server,
    /// A client of a legacy version before a legacy server gets everything as the server minted it, or its own.
    Client,
}

/// Compares messages. Ids are compared by whoever pairs requests and answers.
pub(super) fn same(got: &Value, expected: &Value, at: At) -> Result<(), String> {
    let [got, expected] = [got, expected].map(|message| {
        let mut message = message.clone();
        for member in ["jsonrpc", "id"] {
            message.as_object_mut().map(|members| members.remove(member));
        }
        leave_words(&mut message);
        if at == At::Server { leave_minted(message) } else { message }
    });
    if got == expected { Ok(()) } else { Err(format!("\n  got      {got}\n  expected {expected}")) }
}

/// Compares the headers that a vector names; the session's id is the server's own.
pub(super) fn same_headers(got: &HeaderMap, expected: &Value) -> Result<(), String> {
    for (name, value) in expected.as_object().into_iter().flatten() {
        let found = got.get(name).map(|value| value.to_str().unwrap());
        let fits = match name.to_ascii_lowercase().as_str() {
            "mcp-session-id" => found.is_some_and(|id| !id.is_empty()),
            _ => found == value.as_str(),
        };
        if !fits {
            return Err(format!("the header {name} is {found:?}, not {value}"));
        }
    }
    Ok(())
}
