//! The end of everything that a user has, while it is used.

use std::path::Path;

use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::StatusCode;
use serde_json::json;
use tokio::net::TcpStream;
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message as Frame, client::IntoClientRequest as _},
};

use super::{Gateway, Response, client, made_key};
use crate::{kit::gateway::run, support::data_folder::DataFolder};

/// Streams of one client: HTTP+SSE, the standalone stream of a session, a listen of 2026-07-28, a WebSocket.
struct Streams {
    responses: Vec<Response>,
    socket: WebSocketStream<TcpStream>,
}

async fn post(gateway: &Gateway, key: &str, message: &serde_json::Value, session: Option<&str>) -> Response {
    let request = client()
        .post(format!("{}/mcp", gateway.url))
        .bearer_auth(key)
        .header("accept", "application/json, text/event-stream");
    let request = session.map_or(request.try_clone().unwrap(), |session| request.header("mcp-session-id", session));
    request.header("content-type", "application/json").body(message.to_string()).send().await.unwrap()
}

impl Streams {
    async fn open(gateway: &Gateway, key: &str) -> Self {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } });
        let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
        let opened = post(gateway, key, &hello, None).await;
        let session = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        post(gateway, key, &initialized, Some(&session)).await;
        let standalone = client().get(format!("{}/mcp", gateway.url)).bearer_auth(key);
        let standalone = standalone.header("accept", "text/event-stream").header("mcp-session-id", session);
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({ "_meta": meta, "notifications": { "toolsListChanged": true } });
        let listen = json!({ "jsonrpc": "2.0", "id": 2, "method": "subscriptions/listen", "params": params });
        let listen = client().post(format!("{}/mcp", gateway.url)).bearer_auth(key).body(listen.to_string());
        let listen =
            listen.header("content-type", "application/json").header("accept", "application/json, text/event-stream");
        let listen = listen.header("mcp-protocol-version", "2026-07-28").header("mcp-method", "subscriptions/listen");
        let responses =
            vec![gateway.get("/sse", Some(key)).await, standalone.send().await.unwrap(), listen.send().await.unwrap()];
        for response in &responses {
            assert_eq!(response.status(), StatusCode::OK, "{response:?}");
        }
        let address = gateway.url.trim_start_matches("http://");
        let mut request = format!("ws://{address}/ws").into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
        request.headers_mut().insert("sec-websocket-protocol", "mcp".parse().unwrap());
        let (mut socket, _) = client_async(request, TcpStream::connect(address).await.unwrap()).await.unwrap();
        socket.send(Frame::text(hello.to_string())).await.unwrap();
        socket.next().await.unwrap().unwrap();
        Self { responses, socket }
    }

    /// Waits for the end of each.
    async fn end(mut self) {
        for response in &mut self.responses {
            while let Ok(Some(_)) = response.chunk().await {}
        }
        while let Some(Ok(_)) = self.socket.next().await {}
    }
}

/// The id of the only key of this user.
fn key_of(data: &Path, user: &str) -> String {
    let keys: serde_json::Value = serde_json::from_str(&run(data, &["keys", "list", "--json"])).unwrap();
    let key = keys["keys"].as_array().unwrap().iter().find(|key| key["user"] == user).unwrap();
    key["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_116_what_a_user_or_a_key_has_open_ends_on_every_transport_and_nobody_else_is_touched() {
    let folder = DataFolder::new();
    let data = folder.path();
    let gateway = Gateway::start(data).await;
    let bob = made_key(data, &["--direct", "--user", "bob"]);
    let ann = made_key(data, &["--direct", "--user", "ann"]);
    let others = Streams::open(&gateway, &bob).await;
    let status = async |key: &str| gateway.get("/sse", Some(key)).await.status();

    let streams = Streams::open(&gateway, &ann).await;
    run(data, &["users", "disable", "ann"]);
    streams.end().await;
    assert_eq!(status(&ann).await, StatusCode::UNAUTHORIZED);
    run(data, &["users", "enable", "ann"]);
    assert_eq!(status(&ann).await, StatusCode::OK);

    let streams = Streams::open(&gateway, &ann).await;
    run(data, &["keys", "revoke", &key_of(data, "ann")]);
    streams.end().await;
    assert_eq!(status(&ann).await, StatusCode::UNAUTHORIZED);

    let ann = made_key(data, &["--direct", "--user", "ann"]);
    let streams = Streams::open(&gateway, &ann).await;
    run(data, &["users", "delete", "ann"]);
    streams.end().await;
    assert_eq!(status(&ann).await, StatusCode::UNAUTHORIZED);
    assert!(!run(data, &["users", "list"]).contains("ann"));
    let events = run(data, &["audit", "--user", "ann"]);
    for event in ["user_disabled", "user_enabled", "user_deleted"] {
        assert!(events.contains(event), "{events}");
    }
    // another user of the same name has nothing of it
    let another = made_key(data, &["--direct", "--user", "ann"]);
    assert_eq!(status(&another).await, StatusCode::OK);
    assert_eq!(status(&ann).await, StatusCode::UNAUTHORIZED);

    assert_eq!(status(&bob).await, StatusCode::OK);
    run(data, &["users", "delete", "bob"]);
    others.end().await;
    gateway.stop().await;
}
