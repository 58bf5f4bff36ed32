//! Standalone streams: notifications outside of calls, and the end of a stream.

use std::{sync::Arc, time::Duration};

use lockkeeper::{
    mcp::{Event, Method, Notification, Outcome, Payload, Revision},
    resource::StreamLease,
    support::Clock as _,
};
use serde_json::{Value, json};

use super::{Events, World, call};

#[tokio::test]
async fn notifications_outside_of_calls_reach_only_the_newest_stream() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    let mut old = Events::of(client.get().await);
    let mut new = Events::of(client.get().await);
    world.server.wait_for(Method::Listen, 1).await;
    world.server.told.send((Method::ToolsListChanged, json!({}))).unwrap();
    assert_eq!(new.message().await.unwrap()["method"], "notifications/tools/list_changed");
    drop(new);
    world.server.told.send((Method::PromptsListChanged, json!({}))).unwrap();
    assert_eq!(old.message().await.unwrap()["method"], "notifications/prompts/list_changed");
    assert_eq!(world.server.calls.lock().iter().filter(|call| call.method == Method::Listen).count(), 1);
}

#[tokio::test]
async fn notifications_without_an_open_stream_wait_for_one() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    drop(Events::of(client.get().await));
    world.server.wait_for(Method::Listen, 1).await;
    for _ in 0..3 {
        world.server.told.send((Method::ToolsListChanged, json!({}))).unwrap();
    }
    world.server.told.send((Method::LoggingMessage, json!({ "level": "info", "data": 1 }))).unwrap();
    let mut events = Events::of(client.get().await);
    assert_eq!(events.message().await.unwrap()["method"], "notifications/tools/list_changed");
    assert_eq!(events.message().await.unwrap()["method"], "notifications/message");
}

fn event(method: Method, params: &Value) -> Event {
    Event::Notified(Notification { method, params: Payload::of(Revision::V2025_06_18, params) })
}

fn done() -> Event {
    Event::Done(Outcome::Complete(Payload::of(Revision::V2025_06_18, &json!({ "content": [] }))))
}

#[tokio::test]
async fn a_client_without_a_stream_hears_once_of_a_list_that_changed_in_its_call() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    world.server.wait_for(Method::Listen, 1).await;
    for round in 1..=2 {
        let mut talk = Events::of(client.send(call(round, "talk", json!({ "name": "t" }))).await);
        world.server.wait_for(Method::ToolsCall, round).await;
        world.server.say("t", event(Method::ToolsListChanged, &json!({})));
        assert_eq!(talk.message().await.unwrap()["method"], "notifications/tools/list_changed");
        // its listen tells of the same
        world.server.told.send((Method::ToolsListChanged, json!({}))).unwrap();
        world.server.say("t", done());
        assert_eq!(talk.message().await.unwrap()["id"], round);
    }
    world.server.told.send((Method::PromptsListChanged, json!({}))).unwrap();
    let mut events = Events::of(client.get().await);
    assert_eq!(events.message().await.unwrap()["method"], "notifications/prompts/list_changed");
}

#[tokio::test]
async fn a_client_with_a_stream_hears_there_of_a_list_that_changed_in_its_call() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    let mut events = Events::of(client.get().await);
    world.server.wait_for(Method::Listen, 1).await;
    let mut talk = Events::of(client.send(call(1, "talk", json!({ "name": "t" }))).await);
    world.server.wait_for(Method::ToolsCall, 1).await;
    world.server.say("t", event(Method::ToolsListChanged, &json!({})));
    world.server.told.send((Method::ToolsListChanged, json!({}))).unwrap();
    world.server.say("t", event(Method::ResourceUpdated, &json!({ "uri": "a:b" })));
    world.server.say("t", done());
    assert_eq!(talk.message().await.unwrap()["method"], "notifications/resources/updated");
    assert_eq!(talk.message().await.unwrap()["id"], 1);
    assert_eq!(events.message().await.unwrap()["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn log_messages_below_the_level_are_left_out() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    let level = json!({ "jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": { "level": "warning" } });
    client.send(level).await;
    let mut events = Events::of(client.get().await);
    world.server.wait_for(Method::Listen, 1).await;
    for level in ["info", "error"] {
        world.server.told.send((Method::LoggingMessage, json!({ "level": level, "data": 1 }))).unwrap();
    }
    assert_eq!(events.message().await.unwrap()["params"]["level"], "error");
}

#[tokio::test]
async fn an_idle_stream_carries_a_comment_every_fifteen_seconds() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    let mut events = Events::of(client.get().await);
    for seconds in [0, 15, 30] {
        assert_eq!(events.raw().await.as_deref(), Some(": \n\n"));
        assert_eq!(start.elapsed().as_secs(), seconds);
    }
}

#[tokio::test]
async fn n_114_a_stream_ends_half_a_minute_after_its_credential() {
    let world = World::new().await;
    let mut client = world.ready("ann", "2025-06-18").await;
    let expires = Some(world.clock.now() + Duration::from_mins(1));
    client.admission.lease = StreamLease { expires, revoked: Arc::default() };
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    let mut events = Events::of(client.get().await);
    while events.raw().await.is_some() {}
    assert_eq!(start.elapsed().as_secs(), 90);
}

#[tokio::test]
async fn a_revoked_credential_ends_streams_and_calls_at_once() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    tokio::time::pause();
    let mut stream = Events::of(client.get().await);
    stream.raw().await.unwrap();
    let mut running = Events::of(client.send(call(1, "hold", json!({}))).await);
    let start = tokio::time::Instant::now();
    client.admission.lease.revoked.cancel();
    assert_eq!(stream.raw().await, None);
    assert_eq!(running.message().await.unwrap()["error"]["code"], -32603);
    assert_eq!(running.raw().await, None);
    assert_eq!(world.server.fate().await, "dropped");
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn a_revoked_credential_ends_a_call_of_a_disconnected_client() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    tokio::time::pause();
    drop(Events::of(client.send(call(1, "hold", json!({}))).await));
    client.admission.lease.revoked.cancel();
    assert_eq!(world.server.fate().await, "dropped");
}
