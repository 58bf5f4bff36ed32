//! HTTP+SSE (2024-11-05): the connection is the session.

use std::{sync::Arc, time::Duration};

use http::StatusCode;
use lockkeeper::{
    frontend::FrontendSettings,
    mcp::Method,
    model::{Caller, GrantId},
    resource::StreamLease,
    support::Clock as _,
};
use serde_json::{Value, json};

use super::{Client, Events, Start, World, call, initialize, text};

/// A client with an open connection, and its stream.
pub(super) struct Connected {
    pub(super) client: Client,
    pub(super) events: Events,
}

impl Connected {
    async fn open(world: &World, path: &'static str) -> Self {
        let mut client = world.client("ann");
        client.path = path;
        Self::of(client).await
    }

    /// Opens the stream at the client's path.
    pub(super) async fn of(mut client: Client) -> Self {
        let mut events = Events::of(client.get().await);
        let first = events.raw().await.unwrap();
        let endpoint = first.strip_prefix("event: endpoint\ndata: ").unwrap().trim_end();
        assert!(endpoint.starts_with("/messages?session_id="));
        client.path = Box::leak(endpoint.to_owned().into_boxed_str());
        client.version = None;
        Self { client, events }
    }

    pub(super) async fn ready(world: &World, version: &'static str) -> Self {
        let mut connected = Self::open(world, "/sse").await;
        connected.shake_hands(version, json!({ "roots": {} })).await;
        connected
    }

    pub(super) async fn shake_hands(&mut self, version: &'static str, capabilities: Value) {
        let answer = self.ask(initialize(version, capabilities)).await;
        assert_eq!(answer["result"]["protocolVersion"], version);
        self.tell(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    }

    pub(super) async fn tell(&self, message: Value) {
        let response = self.client.send(message).await;
        assert_eq!(response.status(), StatusCode::ACCEPTED);
        assert_eq!(text(response).await, "");
    }

    pub(super) async fn ask(&mut self, message: Value) -> Value {
        self.tell(message).await;
        self.events.message().await.unwrap()
    }
}

#[tokio::test]
async fn each_legacy_version_can_be_used_on_a_connection() {
    let world = World::new().await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut connected = Connected::ready(&world, version).await;
        let answer = connected.ask(call("1", "echo", json!({ "say": "hi" }))).await;
        assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": "1", "result": { "content": [], "said": "hi" } }));
    }
}

#[tokio::test]
async fn a_failed_start_is_reported_on_the_connection() {
    let world = World::new().await;
    *world.server.start.lock() = Start::Broken;
    let mut connected = Connected::open(&world, "/sse").await;
    let answer = connected.ask(initialize("2024-11-05", json!({}))).await;
    assert_eq!(answer["error"]["message"], "it does not start");
}

