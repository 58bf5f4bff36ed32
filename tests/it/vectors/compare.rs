//! Comparison of messages with the expectation of a vector.

use axum::http::HeaderMap;
use lockkeeper::mcp::ClientInfo;
use serde_json::{Map, Value, json};

use super::vector::{leave_minted, leave_words};

/// Text of errors that never changes.
const FROZEN: &str = "Invalid or expired requestState";

/// The receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// Values that the gateway creates for a server are not compared.
    Server,
    /// A client of a legacy version gets a legacy server's values unchanged, or its own.
    Client,
}

/// Compares messages, without ids: those are compared where requests and answers are paired.
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
        // the gateway's requests for lists have them, for servers that want the member
        if at == At::Server && message["params"] == json!({}) {
            message.as_object_mut().map(|members| members.remove("params"));
        }
        if at == At::Server { leave_minted(message) } else { message }
    });
    // a server gets its state back byte for byte
    let fits = got == expected && (at == At::Client || returned);
    if fits { Ok(()) } else { Err(format!("\n  got      {got}\n  expected {expected}")) }
}

/// Inserts the gateway's own information where a vector shows a gateway.
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

/// Replaces the gateway's values in a server request by those of the vector: the state, the id of a dialog, and the
/// keys of requests.
pub(super) fn as_minted(got: &Value, expected: &Value) -> Value {
    let mut got = got.clone();
    for (whole, member) in [("result", "requestState"), ("params", "elicitationId")] {
        let is_there = |message: &Value| message[whole][member].as_str().is_some_and(|text| !text.is_empty());
        if is_there(&got) && is_there(expected) {
            got[whole][member] = expected[whole][member].clone();
        }
    }
    // the server should always be named (2026-07-28, `ResultMetaObject`), and a vector may omit it
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

/// Compares the headers of a vector; the session id is the server's.
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
