//! Messages that a vector implies: the request to its answer, and the server request of a result.

use serde_json::{Map, Value, json};

use super::vector::Vector;

/// The method of an unknown request.
pub(super) const METHOD: &str = "resources/read";

/// The parameters of a request whose answer the vector has; `prefix` precedes names and URIs.
pub(super) fn request(vector: &Vector, method: &str, (names, uris): (&str, &str)) -> Value {
    let given = vector.given();
    let result = &given["result"];
    let uri = vector.ctx["requested_uri"].as_str().or_else(|| result["contents"][0]["uri"].as_str()).unwrap_or("x:r");
    match method {
        "tools/call" if result["task"].is_object() => json!({ "name": format!("{names}t"), "task": {} }),
        "tools/call" => json!({ "name": format!("{names}t"), "arguments": {} }),
        "prompts/get" => json!({ "name": format!("{names}p") }),
        "resources/read" | "resources/subscribe" => json!({ "uri": format!("{uris}{uri}") }),
        "completion/complete" => {
            json!({ "ref": { "type": "ref/prompt", "name": format!("{names}p") }, "argument": { "name": "a", "value": "v" } })
        }
        "tasks/get" | "tasks/result" | "tasks/cancel" => json!({ "taskId": result["taskId"].as_str().unwrap_or("T1") }),
        _ => json!({}),
    }
}

/// The parameters of a server request whose answer the vector has, in `version`.
pub(super) fn question(vector: &Vector, method: &str, version: &str) -> Value {
    match method {
        "sampling/createMessage" => {
            json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": "q" } }], "maxTokens": 9 })
        }
        "elicitation/create" => {
            let mut properties = Map::new();
            for (name, options) in vector.ctx["multiselect"].as_object().into_iter().flatten() {
                let field = json!({ "type": "array", "items": { "type": "string", "enum": options } });
                properties.insert(name.clone(), field);
            }
            let mut params =
                json!({ "message": "m", "requestedSchema": { "type": "object", "properties": properties } });
            if version == "2025-11-25" {
                params["mode"] = "form".into();
            }
            params
        }
        _ => json!({}),
    }
}

/// The server request that such an answer belongs to, without an id.
pub(super) fn asked(vector: &Vector, answer: &Value, by_url: bool) -> Value {
    let method = match answer {
        _ if answer.get("action").is_some() => "elicitation/create",
        _ if answer.get("role").is_some() => "sampling/createMessage",
        _ => "roots/list",
    };
    if by_url && method == "elicitation/create" {
        return json!({ "method": method, "params": { "mode": "url", "url": "https://x/k", "message": "m" } });
    }
    json!({ "method": method, "params": question(vector, method, "") })
}
