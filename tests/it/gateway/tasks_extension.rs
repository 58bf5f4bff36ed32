//! A server with the tasks extension of 2026-07-28, and clients of every version.

use std::sync::Arc;

use lockkeeper::{
    gateway::Gateway,
    mcp::{Method, Payload, Reply, Revision},
};
use serde_json::{Value, json};

use super::script::{Backend, Client, gateway, id, mount};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// A server with the extension whose tool creates a task.
fn jobs() -> (Arc<Backend>, Arc<Gateway>) {
    let tools = r#"{"resultType":"complete","tools":[{"name":"job","inputSchema":{}}, {"name":"more","inputSchema":{}}],"ttlMs":0,"cacheScope":"private"}"#;
    let backend = Backend::speaking(Revision::V2026_07_28, tools);
    let about = json!({ "capabilities": { "tools": {}, "extensions": { EXTENSION: {}, "x/y": {} } } });
    *backend.about.lock() = about.to_string();
    *backend.answer.lock() = Some(Box::new(|call| {
        let kind = if call.method == Method::ToolsCall { "task" } else { "complete" };
        let result =
            json!({ "resultType": kind, "taskId": "T1", "status": "working", "got": call.params.string("taskId") });
        Reply::complete(Payload::of(Revision::V2026_07_28, &result))
    }));
    let gateway = gateway(vec![mount("b1", &backend)]);
    (backend, gateway)
}

async fn asked(client: &Client, method: Method, params: &str) -> Value {
    serde_json::from_str(&client.ask(method, params).await).unwrap()
}

#[tokio::test]
async fn tools_declare_task_support_for_clients_that_need_it() {
    let (_, gateway) = jobs();
    for server in [gateway.merged(), gateway.single(&id("b1")).unwrap()] {
        for revision in Revision::ALL {
            let client = Client::new(Arc::clone(&server)).speaking(revision);
            let listed = asked(&client, Method::ToolsList, "").await;
            let expected = if revision == Revision::V2025_11_25 { json!("optional") } else { Value::Null };
            for tool in listed["tools"].as_array().unwrap() {
                assert_eq!(tool["execution"]["taskSupport"], expected, "{revision}: {listed}");
            }
        }
    }
}

#[tokio::test]
async fn task_ids_lead_to_their_server() {
    let (backend, gateway) = jobs();
    let client = Client::new(gateway.merged());
    assert_eq!(asked(&client, Method::ToolsCall, r#"{"name":"b1__job","task":{}}"#).await["taskId"], "b1.T1");
    for method in [Method::TasksGet, Method::TasksCancel] {
        let told = asked(&client, method, r#"{"taskId":"b1.T1"}"#).await;
        assert_eq!((&told["taskId"], &told["got"]), (&json!("b1.T1"), &json!("T1")));
    }
    assert_eq!(backend.asked("tools/call"), [r#"{"name":"job","task":{}}"#]);
    let own = Client::new(gateway.single(&id("b1")).unwrap());
    assert_eq!(asked(&own, Method::ToolsCall, r#"{"name":"job"}"#).await["taskId"], "T1");
}

#[tokio::test]
async fn a_client_with_the_extension_uses_it_at_the_merged_endpoint() {
    let (backend, gateway) = jobs();
    let client = Client::new(gateway.merged()).speaking(Revision::V2026_07_28);
    assert_eq!(asked(&client, Method::ToolsCall, r#"{"name":"b1__job"}"#).await["taskId"], "b1.T1");
    client.ask(Method::TasksUpdate, r#"{"inputResponses":{"a":{"action" : "decline"}},"taskId":"b1.T1"}"#).await;
    assert_eq!(backend.asked("tasks/update"), [r#"{"inputResponses":{"a":{"action" : "decline"}},"taskId":"T1"}"#]);
    let told = r#"{"resultType":"complete","taskId":"T1","status":"completed","result":{"content":[{"type":"resource_link","uri":"a:b"}]}}"#;
    *backend.answer.lock() = Some(Box::new(|_| Reply::complete(Payload::new(Revision::V2026_07_28, told.into()))));
    let shown = client.ask(Method::TasksGet, r#"{"taskId":"b1.T1"}"#).await;
    assert_eq!(shown, told.replace("T1", "b1.T1").replace("a:b", "b1+a:b"));
    for unknown in ["T1", "b2.T1", "b1"] {
        let error = client.ask(Method::TasksUpdate, &format!(r#"{{"taskId":"{unknown}"}}"#)).await;
        assert_eq!(error, "error -32602 Unknown task: it does not exist, has expired, or is not yours", "{unknown}");
    }
}

#[tokio::test]
async fn a_tool_may_have_a_member_of_the_same_name() {
    let (backend, gateway) = jobs();
    let told = r#"{"resultType":"complete","content":[],"taskId":"T1"}"#;
    *backend.answer.lock() = Some(Box::new(|_| Reply::complete(Payload::new(Revision::V2026_07_28, told.into()))));
    let client = Client::new(gateway.merged()).speaking(Revision::V2026_07_28);
    assert_eq!(client.ask(Method::ToolsCall, r#"{"name":"b1__job"}"#).await, told);
}

#[tokio::test]
async fn the_merged_endpoint_declares_the_extension_of_any_server() {
    let (_, gateway) = jobs();
    let about = asked(&Client::new(gateway.merged()), Method::Discover, "").await;
    assert_eq!(about["capabilities"]["tasks"], json!({ "cancel": {}, "requests": { "tools": { "call": {} } } }));
    assert_eq!(about["capabilities"]["extensions"], json!({ EXTENSION: {} }));
}
