//! A server behind a WebSocket, of each era, with a script.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Router,
    extract::{
        State,
        ws::{Message as Frame, WebSocket, WebSocketUpgrade},
    },
    http::HeaderMap,
    response::Response,
    routing::get,
};
use lockkeeper::{
    mcp::{Event, Method},
    model::{BackendId, BackendSpec, HttpSpec, TransportSpec, status::BackendState},
    support::Secret,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    channel_script::{ScriptedEra, answers},
    scripted_http_server::named,
    scripted_servers::{client, failure, gateway, next, result, started, text, tool, until},
};

/// The input of the server: the header of the upgrade, then each message.
type Seen = Arc<Mutex<Vec<Value>>>;

/// A scripted server.
struct Server {
    url: String,
    seen: Seen,
    _task: JoinSet<()>,
}

impl Server {
    async fn start(speaks: ScriptedEra) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/mcp", listener.local_addr().unwrap());
        let seen = Seen::default();
        let app = Router::new().route("/mcp", get(upgrade)).with_state((speaks, Arc::clone(&seen)));
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, seen, _task: task }
    }

    fn spec(&self) -> BackendSpec {
        let headers = BTreeMap::from([("Authorization".to_owned(), Secret::new("Bearer configured"))]);
        let socket = HttpSpec { headers, ..HttpSpec::new(self.url.parse().unwrap()) };
        BackendSpec::new(BackendId::parse("docs").unwrap(), TransportSpec::WebSocket(socket))
    }

    fn methods(&self) -> Vec<String> {
        let seen = self.seen.lock();
        seen.iter().filter_map(|message| message["method"].as_str()).map(str::to_owned).collect()
    }
}

async fn upgrade(
    State((speaks, seen)): State<(ScriptedEra, Seen)>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    seen.lock().push(json!({ "authorization": headers["authorization"].to_str().unwrap() }));
    upgrade.protocols(["mcp"]).on_upgrade(move |socket| serve(speaks, seen, socket))
}

async fn serve(speaks: ScriptedEra, seen: Seen, mut socket: WebSocket) {
    while let Some(Ok(frame)) = socket.recv().await {
        let Frame::Text(text) = frame else { continue };
        let message: Value = serde_json::from_str(&text).unwrap();
        seen.lock().push(message.clone());
        if message["params"]["name"] == "close" {
            return;
        }
        for frame in around(message["params"]["name"].as_str().unwrap_or_default()) {
            let _ = socket.send(frame).await;
        }
        for answer in answers(speaks, &message) {
            let _ = socket.send(Frame::Text(answer.to_string().into())).await;
        }
    }
}

