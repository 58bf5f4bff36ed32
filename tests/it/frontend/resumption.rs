//! Broken streams and their resumption (design rule 10).

use std::time::Duration;

use http::StatusCode;
use lockkeeper::{
    frontend::FrontendSettings,
    mcp::{ErrorObject, Event, Method, Outcome},
    model::LimitsConfig,
};
use serde_json::{Value, json};

use super::{
    Client, Events, World, body,
    broken_streams::{done, talk},
    call, text,
};

/// The rest of a stream: progress by its number, answers by their id.
async fn rest(events: &mut Events) -> Vec<String> {
    let mut said = Vec::new();
    while let Some(message) = events.message().await {
        let progress = &message["params"]["progress"];
        said.push(if progress.is_null() { format!("answer {}", message["id"]) } else { progress.to_string() });
    }
    said
}

async fn ticking(world: &World, client: &Client) -> Events {
    world.server.gate.add_permits(1);
    Events::of(client.send(call(1, "tick", json!({}))).await)
}

#[tokio::test]
async fn a_resumed_call_stream_has_its_own_rest_and_no_other() {
    let world = World::new().await;
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let client = world.ready("ann", version).await;
        let mut events = ticking(&world, &client).await;
        let mut id = events.numbered().await.unwrap();
        if version == "2025-11-25" {
            assert_eq!(id.1, "", "the first event tells where to come back to");
            id = events.numbered().await.unwrap();
        }
        drop(events);
        let other = client.send(call(2, "echo", json!({}))).await;
        assert_eq!(body(other).await["id"], 2);
        world.server.gate.add_permits(3);
        let mut events = Events::of(client.resume(&id.0).await);
        assert_eq!(rest(&mut events).await, ["2", "3", "answer 1"], "{version}");
        let mut again = Events::of(client.resume(&id.0).await);
        assert_eq!(rest(&mut again).await, ["2", "3", "answer 1"], "what is over can be read again");
    }
}

#[tokio::test]
async fn the_resuming_connection_replaces_the_old_one() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    let mut before = ticking(&world, &client).await;
    let (id, _) = before.numbered().await.unwrap();
    let mut after = Events::of(client.resume(&id).await);
    world.server.gate.add_permits(3);
    assert_eq!(rest(&mut after).await, ["2", "3", "answer 1"]);
    assert_eq!(before.message().await, None, "no message goes to two");
}

#[tokio::test]
async fn a_resuming_client_can_answer_a_server_request() {
    let world = World::new().await;
    let mut client = world.client("ann");
    client.open("2025-11-25", json!({ "elicitation": {} })).await;
    let mut events = Events::of(client.send(call(1, "ask", json!({}))).await);
    let (start, _) = events.numbered().await.unwrap();
    drop(events);
    let mut events = Events::of(client.resume(&start).await);
    let question = events.message().await.unwrap();
    client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept" } })).await;
    assert_eq!(events.message().await.unwrap()["result"]["answer"]["action"], "accept");
}

#[tokio::test]
async fn a_standalone_stream_resumes_at_its_last_event() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-11-25").await;
    let mut events = Events::of(client.get().await);
    let (start, data) = events.numbered().await.unwrap();
    assert_eq!(data, "");
    world.server.wait_for(Method::Listen, 1).await;
    let say = |text: &str| world.server.told.send((Method::LoggingMessage, json!({ "level": "info", "data": text })));
    say("one").unwrap();
    assert_eq!(events.message().await.unwrap()["params"]["data"], "one");
    drop(events);
    say("two").unwrap();
    let mut events = Events::of(client.resume(&start).await);
    for text in ["one", "two"] {
        assert_eq!(events.message().await.unwrap()["params"]["data"], text);
    }
}

#[tokio::test]
async fn a_call_that_has_ended_has_nothing_more_however_it_ended() {
    let world = World::new().await;
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let client = world.ready("ann", version).await;
        for end in ["result", "error", "cancelled"] {
            let mut events = talk(&world, &client, end).await;
            match end {
                "result" => world.server.say(end, done()),
                "error" => world.server.say(end, Event::Done(Outcome::Failed(ErrorObject::internal("it failed")))),
                _ => {
                    let params = json!({ "requestId": end });
                    client
                        .send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }))
                        .await;
                }
            }
            let mut last = String::new();
            while let Some((id, _)) = events.numbered().await {
                last = id;
            }
            for _ in 0..2 {
                let over = client.resume(&last).await;
                assert_eq!(over.status(), StatusCode::NO_CONTENT, "{version}: {end}");
                assert_eq!(text(over).await, "");
            }
        }
    }
}

#[tokio::test]
async fn ids_of_other_standalone_streams_open_a_fresh_one() {
    let world = World::new().await;
    let (mut ann, bob) = (world.ready("ann", "2025-11-25").await, world.ready("bob", "2025-11-25").await);
    let (foreign, _) = Events::of(bob.get().await).numbered().await.unwrap();
    let (own, _) = Events::of(ann.get().await).numbered().await.unwrap();
    let invented = ["", "1", "x-c1-0", "-----", "a1b2c3d4-x1-0", "a1b2c3d4-c-0", "99999999999999999999999"];
    let fresh = async |world: &World, ann: &Client, id: &str, listens: usize| {
        let mut fresh = Events::of(ann.resume(id).await);
        let (start, data) = fresh.numbered().await.unwrap();
        assert!(start.contains("-s") && data.is_empty(), "{id}: {start}");
        world.server.wait_for(Method::Listen, listens).await;
        world.server.told.send((Method::ToolsListChanged, json!({}))).unwrap();
        assert_eq!(fresh.message().await.unwrap()["method"], "notifications/tools/list_changed", "{id}");
    };
    for id in invented.into_iter().chain([foreign.as_str()]) {
        fresh(&world, &ann, id, 2).await;
    }
    let after = world.restarted();
    ann.router = after.router.clone();
    fresh(&after, &ann, &own, 1).await;
}

