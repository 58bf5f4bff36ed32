//! WebSocket: both eras on a connection, through the gateway's own listener.

use std::time::Duration;

use axum::Extension;
use futures_util::{SinkExt as _, StreamExt as _};
use http::StatusCode;
use lockkeeper::{
    listener::{self, Lifecycle},
    mcp::{Method, Payload, Reply, Revision},
    model::LimitsConfig,
    resource::Authorized,
    support::Live,
};
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
    time::{Instant, timeout},
};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{
        self, Message as Frame,
        client::IntoClientRequest as _,
        protocol::{CloseFrame, frame::coding::CloseCode},
    },
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{World, admission, call, initialize, modern::Modern};

/// A gateway on a socket, for one caller. Dropping it ends its connections.
struct Gateway {
    address: std::net::SocketAddr,
    admission: Authorized,
    _cancel: DropGuard,
}

/// One connection of a client.
struct Socket(WebSocketStream<TcpStream>);

// === impl Gateway ===

impl Gateway {
    async fn of(world: &World) -> Self {
        Self::of_user(world, "ann").await
    }

    async fn of_user(world: &World, user: &str) -> Self {
        let admission = admission(user);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = world.router.clone().layer(Extension(admission.clone()));
        let settings = listener::ListenerSettings { connections: 8, limits: Live::default(), proxies: Vec::new() };
        let cancel = CancellationToken::new();
        let tracker = TaskTracker::new();
        let lifecycle = Lifecycle {
            workers: listener::Workers::present(),
            tracker: tracker.clone(),
            drain: CancellationToken::new(),
            cancel: cancel.clone(),
        };
        tracker.spawn(listener::serve(listener, router, settings, lifecycle));
        Self { address, admission, _cancel: cancel.drop_guard() }
    }

    async fn try_open(&self, path: &str, subprotocol: Option<&'static str>) -> Result<Socket, tungstenite::Error> {
        let mut request = format!("ws://{}{path}", self.address).into_client_request().unwrap();
        if let Some(subprotocol) = subprotocol {
            request.headers_mut().insert("sec-websocket-protocol", subprotocol.parse().unwrap());
        }
        let (socket, response) = client_async(request, TcpStream::connect(self.address).await.unwrap()).await?;
        assert_eq!(response.headers()["sec-websocket-protocol"], "mcp");
        Ok(Socket(socket))
    }

    async fn open(&self) -> Socket {
        self.try_open("/ws", Some("mcp")).await.unwrap()
    }

    /// A connection with an open session.
    async fn ready(&self, version: &str) -> Socket {
        let mut socket = self.open().await;
        let answer = socket.ask(initialize(version, json!({ "roots": {}, "elicitation": {} }))).await;
        assert_eq!(answer["result"]["protocolVersion"], version);
        socket.tell(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        socket
    }
}

// === impl Socket ===

impl Socket {
    async fn tell(&mut self, message: Value) {
        self.0.send(Frame::text(message.to_string())).await.unwrap();
    }

