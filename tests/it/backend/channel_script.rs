//! Script of a server on a channel, of each era. Knows nothing of the channel.

use serde_json::{Value, json};

use super::scripted_http_server::{greeting, text_of};

/// Era of a scripted server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScriptedEra {
    Legacy,
    Modern,
}

/// The server's messages in answer to one.
pub(super) fn answers(speaks: ScriptedEra, message: &Value) -> Vec<Value> {
    let result = |result: &Value| json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    let error =
        |code: i64| json!({ "jsonrpc": "2.0", "id": message["id"], "error": { "code": code, "message": "no" } });
    let params = &message["params"];
    let token = &params["_meta"]["progressToken"];
    match (message["method"].as_str(), speaks) {
        (Some("initialize"), ScriptedEra::Legacy) => vec![result(&greeting("2025-06-18"))],
        (Some("server/discover"), ScriptedEra::Modern) => vec![result(&json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "scripted", "version": "7" } },
        }))],
        (Some("tools/call"), _) if params["name"] == "silent" => Vec::new(),
        (Some("tools/call"), _) if params["name"] == "ask" => vec![json!({
            "jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
            "params": { "message": "Name?", "requestedSchema": { "type": "object", "properties": {} } },
        })],
        (Some("tools/call"), _) => {
            let progress = json!({ "progressToken": token, "progress": 1 });
            let mut answers = vec![result(&text_of("over a channel"))];
            if !token.is_null() {
                let told = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": progress });
                answers.insert(0, told);
            }
            answers
        }
        (Some(_), _) if message.get("id").is_some() => vec![error(-32601)],
        _ => Vec::new(),
    }
}
