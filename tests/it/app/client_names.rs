//! Server names in results for a client of 2026-07-28 (`translation` section 5).

use serde_json::{Value, json};

use super::{Gateway, client, direct_key};
use crate::support::data_folder::DataFolder;

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// The result of a request of 2026-07-28 on the merged endpoint.
async fn result((gateway, key): (&Gateway, &str), method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} } });
    let name = params["name"].as_str().or_else(|| params["uri"].as_str()).map(str::to_owned);
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let mut request = client().post(format!("{}/mcp", gateway.url)).bearer_auth(key).body(message.to_string());
    for (header, value) in [
        ("content-type", Some("application/json")),
        ("accept", Some("application/json, text/event-stream")),
        ("mcp-protocol-version", Some("2026-07-28")),
        ("mcp-method", Some(method)),
        ("mcp-name", name.as_deref()),
    ] {
        if let Some(value) = value {
            request = request.header(header, value);
        }
    }
    let text = request.send().await.unwrap().text().await.unwrap();
    // a slow answer comes as a stream
    let answer = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
    let answer: Value = serde_json::from_str(answer).unwrap();
    assert!(answer["result"].is_object(), "{method}: {answer}");
    answer["result"].clone()
}

#[tokio::test]
async fn a_result_names_its_server_and_a_merged_result_names_the_gateway() {
    let folder = DataFolder::new();
    let gateway = Gateway::start(folder.path()).await;
    let key = direct_key(folder.path());
    let echo = |name: &str| json!({ "name": name, "arguments": { "message": "hi" } });
    let prompt = |name: &str| json!({ "ref": { "type": "ref/prompt", "name": name }, "argument": { "name": "name", "value": "" } });
    let introduce = |name: &str| json!({ "name": name, "arguments": { "name": "Ada" } });
    let one = [
        ("tools/call", echo("demo__echo")),
        ("tools/call", json!({ "name": "demo__survey", "arguments": {} })),
        ("prompts/get", introduce("demo__introduce")),
        ("resources/read", json!({ "uri": "demo+demo://welcome" })),
        ("completion/complete", prompt("demo__introduce")),
    ];
    let merged = [("tools/list", json!({})), ("server/discover", json!({}))];
    let named = one.map(|asked| (asked, "lockkeeper-demo")).into_iter();
    for ((method, params), name) in named.chain(merged.map(|asked| (asked, "lockkeeper"))) {
        let result = result((&gateway, &key), method, params).await;
        assert_eq!(result["_meta"][SERVER_INFO]["name"], name, "{method}: {result}");
    }
    gateway.stop().await;
}
