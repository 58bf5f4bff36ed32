//! stdio toward a client: both eras on one pair of byte streams, and whatever bytes a client may send.

use lockkeeper::{
    mcp::{Method, Payload, Reply, Revision},
    model::{LimitsConfig, Target},
    resource::Authorized,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, duplex},
    task::JoinSet,
};

use super::{World, admission, call, initialize, modern::Modern};

/// Capacity of each pipe in bytes.
const PIPE: usize = 64 * 1024;

/// A client with its pipes.
pub(super) struct Local {
    input: Option<DuplexStream>,
    output: Option<Lines<BufReader<DuplexStream>>>,
    admission: Authorized,
    served: JoinSet<()>,
}

// === impl Local ===

impl Local {
    fn of(world: &World) -> Self {
        Self::of_user(world, "ann")
    }

    pub(super) fn of_user(world: &World, user: &str) -> Self {
        let (input, theirs) = duplex(PIPE);
        let (ours, output) = duplex(PIPE);
        let (front, admission) = (world.front.clone(), admission(user));
        let mut served = JoinSet::new();
        let client = admission.clone();
        served.spawn(async move { front.serve_stdio(client, Target::Merged, theirs, ours).await });
        Self { input: Some(input), output: Some(BufReader::new(output).lines()), admission, served }
    }

    /// A client with an open session.
    async fn ready(world: &World, version: &str) -> Self {
        let mut client = Self::of(world);
        let answer = client.ask(initialize(version, json!({ "roots": {}, "elicitation": {} }))).await;
        assert_eq!(answer["result"]["protocolVersion"], version);
        client.tell(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        client
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).await.unwrap();
    }

    pub(super) async fn tell(&mut self, message: Value) {
        self.write(format!("{message}\n").as_bytes()).await;
    }

    /// The next line, which must be a message; `None` at the end of the output.
    pub(super) async fn next(&mut self) -> Option<Value> {
        let line = self.output.as_mut().unwrap().next_line().await.unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    pub(super) async fn ask(&mut self, message: Value) -> Value {
        self.tell(message).await;
        self.next().await.unwrap()
    }

    /// Closes the input.
    fn close(&mut self) {
        self.input = None;
    }

    /// Waits until nothing serves the client any more.
    async fn end(mut self) {
        self.served.join_next().await.unwrap().unwrap();
    }
}

fn tools() -> Reply {
    Reply::complete(Payload::of(Revision::NEWEST_LEGACY, &json!({ "tools": [] })))
}

fn ping(id: u64) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })
}

