//! Clients over HTTP+SSE whose `EventSource` opens a lost stream again, and which go on without `initialize`.

use std::time::Duration;

use http::StatusCode;
use lockkeeper::mcp::{Level, Method};
use serde_json::{Value, json};

use super::{Client, World, call, http_sse::Connected, initialize, text};

const VERSION: &str = "2024-11-05";

/// A client's first connection.
async fn first(world: &World, user: &str, capabilities: Value) -> Connected {
    let mut client = world.client(user);
    client.path = "/sse";
    let mut connected = Connected::of(client).await;
    connected.shake_hands(VERSION, capabilities).await;
    connected
}

/// A client of this user, about to open its stream again.
fn returning(world: &World, user: &str) -> Client {
    let mut client = world.client(user);
    (client.path, client.version) = ("/sse", Some(VERSION));
    client
}

/// True if the client is asked for its roots, which it is only if it declared them.
async fn is_asked(connected: &mut Connected) -> bool {
    let first = connected.ask(call(1, "ask", json!({ "method": "roots/list" }))).await;
    if first["method"] != "roots/list" {
        assert!(first.get("error").is_some() || first["result"]["code"].is_number(), "{first}");
        return false;
    }
    let answer = json!({ "jsonrpc": "2.0", "id": first["id"], "result": { "roots": [] } });
    connected.ask(answer).await["result"]["answer"]["roots"].is_array()
}

#[tokio::test]
async fn a_client_that_opens_its_lost_stream_again_goes_on_as_the_one_it_was() {
    let world = World::new().await;
    let mut connected = first(&world, "ann", json!({ "roots": {} })).await;
    let level = json!({ "jsonrpc": "2.0", "id": 7, "method": "logging/setLevel", "params": { "level": "error" } });
    assert_eq!(connected.ask(level).await["result"], json!({}));
    let uri = json!({ "uri": "file:///a" });
    let subscribed = json!({ "jsonrpc": "2.0", "id": 8, "method": "resources/subscribe", "params": uri });
    assert_eq!(connected.ask(subscribed).await["result"], json!({}));
    // once by its own process, once by the next one
    for restarts in [false, true] {
        drop(connected.events);
        let gone = connected.client.send(call(1, "echo", json!({}))).await;
        assert_eq!(gone.status(), StatusCode::NOT_FOUND);
        assert!(text(gone).await.contains("open /sse again"));
        let next = world.restarted();
        let now = if restarts { &next } else { &world };
        connected = Connected::of(returning(now, "ann")).await;
        assert!(is_asked(&mut connected).await, "its capabilities are known: {restarts}");
        let count = if restarts { 1 } else { 2 };
        let asked = now.server.calls.lock().iter().rfind(|call| call.method == Method::ToolsCall).cloned().unwrap();
        assert_eq!(asked.context.level.get(), Some(Level::Error));
        now.server.wait_for(Method::ResourcesSubscribe, count).await;
        assert_eq!(now.front.status()[0].client, "test 1");
        if restarts {
            return;
        }
    }
}

#[tokio::test]
async fn nobody_gets_another_callers_description() {
    let world = World::new().await;
    let connected = first(&world, "ann", json!({ "roots": {} })).await;
    drop(connected.events);
    let mut other = Connected::of(returning(&world, "bob")).await;
    assert!(!is_asked(&mut other).await);
    assert_eq!(world.front.status()[0].client, "");
    // nor does another endpoint
    let mut client = returning(&world, "ann");
    client.path = "/sse/git";
    let elsewhere = Connected::of(client).await;
    assert!(world.front.status().iter().all(|session| session.client.is_empty()));
    drop(elsewhere);
    let mut own = Connected::of(returning(&world, "ann")).await;
    assert!(is_asked(&mut own).await, "and what the others did took nothing from its owner");
}

#[tokio::test]
async fn clients_that_share_a_key_come_back_without_what_they_differ_in() {
    let world = World::new().await;
    let (one, two) = (first(&world, "ann", json!({ "roots": {} })).await, first(&world, "ann", json!({})).await);
    drop((one.events, two.events));
    let mut back = Connected::of(returning(&world, "ann")).await;
    assert!(!is_asked(&mut back).await);
    assert!(
        back.ask(call(2, "echo", json!({ "say": "hi" }))).await["result"]["said"] == "hi",
        "it is served all the same"
    );
}

