//! Settings of a session, and their restoration after a restart of the gateway.

use lockkeeper::{
    mcp::{Level, Method},
    model::LimitsConfig,
};
use serde_json::{Value, json};

use super::{Client, Events, World, body, call};

fn ask(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 5, "method": method, "params": params })
}

/// The parameters of the calls of this method that the server got.
fn sent(world: &World, method: &Method) -> Vec<Value> {
    let calls = world.server.calls.lock();
    calls.iter().filter(|call| call.method == *method).map(|call| call.params.view().unwrap()).collect()
}

/// The level at present of the first call of this method that the server got.
fn level_of(world: &World, method: &Method) -> Option<Level> {
    let calls = world.server.calls.lock();
    calls.iter().find(|call| call.method == *method).and_then(|call| call.context.level.get())
}

async fn set(client: &Client, method: &str, params: Value) -> Value {
    body(client.send(ask(method, &params)).await).await
}

#[tokio::test]
async fn the_level_goes_along_with_calls_and_is_filtered_here() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    let mut stream = Events::of(client.get().await);
    assert_eq!(set(&client, "logging/setLevel", json!({ "level": "error" })).await["result"], json!({}));
    client.send(call(1, "echo", json!({}))).await;
    world.server.wait_for(Method::Listen, 1).await;
    assert_eq!(level_of(&world, &Method::ToolsCall), Some(Level::Error));
    assert_eq!(level_of(&world, &Method::Listen), Some(Level::Error), "an open listen learns it too");
    for level in ["info", "critical"] {
        world.server.told.send((Method::LoggingMessage, json!({ "level": level, "data": 1 }))).unwrap();
    }
    assert_eq!(stream.message().await.unwrap()["params"]["level"], "critical");
}

#[tokio::test]
async fn a_refused_level_changes_nothing() {
    let world = World::with(super::limited(LimitsConfig { calls_per_user: 1, ..LimitsConfig::default() })).await;
    let client = world.ready("ann", "2025-06-18").await;
    let mut stream = Events::of(client.get().await);
    world.server.wait_for(Method::Listen, 1).await;
    let running = client.send(call(1, "hold", json!({ "say": "done" })));
    let refused = async {
        world.server.wait_for(Method::ToolsCall, 1).await;
        let answer = set(&client, "logging/setLevel", json!({ "level": "error" })).await;
        assert_eq!(answer["error"]["data"]["retryable"], true, "{answer}");
        world.server.told.send((Method::LoggingMessage, json!({ "level": "info", "data": 1 }))).unwrap();
        assert_eq!(stream.message().await.unwrap()["params"]["level"], "info");
        world.server.gate.add_permits(1);
    };
    let (answer, ()) = tokio::join!(running, refused);
    assert_eq!(body(answer).await["result"]["said"], "done");
}

#[tokio::test]
async fn a_session_of_the_previous_process_gets_its_level_and_subscriptions() {
    let world = World::new().await;
    let mut client = world.ready("ann", "2025-06-18").await;
    set(&client, "logging/setLevel", json!({ "level": "error" })).await;
    for uri in ["file:///a", "file:///b", "no:c"] {
        set(&client, "resources/subscribe", json!({ "uri": uri })).await;
    }
    set(&client, "resources/unsubscribe", json!({ "uri": "file:///a" })).await;
    let after = world.restarted();
    client.router = after.router.clone();
    assert!(body(client.send(call(1, "echo", json!({}))).await).await["result"].is_object());
    after.server.wait_for(Method::ResourcesSubscribe, 1).await;
    assert_eq!(sent(&after, &Method::ResourcesSubscribe), [json!({ "uri": "file:///b" })]);
    assert_eq!(level_of(&after, &Method::ToolsCall), Some(Level::Error), "the level holds for the first call");
    client.send(call(2, "echo", json!({}))).await;
    assert_eq!(sent(&after, &Method::ResourcesSubscribe).len(), 1, "once is enough");
}

#[tokio::test]
async fn a_server_is_subscribed_to_for_as_long_as_a_session_wants_it() {
    let world = World::new().await;
    let (mut ann, bob) = (world.ready("ann", "2025-06-18").await, world.ready("bob", "2025-06-18").await);
    let held = |world: &World| {
        let mut held = world.server.held.lock().clone();
        held.sort();
        held
    };
    for (client, uri) in [(&ann, "x:1"), (&ann, "x:2"), (&ann, "x:2"), (&ann, "no:3"), (&bob, "x:1")] {
        set(client, "resources/subscribe", json!({ "uri": uri })).await;
    }
    assert_eq!(held(&world), ["x:1", "x:1", "x:2"], "twice is once");
    for _ in 0..2 {
        set(&ann, "resources/unsubscribe", json!({ "uri": "x:1" })).await;
        assert_eq!(held(&world), ["x:1", "x:2"], "the other user keeps its own");
    }
    let after = world.restarted();
    let old = std::mem::replace(&mut ann.router, after.router.clone());
    assert!(body(ann.send(call(1, "echo", json!({}))).await).await["result"].is_object());
    after.server.wait_for(Method::ResourcesSubscribe, 1).await;
    set(&ann, "resources/subscribe", json!({ "uri": "x:4" })).await;
    assert_eq!(held(&after), ["x:2", "x:4"]);
    ann.delete().await;
    assert_eq!(held(&after), [""; 0]);
    ann.router = old;
    assert_eq!(held(&world), ["x:1", "x:2"], "the process before is not asked");
    bob.delete().await;
    assert_eq!(held(&world), ["x:2"]);
}

#[tokio::test]
async fn subscriptions_of_one_session_are_limited() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    for number in 0..1_000 {
        let answer = set(&client, "resources/subscribe", json!({ "uri": format!("x:{number}") })).await;
        assert_eq!(answer["result"], json!({}));
    }
    let refused = set(&client, "resources/subscribe", json!({ "uri": "x:1000" })).await;
    assert_eq!(refused["error"]["code"], -32602);
    assert_eq!(set(&client, "resources/subscribe", json!({ "uri": "x:7" })).await["result"], json!({}));
}

#[tokio::test]
async fn subscriptions_to_uris_that_are_too_long_to_be_stored_count_too_and_only_for_their_session() {
    let world = World::new().await;
    let (hostile, other) = (world.ready("bob", "2025-06-18").await, world.ready("ann", "2025-06-18").await);
    let long = |number: usize| json!({ "uri": format!("x:{number}{}", "y".repeat(8 * 1024)) });
    for number in 0..1_000 {
        assert_eq!(set(&hostile, "resources/subscribe", long(number)).await["result"], json!({}));
    }
    assert_eq!(set(&hostile, "resources/subscribe", long(1_000)).await["error"]["code"], -32602);
    assert_eq!(set(&hostile, "resources/subscribe", long(7)).await["result"], json!({}), "it is subscribed already");
    assert_eq!(set(&other, "resources/subscribe", long(1_000)).await["result"], json!({}));
    assert_eq!(set(&hostile, "resources/unsubscribe", long(7)).await["result"], json!({}));
    assert_eq!(set(&hostile, "resources/subscribe", long(1_000)).await["result"], json!({}));
}

#[tokio::test]
async fn messages_before_a_stream_is_open_wait_for_it() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    world.server.wait_for(Method::Listen, 1).await;
    world.server.told.send((Method::ToolsListChanged, json!({}))).unwrap();
    let mut stream = Events::of(client.get().await);
    assert_eq!(stream.message().await.unwrap()["method"], "notifications/tools/list_changed");
}