/// Further frames before the answer to a call of this tool.
fn around(tool: &str) -> Vec<Frame> {
    match tool {
        "noise" => vec![
            Frame::Text("no message".into()),
            Frame::Text(String::new().into()),
            Frame::Binary(vec![0xff, 0x00].into()),
            Frame::Ping(vec![1].into()),
            Frame::Text("{\"jsonrpc\":".into()),
        ],
        "big" => {
            let log = json!({ "method": "notifications/message", "params": { "data": "x".repeat(10 << 20) } });
            vec![Frame::Text(
                json!({ "jsonrpc": "2.0", "method": log["method"], "params": log["params"] }).to_string().into(),
            )]
        }
        "pings" => vec![Frame::Ping(Vec::new().into()); 200],
        "flood" => vec![Frame::Text("x".repeat(17 << 20).into())],
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn the_era_is_detected_and_calls_are_served() {
    for (speaks, version) in [(ScriptedEra::Legacy, "2025-06-18"), (ScriptedEra::Modern, "2026-07-28")] {
        let peer = Server::start(speaks).await;
        let (supervisor, server) = started(peer.spec()).await;
        let status = supervisor.status().remove(0);
        assert_eq!(status.state, BackendState::Ready);
        assert_eq!((status.transport.as_str(), status.protocol_version.as_deref()), ("websocket", Some(version)));
        let asked = json!({ "name": "x", "_meta": { "progressToken": "p" } });
        let mut reply = tool(&server, client("one", "{}"), &asked);
        let Event::Notified(told) = next(&mut reply).await else { panic!("progress comes first") };
        assert_eq!((told.method, told.params.string("progressToken").as_deref()), (Method::Progress, Some("p")));
        assert!(result(reply).await.contains("over a channel"));
        assert_eq!(peer.seen.lock()[0]["authorization"], "Bearer configured");
        supervisor.shutdown().await;
    }
}

#[tokio::test]
async fn a_cancelled_call_is_cancelled_by_a_message() {
    for speaks in [ScriptedEra::Legacy, ScriptedEra::Modern] {
        let peer = Server::start(speaks).await;
        let (_supervisor, server) = started(peer.spec()).await;
        let mut reply = tool(&server, client("one", "{}"), &named("silent"));
        let begun = || peer.methods().contains(&"tools/call".to_owned()).then_some(());
        tokio::select! {
            event = next(&mut reply) => panic!("the server is silent: {event:?}"),
            () = until("the call", begun) => {}
        }
        drop(reply);
        until("the cancellation", || peer.methods().contains(&"notifications/cancelled".to_owned()).then_some(()))
            .await;
    }
}

#[tokio::test]
async fn a_server_request_of_a_legacy_server_comes_in_its_call() {
    let peer = Server::start(ScriptedEra::Legacy).await;
    let (_supervisor, server) = started(peer.spec()).await;
    let mut reply = tool(&server, client("one", r#"{"elicitation":{}}"#), &named("ask"));
    let Event::Asked(question) = next(&mut reply).await else { panic!("the server asks") };
    assert_eq!(question.method, Method::Elicit);
    drop(question);
    let answered = || peer.seen.lock().iter().find(|message| message["id"] == "q").cloned();
    assert!(until("the answer", answered).await.get("error").is_some());
    // each client session has a connection of its own
    assert_eq!(text(tool(&server, gateway(), &named("x"))).await, "over a channel");
    let upgrades = peer.seen.lock().iter().filter(|message| message.get("authorization").is_some()).count();
    assert!(upgrades >= 2, "{upgrades}");
}

#[tokio::test]
async fn a_lost_connection_is_reopened() {
    let peer = Server::start(ScriptedEra::Legacy).await;
    let (_supervisor, server) = started(peer.spec()).await;
    let lost = failure(tool(&server, client("one", "{}"), &named("close"))).await;
    assert!(lost.message().contains("was lost") && lost.may_pass(), "{lost}");
    assert!(String::from_utf8_lossy(lost.json()).contains(r#""retryable":false"#), "{lost}");
    assert_eq!(text(tool(&server, client("one", "{}"), &named("x"))).await, "over a channel");
}

#[tokio::test]
async fn noise_harms_no_call_and_large_messages_arrive() {
    for speaks in [ScriptedEra::Legacy, ScriptedEra::Modern] {
        let peer = Server::start(speaks).await;
        let (supervisor, server) = started(peer.spec()).await;
        let upgrades = || peer.seen.lock().iter().filter(|message| message.get("authorization").is_some()).count();
        assert_eq!(text(tool(&server, client("one", "{}"), &named("x"))).await, "over a channel");
        let before = upgrades();
        for name in ["noise", "big", "x"] {
            assert_eq!(text(tool(&server, client("one", "{}"), &named(name))).await, "over a channel", "{name}");
        }
        assert_eq!(upgrades(), before, "the connection lives on");
        supervisor.shutdown().await;
    }
}

#[tokio::test]
async fn a_message_without_bound_ends_the_connection_alone() {
    let peer = Server::start(ScriptedEra::Legacy).await;
    let (_supervisor, server) = started(peer.spec()).await;
    let lost = failure(tool(&server, client("one", "{}"), &named("flood"))).await;
    assert!(lost.message().contains("was lost") && lost.may_pass(), "{lost}");
    assert!(String::from_utf8_lossy(lost.json()).contains(r#""retryable":false"#), "{lost}");
    for session in ["one", "two"] {
        assert_eq!(text(tool(&server, client(session, "{}"), &named("x"))).await, "over a channel");
    }
}

#[tokio::test]
async fn a_server_that_floods_pings_loses_its_connection_and_the_next_one_serves() {
    let peer = Server::start(ScriptedEra::Legacy).await;
    let (_supervisor, server) = started(peer.spec()).await;
    let lost = failure(tool(&server, client("one", "{}"), &named("pings"))).await;
    assert!(lost.message().contains("too many control frames"), "{lost}");
    for session in ["one", "two"] {
        assert_eq!(text(tool(&server, client(session, "{}"), &named("x"))).await, "over a channel");
    }
}

#[tokio::test]
async fn a_server_that_is_no_websocket_is_named() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/mcp", listener.local_addr().unwrap());
    let mut task = JoinSet::new();
    task.spawn(async move { axum::serve(listener, Router::new()).await.unwrap() });
    let socket = HttpSpec::new(url.parse().unwrap());
    let spec = BackendSpec::new(BackendId::parse("docs").unwrap(), TransportSpec::WebSocket(socket));
    let (supervisor, _server) = started(spec).await;
    let BackendState::Failed { reason, .. } = supervisor.status()[0].state.clone() else { panic!("no socket") };
    assert!(reason.contains("404 Not Found instead of a WebSocket"), "{reason}");
}