    /// The next message; `None` at the end of the connection.
    async fn next(&mut self) -> Option<Value> {
        loop {
            match self.0.next().await? {
                Ok(Frame::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
                Ok(Frame::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// The reason for which the connection is closed.
    async fn closed(&mut self) -> CloseFrame {
        loop {
            if let Frame::Close(closed) = self.0.next().await.unwrap().unwrap() {
                return closed.unwrap();
            }
        }
    }

    async fn ask(&mut self, message: Value) -> Value {
        self.tell(message).await;
        self.next().await.unwrap()
    }
}

fn tools() -> Reply {
    Reply::complete(Payload::of(Revision::NEWEST_LEGACY, &json!({ "tools": [] })))
}

#[tokio::test]
async fn each_legacy_version_lists_calls_and_gets_progress() {
    let world = World::new().await;
    let gateway = Gateway::of(&world).await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut socket = gateway.ready(version).await;
        world.server.plays.lock().push_back(tools());
        let listed = socket.ask(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" })).await;
        assert_eq!(listed, json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": [] } }), "{version}");
        let progress = socket.ask(call(2, "progress", json!({ "say": "hi" }))).await;
        assert_eq!(progress["method"], "notifications/progress");
        assert_eq!(progress["params"]["progressToken"], "p");
        let answer = socket.next().await.unwrap();
        assert_eq!((&answer["id"], &answer["result"]["said"]), (&json!(2), &json!("hi")));
    }
}

#[tokio::test]
async fn a_legacy_client_gets_server_requests_during_a_call() {
    let world = World::new().await;
    let gateway = Gateway::of(&world).await;
    let mut socket = gateway.ready("2025-06-18").await;
    let question = socket.ask(call(1, "ask", json!({}))).await;
    assert_eq!((&question["method"], &question["params"]["message"]), (&json!("elicitation/create"), &json!("name?")));
    let given = json!({ "action": "accept", "content": { "name": "x" } });
    let answer = socket.ask(json!({ "jsonrpc": "2.0", "id": question["id"], "result": given.clone() })).await;
    assert_eq!((&answer["id"], &answer["result"]["answer"]), (&json!(1), &given));
}

#[tokio::test]
async fn notifications_outside_of_calls_come_on_the_same_connection() {
    let world = World::new().await;
    let gateway = Gateway::of(&world).await;
    let mut socket = gateway.ready("2025-11-25").await;
    world.server.wait_for(Method::Listen, 1).await;
    world.server.told.send((Method::ToolsListChanged, json!({}))).unwrap();
    assert_eq!(socket.next().await.unwrap()["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn a_cancellation_ends_the_call_without_an_answer() {
    let world = World::new().await;
    let gateway = Gateway::of(&world).await;
    let mut legacy = gateway.ready("2025-06-18").await;
    let client = Modern::of(&world, "ann", "{}");
    let mut modern = gateway.open().await;
    let held = client.message(7, "tools/call", json!({ "name": "hold", "arguments": {} }));
    for (socket, held) in [(&mut legacy, call(7, "hold", json!({}))), (&mut modern, held)] {
        let before = world.server.calls.lock().iter().filter(|call| call.method == Method::ToolsCall).count();
        socket.tell(held).await;
        world.server.wait_for(Method::ToolsCall, before + 1).await;
        let cancel = json!({ "requestId": 7, "reason": "enough" });
        socket.tell(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel })).await;
        assert_eq!(world.server.fate().await, "dropped");
        let cancel_reason = world.server.calls.lock().last().unwrap().context.cancel_reason.clone();
        assert_eq!(cancel_reason.reason(), "enough");
    }
    assert_eq!(legacy.ask(json!({ "jsonrpc": "2.0", "id": 8, "method": "ping" })).await["id"], 8);
    let echo = client.message(8, "tools/call", json!({ "name": "echo", "arguments": { "say": "on" } }));
    assert_eq!(modern.ask(echo).await["result"]["said"], "on");
}

#[tokio::test]
async fn closing_the_connection_cancels_everything_on_it() {
    let world = World::new().await;
    let gateway = Gateway::of(&world).await;
    let mut socket = gateway.ready("2025-06-18").await;
    let client = Modern::of(&world, "ann", "{}");
    socket.tell(call(1, "hold", json!({}))).await;
    socket.tell(client.message(2, "tools/call", json!({ "name": "hold", "arguments": {} }))).await;
    world.server.wait_for(Method::ToolsCall, 2).await;
    assert_eq!(world.front.status()[0].endpoint, "/ws");
    drop(socket);
    assert_eq!((world.server.fate().await, world.server.fate().await), ("dropped", "dropped"));
    while !world.ended.lock().iter().any(|id| id.session().is_some()) {
        tokio::task::yield_now().await;
    }
    assert!(world.front.status().iter().all(|client| client.id.is_none()), "the session ended with its connection");
}

#[tokio::test]
async fn requests_without_a_session_run_concurrently() {
    let world = World::new().await;
    let gateway = Gateway::of(&world).await;
    let client = Modern::of(&world, "ann", r#"{"elicitation":{}}"#);
    let mut socket = gateway.open().await;
    world.server.plays.lock().push_back(tools());
    let listed = socket.ask(client.message(1, "tools/list", json!({}))).await;
    assert_eq!((&listed["id"], &listed["result"]["tools"]), (&json!(1), &json!([])));
    socket.tell(client.message(2, "tools/call", json!({ "name": "hold", "arguments": { "say": "later" } }))).await;
    world.server.wait_for(Method::ToolsCall, 1).await;
    let params = json!({ "name": "progress", "arguments": { "say": "sooner" }, "_meta": { "progressToken": "p" } });
    let progress = socket.ask(client.message(3, "tools/call", params)).await;
    assert_eq!((&progress["method"], &progress["params"]["progress"]), (&json!("notifications/progress"), &json!(1)));
    assert_eq!(socket.next().await.unwrap()["result"]["said"], "sooner");
    world.server.gate.add_permits(1);
    let answer = socket.next().await.unwrap();
    assert_eq!((&answer["id"], &answer["result"]["said"]), (&json!(2), &json!("later")));
}

#[tokio::test]
async fn a_request_without_a_session_gets_server_requests_in_its_result() {
    let world = World::new().await;
    let gateway = Gateway::of(&world).await;
    let client = Modern::of(&world, "ann", r#"{"elicitation":{"form":{},"url":{}}}"#);
    let mut socket = gateway.open().await;
    let arguments = json!({ "method": "elicitation/create", "schema": { "type": "object", "properties": {} } });
    let params = json!({ "name": "ask", "arguments": arguments });
    let asked = socket.ask(client.message(1, "tools/call", params.clone())).await["result"].clone();
    assert_eq!(asked["resultType"], "input_required");
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let given = json!({ "action": "accept", "content": {} });
    let mut again = params;
    again["requestState"] = asked["requestState"].clone();
    again["inputResponses"] = json!({ key: given });
    let answer = socket.ask(client.message(2, "tools/call", again)).await;
    assert_eq!((&answer["id"], &answer["result"]["answer"]), (&json!(2), &given), "{answer}");
}

#[tokio::test]
async fn a_listen_without_a_session_ends_by_a_cancellation() {
    let world = World::new().await;
    let gateway = Gateway::of(&world).await;
    let client = Modern::of(&world, "ann", "{}");
    let mut socket = gateway.open().await;
    let chosen = json!({ "notifications": { "toolsListChanged": true } });
    let acknowledged = socket.ask(client.message("l", "subscriptions/listen", chosen)).await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    world.server.told.send((Method::ToolsListChanged, json!({}))).unwrap();
    let told = socket.next().await.unwrap();
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "l");
    let cancel = json!({ "requestId": "l" });
    socket.tell(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel })).await;
    while world.server.told.receiver_count() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_invalid_message_is_answered_and_the_connection_goes_on() {
    let world = World::new().await;
    let gateway = Gateway::of(&world).await;
    let mut socket = gateway.open().await;
    socket.0.send(Frame::text("{")).await.unwrap();
    assert_eq!(socket.next().await.unwrap()["error"]["code"], -32700);
    assert_eq!(socket.ask(call(1, "echo", json!({}))).await["error"]["code"], -32600, "no handshake yet");
    let unknown = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": { "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2099-01-01", "io.modelcontextprotocol/clientCapabilities": {},
    } } });
    assert_eq!(socket.ask(unknown).await["error"]["code"], -32022);
    let answer = socket.ask(initialize("2025-06-18", json!({}))).await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
}

#[tokio::test]
async fn a_connection_ends_with_its_credential_and_with_the_gateway() {
    let world = World::new().await;
    let gateway = Gateway::of(&world).await;
    let mut revoked = gateway.ready("2025-06-18").await;
    gateway.admission.lease.revoked.cancel();
    assert_eq!(revoked.next().await, None);
    let gateway = Gateway::of(&world).await;
    let mut drained = gateway.open().await;
    world.front.drain();
    assert_eq!(drained.next().await, None);
    world.front.close().await;
}

#[tokio::test]
async fn a_frame_that_is_no_message_ends_the_connection_with_its_reason() {
    let world = World::with(super::limited(LimitsConfig { request_body: 100_000, ..LimitsConfig::default() })).await;
    let gateway = Gateway::of(&world).await;
    let revoked = &gateway.admission.lease.revoked;
    let cases = [
        (Some(Frame::binary(b"{}".to_vec())), CloseCode::Unsupported),
        (Some(Frame::text("x".repeat(200_000))), CloseCode::Size),
        (None, CloseCode::Policy),
    ];
    for (frame, code) in cases {
        let mut socket = gateway.ready("2025-06-18").await;
        match frame {
            Some(frame) => {
                socket.0.send(frame).await.unwrap();
                assert_eq!(socket.next().await.unwrap()["error"]["code"], -32600);
            }
            None => revoked.cancel(),
        }
        assert_eq!(socket.closed().await.code, code);
    }
}

#[tokio::test]
async fn a_broken_frame_is_closed_by_its_code_and_a_close_is_answered() {
    let world = World::new().await;
    let gateway = Gateway::of(&world).await;
    // text that is no UTF-8; a frame without a mask; a ping in fragments
    for (frame, code) in [
        (&[0x81, 0x81, 0, 0, 0, 0, 0xff][..], CloseCode::Invalid),
        (&[0x81, 0x01, b'x'], CloseCode::Protocol),
        (&[0x09, 0x80, 0, 0, 0, 0], CloseCode::Protocol),
    ] {
        let mut socket = gateway.ready("2025-06-18").await;
        socket.0.get_mut().write_all(frame).await.unwrap();
        assert_eq!(socket.closed().await.code, code, "{frame:?}");
    }
    let mut socket = gateway.ready("2025-06-18").await;
    let normal = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    socket.0.send(Frame::Close(Some(normal))).await.unwrap();
    assert_eq!(socket.closed().await.code, CloseCode::Normal);
}

#[tokio::test]
async fn one_users_flood_of_pings_ends_that_connection_and_no_other() {
    /// A ping without content and with a mask of zeros.
    const PING: [u8; 6] = [0x89, 0x80, 0, 0, 0, 0];
    /// More than the buffers of both sockets hold.
    const FLOOD: usize = 64 * 1024 * 1024;
    let world = World::new().await;
    let (hostile, other) = (Gateway::of_user(&world, "bob").await, Gateway::of_user(&world, "ann").await);
    let mut flooding = hostile.ready("2025-06-18").await;
    let mut served = other.ready("2025-06-18").await;
    let pings = PING.repeat(10_000);
    let mut sent = 0;
    // bob reads nothing
    while sent < FLOOD && flooding.0.get_mut().write_all(&pings).await.is_ok() {
        sent += pings.len();
        assert_eq!(served.ask(json!({ "jsonrpc": "2.0", "id": sent, "method": "ping" })).await["id"], sent);
    }
    assert!(sent < FLOOD, "the gateway goes on reading pings");
    assert_eq!(served.ask(call(1, "echo", json!({ "say": "on" }))).await["result"]["said"], "on");
    // one that reads learns the reason
    let mut told = hostile.ready("2025-06-18").await;
    told.0.get_mut().write_all(&PING.repeat(101)).await.unwrap();
    let closed = told.closed().await;
    assert_eq!(closed.code, CloseCode::Policy);
    assert!(closed.reason.contains("too many control frames"), "{closed:?}");
}

#[tokio::test]
async fn an_unfinished_message_has_the_deadline_of_a_body_whatever_pings_go_by() {
    let world = World::new().await;
    let gateway = Gateway::of(&world).await;
    let mut socket = gateway.ready("2025-06-18").await;
    // the first fragment of a text
    socket.0.get_mut().write_all(&[0x01, 0x81, 0, 0, 0, 0, b'{']).await.unwrap();
    tokio::time::pause();
    let started = Instant::now();
    let closed = loop {
        tokio::select! {
            closed = socket.closed() => break closed,
            () = tokio::time::sleep(Duration::from_secs(1)) => socket.0.send(Frame::Pong(Vec::new().into())).await.unwrap(),
        }
    };
    assert_eq!(closed.code, CloseCode::Policy);
    assert!(closed.reason.contains("did not arrive in time"), "{closed:?}");
    assert!(started.elapsed() < Duration::from_mins(1), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_connection_without_a_frame_for_too_long_is_closed_and_pings_keep_it() {
    let world = World::new().await;
    let gateway = Gateway::of(&world).await;
    let mut answering = gateway.ready("2025-06-18").await;
    let mut silent = gateway.ready("2025-06-18").await;
    tokio::time::pause();
    // reading answers pings; the other one reads nothing
    let started = Instant::now();
    let mut pings = 0;
    while started.elapsed().as_secs() < 100 {
        tokio::select! {
            frame = answering.0.next() => {
                assert!(matches!(frame.unwrap().unwrap(), Frame::Ping(_)));
                pings += 1;
            }
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
    }
    assert!(pings >= 5, "{pings}");
    assert_eq!(answering.ask(json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })).await["id"], 1);
    assert_eq!(silent.next().await, None);
}

#[tokio::test]
async fn nothing_is_said_after_the_lease_of_the_gateway_until_it_has_another() {
    let world = World::new().await;
    let gateway = Gateway::of(&world).await;
    let mut socket = gateway.ready("2025-06-18").await;
    tokio::time::pause();
    world.fence.open_until(Instant::now());
    world.server.plays.lock().push_back(tools());
    socket.tell(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" })).await;
    world.server.wait_for(Method::ToolsList, 1).await;
    assert!(timeout(Duration::from_secs(5), socket.next()).await.is_err());
    world.fence.open_until(Instant::now() + Duration::from_mins(1));
    assert_eq!(socket.next().await.unwrap()["id"], 1);
}

#[tokio::test]
async fn the_subprotocol_must_be_offered_and_the_endpoint_must_exist() {
    let world = World::new().await;
    let gateway = Gateway::of(&world).await;
    for (path, subprotocol, status) in [
        ("/ws", None, StatusCode::BAD_REQUEST),
        ("/ws", Some("chat"), StatusCode::BAD_REQUEST),
        ("/ws/unknown", Some("mcp"), StatusCode::NOT_FOUND),
    ] {
        match gateway.try_open(path, subprotocol).await {
            Err(tungstenite::Error::Http(response)) => assert_eq!(response.status(), status, "{path} {subprotocol:?}"),
            other => panic!("{path} {subprotocol:?}: {:?}", other.err()),
        }
    }
    let mut one = gateway.try_open("/ws/git", Some("mcp")).await.unwrap();
    let answer = one.ask(initialize("2025-06-18", json!({}))).await;
    assert_eq!(answer["result"]["serverInfo"]["name"], "git");
}
