//! Limits of one user, through all clients: calls, listens and suspended calls, counted separately.

use http::StatusCode;
use lockkeeper::{mcp::Method, model::LimitsConfig};
use serde_json::{Value, json};

use super::{Client, Events, World, body, call, http_sse::Connected, initialize, modern::Modern, stdio::Local};

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

/// The same client as another app of its user.
fn of_app(mut client: Modern, app: &str) -> Modern {
    client.client = client.client.of_app(app);
    client
}

/// The refusal of a call beyond the limit.
fn is_refused(answer: &Value) {
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("limits.calls_per_user = 3"), "{answer}");
    assert_eq!((&answer["error"]["code"], &answer["error"]["data"]["retryable"]), (&json!(-32603), &json!(true)));
}

#[tokio::test]
async fn calls_of_a_user_count_together_in_all_apps_and_on_all_transports() {
    let world = World::with(super::limited(LimitsConfig { calls_per_user: 3, ..LimitsConfig::default() })).await;
    let modern = of_app(Modern::of(&world, "hostile", "{}"), "one");
    let mut legacy = world.client("hostile").of_app("two");
    legacy.open("2025-06-18", json!({})).await;
    let mut channel = Local::of_user(&world, "hostile");
    channel.ask(initialize("2025-06-18", json!({}))).await;
    let mut connection = Connected::of(Client { path: "/sse", ..world.client("hostile").of_app("three") }).await;
    connection.shake_hands("2024-11-05", json!({})).await;
    let mut ann = Local::of_user(&world, "ann");

    let beyond = async {
        channel.tell(modern.message("held", "tools/call", json!({ "name": "hold", "arguments": {} }))).await;
        world.server.wait_for(Method::ToolsCall, 3).await;
        // each of the four would have room of its own
        is_refused(&body(modern.tool(2, "echo", json!({})).await).await);
        is_refused(&body(legacy.send(call(2, "echo", json!({}))).await).await);
        is_refused(&connection.ask(call(2, "echo", json!({}))).await);
        is_refused(&channel.ask(modern.message(2, "tools/call", json!({ "name": "echo", "arguments": {} }))).await);
        is_refused(&channel.ask(call(3, "echo", json!({}))).await);
        // nobody else notices
        assert!(body(Modern::of(&world, "ann", "{}").tool(3, "echo", json!({})).await).await["result"].is_object());
        ann.ask(initialize("2025-06-18", json!({}))).await;
        assert!(ann.ask(call(4, "echo", json!({}))).await["result"].is_object());
        world.server.gate.add_permits(3);
    };
    let (one, two, ()) =
        tokio::join!(modern.tool(1, "hold", json!({})), legacy.send(call(1, "hold", json!({}))), beyond);
    assert!(body(one).await["result"].is_object() && body(two).await["result"].is_object());
    assert_eq!(channel.next().await.unwrap()["id"], "held");
    assert!(connection.ask(call(5, "echo", json!({}))).await["result"].is_object(), "calls that end make room");
}

#[tokio::test]
async fn listens_of_a_user_count_together_in_all_apps() {
    let world = World::with(super::limited(LimitsConfig { listens_per_user: 1, ..LimitsConfig::default() })).await;
    let mut channel = Local::of_user(&world, "hostile");
    let app = of_app(Modern::of(&world, "hostile", "{}"), "one");
    let open = channel.ask(app.message(1, "subscriptions/listen", chosen())).await;
    assert_eq!(open["method"], "notifications/subscriptions/acknowledged");
    let refused = body(app.ask(2, "subscriptions/listen", chosen()).await).await;
    let message = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("limits.listens_per_user = 1"), "{refused}");
    let other = Modern::of(&world, "ann", "{}").ask(3, "subscriptions/listen", chosen()).await;
    assert!(Events::of(other).message().await.is_some());
}

#[tokio::test]
async fn suspended_calls_of_a_user_count_together_in_all_apps() {
    let limits = LimitsConfig { suspended_calls_per_user: 1, ..LimitsConfig::default() };
    let world = World::with(super::limited(limits)).await;
    let asked = r#"{"elicitation":{"form":{}}}"#;
    let of_app = |app| of_app(Modern::of(&world, "hostile", asked), app);
    let waiting = body(of_app("one").tool(1, "ask", json!({})).await).await;
    assert_eq!(waiting["result"]["resultType"], "input_required");
    let refused = body(of_app("two").tool(2, "ask", json!({})).await).await;
    assert_eq!(refused["result"]["code"], -32603, "the server is told that nobody answers");
    let other = body(Modern::of(&world, "ann", asked).tool(3, "ask", json!({})).await).await;
    assert_eq!(other["result"]["resultType"], "input_required");
}
