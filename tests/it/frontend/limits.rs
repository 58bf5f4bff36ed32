//! Limits of one user without a session: calls, listens and suspended calls, counted separately.

use http::StatusCode;
use lockkeeper::{mcp::Method, model::LimitsConfig};
use serde_json::{Value, json};

use super::{Events, World, body, modern::Modern};

fn chosen() -> Value {
    json!({ "notifications": { "toolsListChanged": true } })
}

#[tokio::test]
async fn open_listens_do_not_count_as_calls() {
    let settings = super::limited(LimitsConfig { calls_per_user: 1, listens_per_user: 2, ..LimitsConfig::default() });
    let world = World::with(settings).await;
    let client = Modern::of(&world, "ann", "{}");
    let mut open = Vec::new();
    for id in 0..2 {
        let mut events = Events::of(client.ask(id, "subscriptions/listen", chosen()).await);
        assert_eq!(events.message().await.unwrap()["method"], "notifications/subscriptions/acknowledged");
        open.push(events);
    }
    let refused = body(client.ask(2, "subscriptions/listen", chosen()).await).await;
    assert_eq!((&refused["error"]["code"], &refused["error"]["data"]["retryable"]), (&json!(-32603), &json!(true)));
    let message = refused["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("limits.listens_per_user = 2"), "{message}");
    assert!(body(client.tool(3, "echo", json!({})).await).await["result"].is_object(), "calls go on");

    let beyond = async {
        world.server.wait_for(Method::ToolsCall, 2).await;
        let refused = body(client.tool(5, "echo", json!({})).await).await;
        let other = body(Modern::of(&world, "bob", "{}").tool(6, "echo", json!({})).await).await;
        world.server.gate.add_permits(1);
        (refused, other)
    };
    let (held, (refused, other)) = tokio::join!(client.tool(4, "hold", json!({})), beyond);
    let message = refused["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("limits.calls_per_user = 1"), "{message}");
    assert!(other["result"].is_object(), "another user has a bound of their own");
    assert_eq!(held.status(), StatusCode::OK);

    // a listen that ends frees its place
    drop(open.pop());
    let mut events = Events::of(client.ask(7, "subscriptions/listen", chosen()).await);
    assert!(events.message().await.is_some());
}

#[tokio::test]
async fn suspended_calls_have_their_own_limit() {
    let limits = LimitsConfig { calls_per_user: 1, suspended_calls_per_user: 1, ..LimitsConfig::default() };
    let world = World::with(super::limited(limits)).await;
    let client = Modern::of(&world, "ann", r#"{"elicitation":{"form":{}}}"#);
    let waiting = body(client.tool(1, "ask", json!({})).await).await;
    assert_eq!(waiting["result"]["resultType"], "input_required");
    let refused = body(client.tool(2, "ask", json!({})).await).await;
    assert_eq!(refused["result"]["code"], -32603, "the server is told that nobody answers");
    assert!(body(client.tool(3, "echo", json!({})).await).await["result"].is_object());
    let other = Modern::of(&world, "bob", r#"{"elicitation":{"form":{}}}"#);
    assert_eq!(body(other.tool(4, "ask", json!({})).await).await["result"]["resultType"], "input_required");
    let retry = json!({
        "name": "ask", "arguments": {},
        "requestState": waiting["result"]["requestState"],
        "inputResponses": { "q1": { "action": "decline" } },
    });
    assert!(body(client.ask(5, "tools/call", retry).await).await["result"].is_object());
    let again = body(client.tool(6, "ask", json!({})).await).await;
    assert_eq!(again["result"]["resultType"], "input_required", "one that goes on makes room for another");
}