#[tokio::test]
async fn a_client_whose_fellow_is_still_connected_has_its_own_description() {
    let world = World::new().await;
    let (_open, lost) = (first(&world, "ann", json!({})).await, first(&world, "ann", json!({ "roots": {} })).await);
    drop(lost.events);
    let mut back = Connected::of(returning(&world, "ann")).await;
    assert!(is_asked(&mut back).await);
    // it comes back before anybody has noticed that its stream is lost
    let world = World::new().await;
    let _half_open = first(&world, "ann", json!({ "roots": {} })).await;
    let mut back = Connected::of(returning(&world, "ann")).await;
    assert!(is_asked(&mut back).await);
}

#[tokio::test]
async fn a_client_that_comes_back_may_begin_anew() {
    let world = World::new().await;
    let connected = first(&world, "ann", json!({ "roots": {} })).await;
    drop(connected.events);
    let mut back = Connected::of(returning(&world, "ann")).await;
    back.shake_hands("2025-06-18", json!({})).await;
    assert!(!is_asked(&mut back).await);
    assert_eq!(back.ask(initialize(VERSION, json!({}))).await["error"]["code"], -32600, "once");
    drop(back.events);
    let mut again = returning(&world, "ann");
    again.version = Some("2025-06-18");
    let mut again = Connected::of(again).await;
    assert!(!is_asked(&mut again).await, "what it said last counts");
}

#[tokio::test]
async fn a_client_that_names_an_event_alone_comes_back_too() {
    let world = World::new().await;
    let connected = first(&world, "ann", json!({ "roots": {} })).await;
    drop(connected.events);
    let mut client = returning(&world, "ann");
    client.version = None;
    client.last_event = Some("7");
    let mut back = Connected::of(client).await;
    assert!(is_asked(&mut back).await);
}

#[tokio::test]
async fn a_client_that_names_nothing_comes_back_with_its_first_request() {
    let world = World::new().await;
    let connected = first(&world, "ann", json!({ "roots": {} })).await;
    drop(connected.events);
    let silent = |user| {
        let mut client = returning(&world, user);
        client.version = None;
        client
    };
    let mut back = Connected::of(silent("ann")).await;
    assert_eq!(back.ask(json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })).await["result"], json!({}));
    assert!(world.front.status()[0].client.is_empty(), "a ping may come before the handshake");
    // at once, as those that waited for the stream
    back.tell(call(2, "echo", json!({}))).await;
    back.tell(call(3, "echo", json!({}))).await;
    for _ in 0..2 {
        let answer = back.events.message().await.unwrap();
        assert!(answer["result"].is_object(), "{answer}");
    }
    assert!(is_asked(&mut back).await);
    // nobody knows this one
    let mut other = Connected::of(silent("bob")).await;
    for id in [1, 2] {
        assert_eq!(other.ask(call(id, "echo", json!({}))).await["error"]["code"], -32600);
    }
    other.shake_hands("2025-06-18", json!({})).await;
    assert!(other.ask(call(3, "echo", json!({}))).await["result"].is_object());
}

#[tokio::test]
async fn a_description_is_kept_as_long_as_an_idle_session() {
    let world = World::new().await;
    let connected = first(&world, "ann", json!({ "roots": {} })).await;
    drop(connected.events);
    world.clock.advance(Duration::from_mins(31));
    world.front.sweep().await;
    let mut back = Connected::of(returning(&world, "ann")).await;
    assert!(!is_asked(&mut back).await);
}

#[tokio::test]
async fn an_idle_client_that_came_back_stays_connected() {
    let world = World::new().await;
    let mut back = Connected::of(returning(&world, "ann")).await;
    world.clock.advance(Duration::from_hours(2));
    world.front.sweep().await;
    assert!(back.ask(call(1, "echo", json!({}))).await["result"].is_object());
}

#[tokio::test]
async fn a_caller_who_comes_back_again_and_again_keeps_a_bounded_number_of_descriptions() {
    let world = World::new().await;
    let other = first(&world, "bob", json!({ "roots": {} })).await;
    drop(other.events);
    for number in 0..140 {
        drop(first(&world, "ann", json!({ "experimental": { number.to_string(): {} } })).await);
    }
    let rows = async |user: &str| {
        let owner = super::admission(user).caller.owner();
        world.storage.mcp_sessions().of_owner(&owner, "/sse").await.unwrap().len()
    };
    assert_eq!((rows("ann").await, rows("bob").await), (128, 1));
}
