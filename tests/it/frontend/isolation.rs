//! Isolation of clients: answers reach only their client, and only a cancellation cancels.

use futures_util::future::join_all;
use http::StatusCode;
use lockkeeper::{mcp::Method, model::LimitsConfig};
use serde_json::{Value, json};

use super::{Events, World, body, call, text};

fn cancel(id: impl Into<Value>) -> Value {
    let params = json!({ "requestId": id.into(), "reason": "enough" });
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
}

#[tokio::test]
async fn two_clients_with_the_same_ids_get_their_own_answers() {
    let world = World::new().await;
    let (ann, bob) = (world.ready("ann", "2025-06-18").await, world.ready("bob", "2025-11-25").await);
    let calls = (0..20).map(|number| {
        let (client, name) = if number % 2 == 0 { (&ann, "ann") } else { (&bob, "bob") };
        let said = format!("{name} {number}");
        let message = call(number / 2, "hold", json!({ "say": said }));
        async move { (said, body(client.send(message).await).await["result"]["said"].clone()) }
    });
    world.server.gate.add_permits(20);
    for (said, heard) in join_all(calls).await {
        assert_eq!(heard, said);
    }
}

#[tokio::test]
async fn a_client_that_reuses_one_id_gets_each_answer_on_its_request() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    let calls = (0..20).map(|number| {
        let (client, message) = (&client, call(1, "hold", json!({ "say": number })));
        async move { (number, body(client.send(message).await).await["result"]["said"].clone()) }
    });
    world.server.gate.add_permits(20);
    for (said, heard) in join_all(calls).await {
        assert_eq!(heard, said);
    }
}

#[tokio::test]
async fn a_disconnected_client_does_not_cancel_its_call() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    tokio::time::pause();
    // once before the headers are sent, once during the stream
    let vanished =
        tokio::time::timeout(std::time::Duration::from_secs(1), client.send(call(1, "hold", json!({})))).await;
    assert!(vanished.is_err());
    drop(Events::of(client.send(call(2, "hold", json!({}))).await));
    world.server.gate.add_permits(2);
    assert_eq!(world.server.fate().await, "done");
    assert_eq!(world.server.fate().await, "done");
}

#[tokio::test]
async fn a_cancelled_call_gets_no_answer() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    let held = client.send(call("x", "hold", json!({})));
    let cancelled = async {
        world.server.wait_for(Method::ToolsCall, 1).await;
        assert_eq!(client.send(cancel(7)).await.status(), StatusCode::ACCEPTED);
        assert_eq!(client.send(cancel("x")).await.status(), StatusCode::ACCEPTED);
    };
    let (response, ()) = tokio::join!(held, cancelled);
    assert_eq!(world.server.fate().await, "dropped");
    assert_eq!(text(response).await, ": \n\n");
}

#[tokio::test]
async fn a_call_of_a_disconnected_client_can_be_cancelled() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    tokio::time::pause();
    drop(Events::of(client.send(call(2, "hold", json!({}))).await));
    client.send(cancel(2)).await;
    assert_eq!(world.server.fate().await, "dropped");
}

#[tokio::test]
async fn an_ambiguous_cancellation_cancels_no_call() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    let (one, two) = (client.send(call(1, "hold", json!({}))), client.send(call(1, "hold", json!({}))));
    let cancelled = async {
        world.server.wait_for(Method::ToolsCall, 2).await;
        client.send(cancel(1)).await;
        world.server.gate.add_permits(2);
    };
    let (one, two, ()) = tokio::join!(one, two, cancelled);
    assert!(body(one).await["result"].is_object());
    assert!(body(two).await["result"].is_object());
}

#[tokio::test]
async fn another_client_cannot_cancel() {
    let world = World::new().await;
    let (ann, bob) = (world.ready("ann", "2025-06-18").await, world.ready("bob", "2025-06-18").await);
    let others = async {
        world.server.wait_for(Method::ToolsCall, 1).await;
        bob.send(cancel(1)).await;
        world.server.gate.add_permits(1);
    };
    let (response, ()) = tokio::join!(ann.send(call(1, "hold", json!({}))), others);
    assert!(body(response).await["result"].is_object());
}

#[tokio::test]
async fn calls_above_the_limit_are_refused_with_the_reason() {
    let world = World::with(super::limited(LimitsConfig { calls_per_user: 1, ..LimitsConfig::default() })).await;
    let client = world.ready("ann", "2025-06-18").await;
    let beyond = async {
        world.server.wait_for(Method::ToolsCall, 1).await;
        let answer = body(client.send(call(2, "echo", json!({}))).await).await;
        world.server.gate.add_permits(1);
        answer
    };
    let (held, answer) = tokio::join!(client.send(call(1, "hold", json!({}))), beyond);
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(2), &json!(-32603)));
    assert_eq!(answer["error"]["data"]["retryable"], true);
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("limits.calls_per_user = 1"), "{message}");
    assert!(body(held).await["result"].is_object());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn with_many_clients_no_answer_is_mixed_up_and_no_call_is_left() {
    let world = World::new().await;
    world.server.gate.add_permits(10_000);
    let mut crowd = tokio::task::JoinSet::new();
    for number in 0..16 {
        let client = world.ready(&format!("user {}", number % 4), "2025-06-18").await;
        crowd.spawn(async move {
            for round in 0..50 {
                let said = format!("{number} {round}");
                let tool = ["echo", "progress", "hold"][round % 3];
                let response = client.send(call(1, tool, json!({ "say": said })));
                if round % 7 == 0 {
                    // disconnects before the answer, or during it
                    drop(tokio::time::timeout(std::time::Duration::from_micros(200), response).await);
                } else if round % 5 == 0 {
                    let (response, cancelled) = tokio::join!(response, client.send(cancel(1)));
                    assert_eq!((response.status(), cancelled.status()), (StatusCode::OK, StatusCode::ACCEPTED));
                } else {
                    let heard = text(response.await).await;
                    assert!(heard.contains(&format!("\"said\":\"{said}\"")), "{said}: {heard}");
                }
            }
        });
    }
    while let Some(done) = crowd.join_next().await {
        done.unwrap();
    }
    world.front.close().await;
    world.clock.advance(std::time::Duration::from_mins(30));
    world.front.sweep().await;
    assert!(world.front.status().is_empty(), "no call is left that would keep its session alive");
}