#[tokio::test]
async fn each_legacy_version_lists_calls_and_gets_progress() {
    let world = World::new().await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut client = Local::ready(&world, version).await;
        world.server.plays.lock().push_back(tools());
        let listed = client.ask(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" })).await;
        assert_eq!(listed, json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": [] } }), "{version}");
        let progress = client.ask(call(2, "progress", json!({ "say": "hi" }))).await;
        assert_eq!(
            (&progress["method"], &progress["params"]["progressToken"]),
            (&json!("notifications/progress"), &json!("p"))
        );
        let answer = client.next().await.unwrap();
        assert_eq!((&answer["id"], &answer["result"]["said"]), (&json!(2), &json!("hi")));
        assert_eq!(world.front.status()[0].endpoint, "stdio");
        client.close();
        assert_eq!(client.next().await, None);
        client.end().await;
        assert!(world.front.status().is_empty(), "the session ended with its channel");
    }
}

#[tokio::test]
async fn a_legacy_client_answers_server_requests_and_gets_notifications_outside_of_calls() {
    let world = World::new().await;
    let mut client = Local::ready(&world, "2025-11-25").await;
    let question = client.ask(call(1, "ask", json!({}))).await;
    assert_eq!((&question["method"], &question["params"]["message"]), (&json!("elicitation/create"), &json!("name?")));
    let given = json!({ "action": "accept", "content": { "name": "x" } });
    let answer = client.ask(json!({ "jsonrpc": "2.0", "id": question["id"], "result": given.clone() })).await;
    assert_eq!((&answer["id"], &answer["result"]["answer"]), (&json!(1), &given));
    world.server.wait_for(Method::Listen, 1).await;
    world.server.told.send((Method::ToolsListChanged, json!({}))).unwrap();
    assert_eq!(client.next().await.unwrap()["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn an_array_is_a_batch_in_one_version_only() {
    let world = World::new().await;
    let batch = json!([ping(1), { "jsonrpc": "2.0", "method": "notifications/roots/list_changed" }, ping(2)]);
    let mut client = Local::ready(&world, "2025-03-26").await;
    client.tell(batch.clone()).await;
    let mut ids = vec![client.next().await.unwrap()["id"].clone(), client.next().await.unwrap()["id"].clone()];
    ids.sort_by_key(Value::as_u64);
    assert_eq!(ids, [1, 2]);
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let mut client = Local::ready(&world, version).await;
        assert_eq!(client.ask(batch.clone()).await["error"]["code"], -32600, "{version}");
        assert_eq!(client.ask(ping(3)).await["id"], 3);
    }
}

#[tokio::test]
async fn both_eras_share_the_streams_and_run_concurrently() {
    let world = World::new().await;
    let modern = Modern::of(&world, "ann", "{}");
    let mut client = Local::of(&world);
    let discovered = client.ask(modern.message("d", "server/discover", json!({}))).await;
    assert_eq!((&discovered["id"], &discovered["result"]["resultType"]), (&json!("d"), &json!("complete")));
    client.ask(initialize("2025-06-18", json!({}))).await;
    client.tell(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    client.tell(modern.message(1, "tools/call", json!({ "name": "hold", "arguments": { "say": "later" } }))).await;
    world.server.wait_for(Method::ToolsCall, 1).await;
    let echo = client.ask(call(1, "echo", json!({ "say": "sooner" }))).await;
    assert_eq!(echo["result"]["said"], "sooner");
    world.server.gate.add_permits(1);
    let held = client.next().await.unwrap();
    assert_eq!(held["result"]["said"], "later");
}

#[tokio::test]
async fn listens_are_told_apart_by_their_ids_and_end_by_a_cancellation() {
    let world = World::new().await;
    let modern = Modern::of(&world, "ann", "{}");
    let mut client = Local::of(&world);
    let chosen = json!({ "notifications": { "toolsListChanged": true } });
    for id in ["one", "two"] {
        let acknowledged = client.ask(modern.message(id, "subscriptions/listen", chosen.clone())).await;
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    }
    world.server.told.send((Method::ToolsListChanged, json!({}))).unwrap();
    let mut told: Vec<Value> = Vec::new();
    for _ in 0..2 {
        let id = &client.next().await.unwrap()["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        told.push(id.clone());
    }
    told.sort_by_key(|id| id.as_str().map(str::to_owned));
    assert_eq!(told, ["one", "two"]);
    for (left, id) in [(1, "one"), (0, "two")] {
        let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
        client.tell(cancel).await;
        while world.server.told.receiver_count() > left {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(client.ask(modern.message(3, "tools/call", json!({ "name": "echo" }))).await["id"], 3);
}

#[tokio::test]
async fn a_listen_ends_with_its_result_and_a_cancellation_when_the_gateway_stops() {
    let world = World::new().await;
    let modern = Modern::of(&world, "ann", "{}");
    let mut client = Local::of(&world);
    client.ask(modern.message("l", "subscriptions/listen", json!({ "notifications": {} }))).await;
    world.front.drain();
    let result = client.next().await.unwrap();
    assert_eq!((&result["id"], &result["result"]["resultType"]), (&json!("l"), &json!("complete")));
    let cancelled = client.next().await.unwrap();
    assert_eq!(
        cancelled,
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "l" } })
    );
    assert_eq!(client.next().await, None);
    client.end().await;
    world.front.close().await;
}

#[tokio::test]
async fn a_call_may_finish_while_the_gateway_stops() {
    let world = World::new().await;
    let mut client = Local::ready(&world, "2025-06-18").await;
    client.tell(call(1, "hold", json!({ "say": "done" }))).await;
    world.server.wait_for(Method::ToolsCall, 1).await;
    world.front.drain();
    world.server.gate.add_permits(1);
    assert_eq!(client.next().await.unwrap()["result"]["said"], "done");
    assert_eq!(client.next().await, None);
}

#[tokio::test]
async fn closing_the_input_ends_idle_clients_at_once_and_cancels_calls_after_a_second() {
    let world = World::new().await;
    let modern = Modern::of(&world, "ann", "{}");
    tokio::time::pause();
    let started = tokio::time::Instant::now();
    let mut idle = Local::ready(&world, "2025-06-18").await;
    idle.ask(modern.message("l", "subscriptions/listen", json!({ "notifications": {} }))).await;
    idle.close();
    assert_eq!(idle.next().await, None);
    idle.end().await;
    assert_eq!(started.elapsed().as_millis(), 0);
    let mut busy = Local::ready(&world, "2025-06-18").await;
    let mut hold = call(1, "hold", json!({ "say": "in time" }));
    busy.tell(hold.clone()).await;
    hold["id"] = 2.into();
    busy.tell(hold).await;
    // without an end of the line
    busy.write(
        modern
            .message(3, "tools/call", json!({ "name": "hold", "arguments": { "say": "in time" } }))
            .to_string()
            .as_bytes(),
    )
    .await;
    busy.close();
    world.server.wait_for(Method::ToolsCall, 3).await;
    world.server.gate.add_permits(1);
    assert_eq!(busy.next().await.unwrap()["result"]["said"], "in time");
    // a program that reads on learns that nothing follows
    for _ in 0..2 {
        let refused = busy.next().await.unwrap();
        assert!(refused["id"].is_number() && refused["error"]["code"] == -32603, "{refused}");
    }
    assert_eq!(busy.next().await, None);
    busy.end().await;
    assert_eq!(started.elapsed().as_secs(), 1);
    let mut fates = [world.server.fate().await, world.server.fate().await, world.server.fate().await];
    fates.sort_unstable();
    assert_eq!(fates, ["done", "dropped", "dropped"]);
}

#[tokio::test]
async fn a_line_that_is_no_message_is_answered_and_the_next_one_is_served() {
    let world = World::new().await;
    let mut client = Local::of(&world);
    for line in [
        &b"garbage"[..],
        b"{",
        b"[]",
        b"\"\xff\xfe\"",
        b"\0\0\0",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xc3\x28\"}",
        b"\x1b[31mhello",
    ] {
        client.write(&[line, b"\r\n\n  \n"].concat()).await;
        let answer = client.next().await.unwrap();
        assert!([-32700, -32600].map(Value::from).contains(&answer["error"]["code"]), "{line:?}: {answer}");
        assert_eq!(answer["id"], Value::Null, "{line:?}");
    }
    assert_eq!(client.ask(call(1, "echo", json!({}))).await["error"]["code"], -32600, "no handshake yet");
    let answer = client.ask(initialize("2025-06-18", json!({}))).await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
}

#[tokio::test]
async fn a_byte_order_mark_at_the_start_is_skipped() {
    let world = World::new().await;
    let mut client = Local::of(&world);
    client.write(b"\xef\xbb").await;
    tokio::task::yield_now().await;
    client.write(b"\xbf").await;
    assert_eq!(client.ask(initialize("2025-06-18", json!({}))).await["result"]["protocolVersion"], "2025-06-18");
    client.write(b"\xef\xbb\xbf").await;
    assert_eq!(client.ask(ping(1)).await["error"]["code"], -32700, "only at the start");
}

#[tokio::test]
async fn a_line_that_is_too_long_is_refused_and_the_next_one_is_served() {
    let world = World::with(super::limited(LimitsConfig { request_body: 100_000, ..LimitsConfig::default() })).await;
    let mut client = Local::ready(&world, "2025-06-18").await;
    for length in [100_001, 200_000, 10_000_000] {
        let mut line = ping(7).to_string().into_bytes();
        line.resize(length, b' ');
        line.push(b'\n');
        client.write(&line).await;
        let answer = client.next().await.unwrap();
        assert_eq!(answer["error"]["code"], -32600);
        assert_eq!(client.ask(ping(1)).await["result"], json!({}));
    }
    let mut line = ping(7).to_string().into_bytes();
    line.resize(100_000, b' ');
    line.push(b'\n');
    client.write(&line).await;
    assert_eq!(client.next().await.unwrap()["id"], 7, "the bound itself is allowed");
}

#[tokio::test]
async fn a_flood_without_line_end_needs_no_memory_and_is_refused_once() {
    let world = World::with(super::limited(LimitsConfig { request_body: 100_000, ..LimitsConfig::default() })).await;
    let mut client = Local::ready(&world, "2025-06-18").await;
    let flood = "x".repeat(PIPE);
    for _ in 0..1_000 {
        client.write(flood.as_bytes()).await;
    }
    assert_eq!(client.next().await.unwrap()["error"]["code"], -32600);
    client.write(b"\n").await;
    assert_eq!(client.ask(ping(1)).await["result"], json!({}));
    client.write(flood.as_bytes()).await;
    client.close();
    let rest = client.next().await;
    assert_eq!(rest.map(|answer| answer["error"]["code"].clone()), Some((-32700).into()), "a part of a line");
}

#[tokio::test]
async fn messages_arrive_however_slowly_their_bytes_drip() {
    let world = World::new().await;
    let mut client = Local::of(&world);
    for byte in format!("{}\n", initialize("2025-06-18", json!({}))).bytes() {
        client.write(&[byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(client.next().await.unwrap()["result"]["protocolVersion"], "2025-06-18");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_not_read_either() {
    let world = World::new().await;
    let mut client = Local::ready(&world, "2025-06-18").await;
    let mut input = client.input.take().unwrap();
    let mut asking = JoinSet::new();
    asking.spawn(async move {
        for id in 1..=20_000 {
            input.write_all(format!("{}\n", ping(id)).as_bytes()).await.unwrap();
        }
        input
    });
    // another client is served meanwhile
    let mut other = Local::ready(&world, "2025-06-18").await;
    for id in 1..=1_000 {
        assert_eq!(other.ask(ping(id)).await["id"], id);
    }
    assert!(asking.try_join_next().is_none(), "the gateway reads only what it can answer");
    for id in 1..=20_000 {
        assert_eq!(client.next().await.unwrap()["id"], id, "no answer is lost, in this order");
    }
    asking.join_next().await.unwrap().unwrap();
}

#[tokio::test]
async fn answers_that_come_all_at_once_are_all_written() {
    let world = World::new().await;
    let mut client = Local::ready(&world, "2025-06-18").await;
    for id in 0..250 {
        client.tell(call(id, "hold", json!({}))).await;
    }
    world.server.wait_for(Method::ToolsCall, 250).await;
    world.server.gate.add_permits(250);
    let mut ids = Vec::new();
    while ids.len() < 250 {
        ids.push(client.next().await.unwrap()["id"].as_u64().unwrap());
    }
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..250));
}

#[tokio::test]
async fn a_client_that_stops_reading_holds_nothing_up_and_closing_ends_it() {
    let world = World::new().await;
    let mut client = Local::ready(&world, "2025-11-25").await;
    world.server.wait_for(Method::Listen, 1).await;
    // more than pipe and queue hold
    for number in 0..5_000 {
        let params = json!({ "level": "info", "data": "x".repeat(1_000), "logger": number.to_string() });
        world.server.told.send((Method::LoggingMessage, params)).unwrap();
        tokio::task::yield_now().await;
    }
    let mut other = Local::ready(&world, "2025-11-25").await;
    assert_eq!(other.ask(ping(1)).await["id"], 1);
    client.tell(call(2, "hold", json!({}))).await;
    client.output = None;
    client.end().await;
}

#[tokio::test]
async fn the_channel_ends_with_its_credential() {
    let world = World::new().await;
    let mut client = Local::ready(&world, "2025-06-18").await;
    client.tell(call(1, "hold", json!({}))).await;
    world.server.wait_for(Method::ToolsCall, 1).await;
    client.admission.lease.revoked.cancel();
    while let Some(message) = client.next().await {
        assert_eq!(message["error"]["message"], "access was revoked; log in again");
    }
    assert_eq!(world.server.fate().await, "dropped");
    client.end().await;
}
