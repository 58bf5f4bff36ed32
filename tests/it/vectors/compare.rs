//! Whether what came is what a vector expects.

use axum::http::HeaderMap;
use lockkeeper::mcp::ClientInfo;
use serde_json::{Map, Value, json};

use super::vector::{leave_minted, leave_words};

/// Words of errors that are the same for ever.
const FROZEN: &str = "Invalid or expired requestState";

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
    let state = |message: &Value| message["params"]["requestState"].clone();
    let (returned, words) = (state(got) == state(expected), &expected["error"]["message"]);
    let mut frozen = words == FROZEN && got["error"]["message"] != *words;
    let [got, expected] = [got, expected].map(|message| {
        let mut message = message.clone();
        for member in ["jsonrpc", "id"] {
            message.as_object_mut().map(|members| members.remove(member));
        }
        if !std::mem::take(&mut frozen) {
            leave_words(&mut message);
        }
        identify(&mut message);
        if at == At::Server { leave_minted(message) } else { message }
    });
    // a server's state comes back to it byte for byte
    let fits = got == expected && (at == At::Client || returned);
    if fits { Ok(()) } else { Err(format!("\n  got      {got}\n  expected {expected}")) }
}

/// Puts what the gateway says of itself where a vector shows a gateway.
fn identify(value: &mut Value) {
    if *value == json!({ "name": "gw", "version": "1.0.0" }) {
        *value = serde_json::from_slice(&ClientInfo::gateway_implementation()).unwrap();
    }
    match value {
        Value::Object(members) => members.values_mut().for_each(identify),
        Value::Array(elements) => elements.iter_mut().for_each(identify),
        _ => {}
    }
}

/// The message with the names of the vector for what the gateway mints in a question: the state to come back with, the
/// id of a dialog, and under what the questions are known.
pub(super) fn as_minted(got: &Value, expected: &Value) -> Value {
    let mut got = got.clone();
    for (whole, member) in [("result", "requestState"), ("params", "elicitationId")] {
        let is_there = |message: &Value| message[whole][member].as_str().is_some_and(|text| !text.is_empty());
        if is_there(&got) && is_there(expected) {
            got[whole][member] = expected[whole][member].clone();
        }
    }
    // who answers should always be named (2026-07-28, `ResultMetaObject`), and a vector may leave it out
    let named = "io.modelcontextprotocol/serverInfo";
    if expected["result"]["resultType"] == "input_required" && expected["result"].get("_meta").is_none() {
        let meta = got["result"].as_object_mut().and_then(|result| result.remove("_meta"));
        if let Some(meta) = meta.filter(|meta| meta.as_object().is_none_or(|meta| meta.keys().any(|key| key != named)))
        {
            got["result"]["_meta"] = meta;
        }
    }
    let keys: Vec<&String> = expected["result"]["inputRequests"].as_object().into_iter().flat_map(Map::keys).collect();
    if let Some(Value::Object(questions)) = got.pointer_mut("/result/inputRequests")
        && questions.len() == keys.len()
    {
        *questions =
            std::mem::take(questions).into_iter().zip(keys).map(|((_, one), key)| (key.clone(), one)).collect();
    }
    got
}

/// Compares the headers that a vector names; the session's id is the server's own.
pub(super) fn same_headers(got: &HeaderMap, expected: &Value) -> Result<(), String> {
    for (name, value) in expected.as_object().into_iter().flatten() {
        let found = got.get(name).map(|value| value.to_str().unwrap());
        let fits = match name.to_ascii_lowercase().as_str() {
            "mcp-session-id" if !value.is_null() => found.is_some_and(|id| !id.is_empty()),
            _ => found == value.as_str(),
        };
        if !fits {
            return Err(format!("the header {name} is {found:?}, not {value}"));
        }
    }
    Ok(())
}
