//! Form of responses (design rule 8), and batches (2025-03-26).

use http::StatusCode;
use lockkeeper::mcp::Method;
use serde_json::{Value, json};

use super::{Events, World, body, call};

#[tokio::test]
async fn an_outcome_without_earlier_events_is_json() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    let answer = body(client.send(call("a", "echo", json!({ "say": "hi" }))).await).await;
    assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": "a", "result": { "content": [], "said": "hi" } }));
    let answer = body(client.send(call(2, "fail", json!({}))).await).await;
    assert_eq!(answer["error"]["code"], -32602);
}

#[tokio::test]
async fn progress_before_the_outcome_makes_a_stream() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-03-26").await;
    let mut events = Events::of(client.send(call(1, "progress", json!({ "say": "hi" }))).await);
    let progress = events.message().await.unwrap();
    assert_eq!(progress["method"], "notifications/progress");
    assert_eq!(progress["params"]["progressToken"], "p");
    assert_eq!(events.message().await.unwrap()["result"]["said"], "hi");
    assert_eq!(events.raw().await, None);
}

#[tokio::test]
async fn silence_makes_a_stream_that_is_kept_alive() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    let mut events = Events::of(client.send(call(1, "hold", json!({ "say": "at last" }))).await);
    assert_eq!(start.elapsed().as_secs(), 2);
    for seconds in [2, 17, 32] {
        assert_eq!(events.raw().await.as_deref(), Some(": \n\n"));
        assert_eq!(start.elapsed().as_secs(), seconds);
    }
    world.server.gate.add_permits(1);
    assert_eq!(events.message().await.unwrap()["result"]["said"], "at last");
    assert_eq!(events.raw().await, None);
}

#[tokio::test]
async fn a_batch_is_answered_with_an_array_of_all_answers() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-03-26").await;
    let batch = json!([
        call(1, "echo", json!({ "say": "one" })),
        { "jsonrpc": "2.0", "method": "notifications/progress", "params": {} },
        7,
        call("1", "echo", json!({ "say": "two" })),
    ]);
    let mut answers: Vec<Value> = serde_json::from_value(body(client.send(batch).await).await).unwrap();
    answers.sort_by_key(|answer| answer["id"].to_string());
    let said: Vec<_> = answers.iter().map(|answer| (&answer["id"], &answer["result"]["said"])).collect();
    assert_eq!(said[0], (&json!("1"), &json!("two")));
    assert_eq!(said[1], (&json!(1), &json!("one")));
    assert_eq!((&answers[2]["id"], &answers[2]["error"]["code"]), (&Value::Null, &json!(-32600)));
}

#[tokio::test]
async fn a_batch_that_would_open_a_session_is_refused_whole() {
    let world = World::new().await;
    let ready = world.ready("ann", "2025-03-26").await;
    let batch =
        json!([call(1, "echo", json!({})), { "jsonrpc": "2.0", "id": 9, "method": "initialize", "params": {} }]);
    for client in [world.client("ann"), ready] {
        let response = client.send(batch.clone()).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        let answer = body(response).await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(9), &json!(-32600)));
    }
    assert!(world.server.calls.lock().iter().all(|call| call.method != Method::ToolsCall));
}

#[tokio::test]
async fn a_batch_with_progress_is_answered_with_single_events() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-03-26").await;
    let batch = json!([call(1, "echo", json!({ "say": "one" })), call(2, "progress", json!({ "say": "two" }))]);
    let mut events = Events::of(client.send(batch).await);
    let mut said = Vec::new();
    while let Some(message) = events.message().await {
        assert!(message.is_object());
        said.extend(message["result"]["said"].as_str().map(str::to_owned));
    }
    said.sort();
    assert_eq!(said, ["one", "two"]);
}

#[tokio::test]
async fn a_batch_without_requests_is_accepted() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-03-26").await;
    let batch = json!([{ "jsonrpc": "2.0", "method": "notifications/progress", "params": {} }]);
    assert_eq!(client.send(batch).await.status(), StatusCode::ACCEPTED);
}

#[tokio::test]
async fn batches_are_limited_and_belong_to_one_version() {
    let world = World::new().await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    for version in ["2025-06-18", "2025-11-25"] {
        let client = world.ready("ann", version).await;
        let response = client.send(json!([ping])).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        assert_eq!(body(response).await["error"]["code"], -32600);
    }
    let client = world.ready("ann", "2025-03-26").await;
    let long: Vec<_> = std::iter::repeat_n(&ping, 101).collect();
    assert_eq!(client.send(json!(long)).await.status(), StatusCode::BAD_REQUEST);
    assert_eq!(client.send(json!(long[1..])).await.status(), StatusCode::OK);
}
