//! The demonstration backend.

use std::sync::Arc;

use lockkeeper::{
    mcp::{Event, Method, Server},
    model::{BackendId, BackendSpec, TransportSpec},
};
use serde_json::{Value, json};

use super::peers::{call, failure, gateway, next, result, start, text, tool};

fn demo() -> Arc<dyn Server> {
    let spec = BackendSpec::new(BackendId::parse("demo").unwrap(), TransportSpec::Demo);
    start(vec![spec]).servers().remove(0).1
}

#[tokio::test]
async fn it_lists_what_it_has() {
    let server = demo();
    let names = async |method, list: &str| {
        let listed: Value =
            serde_json::from_str(&result(call(&server, gateway(), method, &Value::Null)).await).unwrap();
        let names: Vec<&str> = listed[list].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
        names.join(" ")
    };
    assert_eq!(names(Method::ToolsList, "tools").await, "echo add time_now countdown");
    assert_eq!(names(Method::ResourcesList, "resources").await, "welcome");
    assert_eq!(names(Method::ResourceTemplatesList, "resourceTemplates").await, "greeting");
    assert_eq!(names(Method::PromptsList, "prompts").await, "introduce");
    let discovered = result(call(&server, gateway(), Method::Discover, &Value::Null)).await;
    assert!(discovered.contains("io.modelcontextprotocol/serverInfo"));
}

#[tokio::test]
async fn its_tools_work_and_refuse() {
    let server = demo();
    let of = |params: Value| tool(&server, gateway(), &params);
    assert_eq!(text(of(json!({ "name": "echo", "arguments": { "message": "hi" } }))).await, "hi");
    assert_eq!(text(of(json!({ "name": "time_now" }))).await, "2026-01-01T00:00:00Z");
    let sum = result(of(json!({ "name": "add", "arguments": { "a": 2, "b": 40.5 } }))).await;
    insta::assert_snapshot!(sum, @r#"{"content":[{"text":"42.5","type":"text"}],"structuredContent":{"sum":42.5}}"#);
    for wrong in [json!({}), json!({ "name": "add" }), json!({ "name": "countdown", "arguments": { "from": 1e9 } })] {
        assert_eq!(failure(of(wrong)).await.code(), -32602);
    }
}

#[tokio::test(start_paused = true)]
async fn the_countdown_reports_each_second() {
    let server = demo();
    let params = json!({ "name": "countdown", "arguments": { "from": 2 }, "_meta": { "progressToken": 7 } });
    let mut reply = tool(&server, gateway(), &params);
    for left in ["1 to go", "0 to go"] {
        let Event::Notified(progress) = next(&mut reply).await else { panic!("progress") };
        assert_eq!(progress.params.string("message").as_deref(), Some(left));
        assert!(progress.params.object().unwrap().get("progressToken") == Some("7"));
    }
    assert_eq!(text(reply).await, "Lift-off!");
}

#[tokio::test]
async fn its_resources_and_its_prompt_can_be_read() {
    let server = demo();
    let read = |uri: &str| call(&server, gateway(), Method::ResourcesRead, &json!({ "uri": uri }));
    assert!(result(read("demo://welcome")).await.contains("Welcome to Lockkeeper"));
    assert!(result(read("demo://greeting/Ada%20L.")).await.contains("Hello, Ada L.!"));
    let missing = failure(read("demo://other")).await;
    assert_eq!(missing.json(), r#"{"code":-32002,"data":{"uri":"demo://other"},"message":"Resource not found"}"#);
    let prompt = json!({ "name": "introduce", "arguments": { "name": "Ada" } });
    assert!(result(call(&server, gateway(), Method::PromptsGet, &prompt)).await.contains("Introduce yourself to Ada"));
}