/// The one event of the answer to a client that comes back for a lost call: the error, and the id of the event.
async fn lost(client: &Client, id: &str) -> (Value, String) {
    let response = client.resume(id).await;
    assert_eq!(response.status(), StatusCode::OK, "{id}");
    let mut events = Events::of(response);
    let (event, data) = events.numbered().await.unwrap();
    assert_eq!(events.numbered().await, None, "nothing follows");
    (serde_json::from_str(&data).unwrap(), event)
}

#[tokio::test]
async fn a_call_that_a_restart_cut_off_ends_with_one_error() {
    let world = World::new().await;
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut client = world.ready("ann", version).await;
        for id in [json!(1), json!("a-b?>"), json!("x".repeat(126))] {
            let (event, _) = talk(&world, &client, id.clone()).await.numbered().await.unwrap();
            client.router = world.restarted().router.clone();
            let (error, last) = lost(&client, &event).await;
            assert_eq!(error["id"], id, "{version}");
            assert_eq!(
                (&error["error"]["code"], &error["error"]["data"]),
                (&json!(-32603), &json!({ "retryable": false, "mayHaveRun": true }))
            );
            assert!(error["error"]["message"].as_str().unwrap().contains("may have run"), "{error}");
            assert_eq!(client.resume(&last).await.status(), StatusCode::NO_CONTENT, "and once");
            client.router = world.router.clone();
        }
        // an id that is too long for an event is not known any more
        let (event, _) = talk(&world, &client, "x".repeat(127)).await.numbered().await.unwrap();
        client.router = world.restarted().router.clone();
        assert_eq!(client.resume(&event).await.status(), StatusCode::NO_CONTENT);
    }
}

#[tokio::test]
async fn the_event_of_another_users_call_shows_nothing_of_it() {
    let world = World::new().await;
    let (ann, bob) = (world.ready("ann", "2025-06-18").await, world.ready("bob", "2025-06-18").await);
    let mut events = ticking(&world, &bob).await;
    let (id, _) = events.numbered().await.unwrap();
    let (error, _) = lost(&ann, &id).await;
    assert_eq!(
        error["error"]["data"],
        json!({ "retryable": false, "mayHaveRun": true }),
        "an error about an id that she named herself"
    );
    world.server.gate.add_permits(3);
    assert_eq!(rest(&mut events).await, ["2", "3", "answer 1"], "and it takes nothing from him");
}

#[tokio::test]
async fn a_call_that_is_no_longer_kept_ends_with_one_error() {
    let world = World::with(FrontendSettings { replay_for: Duration::ZERO, ..super::settings() }).await;
    let client = world.ready("ann", "2025-06-18").await;
    let mut events = ticking(&world, &client).await;
    let (id, _) = events.numbered().await.unwrap();
    world.server.gate.add_permits(3);
    rest(&mut events).await;
    world.front.sweep().await;
    let (error, last) = lost(&client, &id).await;
    assert_eq!((&error["id"], &error["error"]["code"]), (&json!(1), &json!(-32603)));
    assert_eq!(client.resume(&last).await.status(), StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn a_stalled_reader_does_not_delay_a_cancellation() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    world.server.gate.add_permits(1);
    let _unread = client.send(call(7, "tick", json!({}))).await;
    client.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } })).await;
    assert_eq!(world.server.fate().await, "dropped");
}

#[tokio::test]
async fn a_long_stream_is_closed_for_clients_that_resume_by_themselves() {
    let settings =
        || super::limited(LimitsConfig { stream_lifetime: Some(Duration::from_mins(1)), ..LimitsConfig::default() });
    for (version, closed) in [("2025-06-18", false), ("2025-11-25", true)] {
        let world = World::with(settings()).await;
        let client = world.ready("ann", version).await;
        let mut events = ticking(&world, &client).await;
        let mut last = events.numbered().await.unwrap();
        if closed {
            last = events.numbered().await.unwrap();
        }
        tokio::time::pause();
        let comments = async { while events.raw().await.is_some() {} };
        let ended = tokio::time::timeout(Duration::from_mins(2), comments).await.is_ok();
        assert_eq!(ended, closed, "{version}");
        tokio::time::resume();
        world.server.gate.add_permits(3);
        let mut events = Events::of(client.resume(&last.0).await);
        assert_eq!(rest(&mut events).await, ["2", "3", "answer 1"], "the call went on");
    }
}

#[tokio::test]
async fn a_connection_over_http_sse_has_no_event_ids() {
    let world = World::new().await;
    let mut client = world.client("ann");
    client.path = "/sse";
    let mut events = Events::of(client.resume("m-s1-0").await);
    let first = events.raw().await.unwrap();
    assert!(first.starts_with("event: endpoint\n"), "{first}");
}

#[tokio::test]
async fn no_message_is_repeated_however_often_the_stream_breaks_off() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-11-25").await;
    let mut events = ticking(&world, &client).await;
    let (mut last, mut said) = (String::new(), Vec::new());
    for round in 0.. {
        let Some((id, data)) = events.numbered().await else { break };
        if !data.is_empty() {
            let message: Value = serde_json::from_str(&data).unwrap();
            said.push(message["params"]["progress"].clone());
        }
        last = id;
        if round < 7 {
            world.server.gate.add_permits(usize::from(round % 2 == 0));
            events = Events::of(client.resume(&last).await);
        }
    }
    assert_eq!(said, [json!(1), json!(2), json!(3), Value::Null], "after {last}");
}