#[tokio::test]
async fn an_initialize_that_comes_twice_is_answered_twice_alike() {
    let world = World::new().await;
    *world.server.start.lock() = Start::Slow;
    let mut connected = Connected::open(&world, "/sse").await;
    let hello = || initialize("2025-06-18", json!({ "roots": {} }));
    connected.tell(hello()).await;
    let other = connected.ask(initialize("2025-06-18", json!({}))).await;
    assert_eq!(other["error"]["code"], -32600, "another description is not");
    connected.tell(hello()).await;
    world.server.gate.add_permits(3);
    for _ in 0..2 {
        assert_eq!(connected.events.message().await.unwrap()["result"]["protocolVersion"], "2025-06-18");
    }
    assert_eq!(connected.ask(hello()).await["result"]["protocolVersion"], "2025-06-18", "late too");
    connected.tell(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    assert_eq!(connected.ask(hello()).await["error"]["code"], -32600, "but not after its answer has arrived");
    assert!(connected.ask(call(1, "echo", json!({}))).await["result"].is_object());
}

#[tokio::test]
async fn a_connection_whose_servers_could_not_start_can_be_tried_again() {
    let world = World::new().await;
    *world.server.start.lock() = Start::Broken;
    let mut connected = Connected::open(&world, "/sse").await;
    assert_eq!(connected.ask(initialize("2024-11-05", json!({}))).await["error"]["message"], "it does not start");
    *world.server.start.lock() = Start::Ready;
    connected.shake_hands("2024-11-05", json!({})).await;
}

#[tokio::test]
async fn a_single_backend_has_its_own_connection() {
    let world = World::new().await;
    let mut connected = Connected::open(&world, "/sse/git").await;
    let answer = connected.ask(initialize("2024-11-05", json!({}))).await;
    assert_eq!(answer["result"]["serverInfo"]["name"], "git");
    assert_eq!(world.front.status()[0].endpoint, "/sse/git");
}

#[tokio::test]
async fn all_messages_for_the_client_come_on_its_only_stream() {
    let world = World::new().await;
    let mut connected = Connected::ready(&world, "2024-11-05").await;
    world.server.wait_for(Method::Listen, 1).await;
    connected.tell(call(1, "hold", json!({ "say": "later" }))).await;
    let progress = connected.ask(call(2, "progress", json!({ "say": "sooner" }))).await;
    assert_eq!(progress["method"], "notifications/progress");
    assert_eq!(connected.events.message().await.unwrap()["id"], 2);
    world.server.told.send((Method::ToolsListChanged, json!({}))).unwrap();
    assert_eq!(connected.events.message().await.unwrap()["method"], "notifications/tools/list_changed");
    let question = connected.ask(call(3, "ask", json!({ "method": "roots/list" }))).await;
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "roots": [] } });
    assert_eq!(connected.ask(answer).await["result"]["answer"], json!({ "roots": [] }));
    world.server.gate.add_permits(1);
    assert_eq!(connected.events.message().await.unwrap()["result"]["said"], "later");
}

#[tokio::test]
async fn nothing_is_served_before_initialize() {
    let world = World::new().await;
    let mut connected = Connected::open(&world, "/sse").await;
    assert_eq!(connected.ask(call(1, "echo", json!({}))).await["error"]["code"], -32600);
    connected.shake_hands("2024-11-05", json!({})).await;
    assert_eq!(connected.ask(initialize("2024-11-05", json!({}))).await["error"]["code"], -32600, "nor is it repeated");
}

#[tokio::test]
async fn the_end_of_the_connection_ends_the_session_and_its_calls() {
    let world = World::new().await;
    let Connected { client, mut events } = Connected::ready(&world, "2024-11-05").await;
    client.send(call(1, "hold", json!({}))).await;
    let held = async {
        world.server.wait_for(Method::ToolsCall, 1).await;
    };
    tokio::select! {
        () = held => {}
        _ = events.message() => panic!("nothing is said while the call is held"),
    }
    drop(events);
    assert_eq!(world.server.fate().await, "dropped");
    assert_eq!(client.send(call(2, "echo", json!({}))).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(world.ended.lock().len(), 1);
}

#[tokio::test]
async fn an_open_connection_is_never_idle() {
    let world = World::new().await;
    let mut connected = Connected::ready(&world, "2024-11-05").await;
    world.clock.advance(Duration::from_hours(2));
    world.front.sweep().await;
    assert!(connected.ask(call(1, "echo", json!({}))).await["result"].is_object());
}

#[tokio::test]
async fn n_122_a_connection_of_another_caller_is_not_found() {
    let world = World::new().await;
    let connected = Connected::ready(&world, "2024-11-05").await;
    let mut other = world.client("bob");
    other.path = connected.client.path;
    assert_eq!(other.send(call(1, "echo", json!({}))).await.status(), StatusCode::NOT_FOUND);
    other.path = "/messages?session_id=unknown";
    assert_eq!(other.send(call(1, "echo", json!({}))).await.status(), StatusCode::NOT_FOUND);
    other.path = "/messages";
    assert_eq!(other.send(call(1, "echo", json!({}))).await.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn the_two_bindings_do_not_share_sessions() {
    let world = World::new().await;
    let connected = Connected::ready(&world, "2025-06-18").await;
    let mut client = world.ready("ann", "2025-06-18").await;
    let (_, id) = connected.client.path.split_once('=').unwrap();
    let path = format!("/messages?session_id={}", client.session.as_ref().unwrap());
    client.session = Some(id.to_owned());
    assert_eq!(client.send(call(1, "echo", json!({}))).await.status(), StatusCode::NOT_FOUND);
    client.path = Box::leak(path.into_boxed_str());
    assert_eq!(client.send(call(1, "echo", json!({}))).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_invalid_message_is_refused_at_once() {
    let world = World::new().await;
    let connected = Connected::ready(&world, "2024-11-05").await;
    assert_eq!(connected.client.post("{").await.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_revoked_credential_ends_the_connection() {
    let world = World::new().await;
    let mut connected = Connected::ready(&world, "2024-11-05").await;
    connected.client.admission.lease.revoked.cancel();
    assert_eq!(connected.events.message().await, None);
    drop(connected.events);
    assert_eq!(world.front.status().len(), 0);
}

#[tokio::test]
async fn unread_answers_are_limited() {
    let world = World::with(FrontendSettings { queue: 2, ..super::settings() }).await;
    let mut connected = Connected::open(&world, "/sse").await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    for _ in 0..3 {
        connected.tell(ping.clone()).await;
    }
    while connected.events.message().await.is_some() {}
    drop(connected.events);
    assert_eq!(connected.client.send(ping).await.status(), StatusCode::NOT_FOUND, "the session ended with its stream");
}

#[tokio::test]
async fn a_batch_is_answered_message_by_message() {
    let world = World::new().await;
    let mut connected = Connected::ready(&world, "2025-03-26").await;
    let batch = json!([call(1, "echo", json!({ "say": "one" })), call(2, "echo", json!({ "say": "two" }))]);
    let mut said = [connected.ask(batch.clone()).await, connected.events.message().await.unwrap()];
    said.sort_by_key(|answer| answer["id"].to_string());
    assert_eq!((&said[0]["result"]["said"], &said[1]["result"]["said"]), (&json!("one"), &json!("two")));
    let newer = Connected::ready(&world, "2025-06-18").await;
    assert_eq!(newer.client.send(batch).await.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn draining_ends_connections_and_standalone_streams() {
    let world = World::new().await;
    let mut connected = Connected::ready(&world, "2024-11-05").await;
    let client = world.ready("bob", "2025-06-18").await;
    let mut stream = Events::of(client.get().await);
    stream.raw().await.unwrap();
    world.front.drain();
    assert_eq!(connected.events.message().await, None);
    assert_eq!(stream.raw().await, None);
    assert_eq!(client.send(call(1, "echo", json!({}))).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn an_unread_connection_ends_with_its_session_once_too_many_answers_wait() {
    let world = World::with(FrontendSettings { queue: 4, ..super::settings() }).await;
    let stalled = Connected::ready(&world, "2024-11-05").await;
    stalled.tell(call(0, "hold", json!({}))).await;
    for id in 1..=4 {
        stalled.tell(call(id, "echo", json!({}))).await;
    }
    world.server.wait_for(Method::ToolsCall, 5).await;
    assert!(world.ended.lock().is_empty(), "so much may wait");
    // an unread stream is not polled: the session ends all the same
    stalled.tell(call(5, "echo", json!({}))).await;
    assert_eq!(world.server.fate().await, "dropped");
    assert_eq!(world.ended.lock().len(), 1);
    assert_eq!(stalled.client.send(call(6, "echo", json!({}))).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_stream_of_a_java_client_is_kept_alive_by_pings_once_its_handshake_is_done() {
    let world = World::new().await;
    let mut client = world.client("ann");
    client.path = "/sse";
    for agent in ["ReactorNetty/1.2.6", "Java-http-client/17.0.1"] {
        let mut opening = client.clone();
        opening.agent = Some(agent);
        let mut connected = Connected::of(opening).await;
        tokio::time::pause();
        let start = tokio::time::Instant::now();
        let silent = tokio::time::timeout(Duration::from_secs(40), connected.events.raw()).await;
        assert!(silent.is_err(), "nothing is asked before the handshake, and no comment is written");
        connected.shake_hands("2024-11-05", json!({})).await;
        for number in 1..=2 {
            let ping = connected.events.message().await.unwrap();
            assert_eq!((&ping["method"], &ping["id"]), (&json!("ping"), &json!(format!("lk-alive-{number}"))));
            let error = json!({ "code": -32601, "message": "Method not found: ping" });
            connected.tell(json!({ "jsonrpc": "2.0", "id": ping["id"], "error": error })).await;
        }
        assert!(start.elapsed() >= Duration::from_mins(1));
        assert!(connected.ask(call(1, "echo", json!({}))).await["result"].is_object());
        tokio::time::resume();
    }
}

#[tokio::test]
async fn oa_116_a_connection_lives_as_long_as_the_renewed_token_of_its_client() {
    let world = World::new().await;
    let until = |minutes| StreamLease {
        expires: Some(world.clock.now() + Duration::from_mins(minutes)),
        revoked: Arc::default(),
    };
    let of = |grant: &str, lease| {
        let mut admission = super::admission("ann");
        let caller = Caller { grant: Some(GrantId::new(grant)), ..(*admission.caller).clone() };
        admission.caller = Arc::new(caller);
        admission.lease = lease;
        admission
    };
    let ends_after = async |renewal: Option<(&str, u64)>, seconds: u64| {
        let start = tokio::time::Instant::now();
        let mut client = world.client("ann");
        (client.path, client.admission) = ("/sse", of("one", until(1)));
        let mut connected = Connected::of(client).await;
        connected.shake_hands("2024-11-05", json!({})).await;
        if let Some((grant, minutes)) = renewal {
            connected.client.admission = of(grant, until(minutes));
            assert!(connected.ask(call(1, "echo", json!({}))).await["result"].is_object());
        }
        tokio::time::pause();
        while connected.events.raw().await.is_some() {}
        tokio::time::resume();
        // the clock ran before it was paused
        let ended = start.elapsed().as_secs();
        assert!((seconds..seconds + 10).contains(&ended), "{renewal:?}: {ended} s");
    };
    ends_after(None, 90).await;
    ends_after(Some(("one", 5)), 330).await;
    // a token of another grant renews nothing, nor does an earlier one
    ends_after(Some(("two", 5)), 90).await;
    ends_after(Some(("one", 0)), 90).await;
}

#[tokio::test]
async fn oa_116_a_call_that_runs_at_the_end_of_a_token_is_answered_before_the_stream_closes() {
    let world = World::new().await;
    let mut connected = Connected::ready(&world, "2024-11-05").await;
    let session = connected.client.clone();
    drop(connected.events);
    let mut client = session;
    client.path = "/sse";
    client.admission.lease.expires = Some(world.clock.now() + Duration::from_mins(1));
    connected = Connected::of(client).await;
    connected.shake_hands("2024-11-05", json!({})).await;
    connected.tell(call(1, "hold", json!({ "say": "late" }))).await;
    world.server.wait_for(Method::ToolsCall, 1).await;
    tokio::time::pause();
    let open = tokio::time::timeout(Duration::from_mins(3), async {
        while let Some(text) = connected.events.raw().await {
            assert!(text.starts_with(':'), "{text}");
        }
    });
    assert!(open.await.is_err(), "the stream waits for the call");
    world.server.gate.add_permits(1);
    assert_eq!(connected.events.message().await.unwrap()["result"]["said"], "late");
    assert_eq!(connected.events.message().await, None);
    drop(connected.events);
    let late = connected.client.send(call(2, "echo", json!({}))).await;
    assert_eq!(late.status(), StatusCode::NOT_FOUND);
    assert!(text(late).await.contains("open /sse again"));
}
