//! The handshake, and the statuses of invalid requests (`translation` 2.2).

use http::{HeaderMap, HeaderValue, Method as Verb, StatusCode};
use insta::assert_snapshot;
use lockkeeper::{
    model::LimitsConfig,
    support::{Random, SeededRandom},
};
use serde_json::{Value, json};

use super::{Events, Start, World, body, call, initialize, text};

const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

#[tokio::test]
async fn each_legacy_version_is_answered_with_itself_and_the_rest_with_the_newest() {
    let world = World::new().await;
    for (asked, answered) in LEGACY.map(|v| (v, v)).into_iter().chain([("2026-07-28", LEGACY[3]), ("x", LEGACY[3])]) {
        let response = world.client("ann").send(initialize(asked, json!({}))).await;
        assert_eq!(response.status(), StatusCode::OK);
        let id = response.headers()["mcp-session-id"].to_str().unwrap();
        assert!(id.len() >= 43 && id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)));
        assert_eq!(body(response).await["result"]["protocolVersion"], answered);
    }
}

#[tokio::test]
async fn initialize_is_answered_with_the_servers_information() {
    let world = World::new().await;
    let response = world.client("ann").send(initialize("2025-06-18", json!({}))).await;
    assert_snapshot!(text(response).await, @r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"logging":{},"tools":{"listChanged":true}},"serverInfo":{"name":"all","version":"1"}}}"#);
    let mut git = world.client("ann");
    git.path = "/mcp/git/";
    assert_eq!(git.open("2025-06-18", json!({})).await["result"]["serverInfo"]["name"], "git");
}

#[tokio::test]
async fn an_invalid_initialize_opens_no_session() {
    let world = World::new().await;
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} });
    let response = world.client("ann").send(message).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert!(!response.headers().contains_key("mcp-session-id"));
    assert_eq!(body(response).await["error"]["code"], -32602);
    assert!(world.front.status().is_empty());
}

#[tokio::test]
async fn a_slow_start_is_awaited_on_a_stream_that_has_the_session_id() {
    let world = World::new().await;
    *world.server.start.lock() = Start::Slow;
    let mut client = world.client("ann");
    tokio::time::pause();
    let response = client.send(initialize("2025-06-18", json!({}))).await;
    tokio::time::resume();
    client.session = Some(response.headers()["mcp-session-id"].to_str().unwrap().to_owned());
    world.server.gate.add_permits(1);
    let mut events = Events::of(response);
    assert_eq!(events.message().await.unwrap()["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(client.send(call(1, "echo", json!({}))).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_server_that_does_not_start_leaves_no_session() {
    let world = World::new().await;
    *world.server.start.lock() = Start::Broken;
    let response = world.client("ann").send(initialize("2025-06-18", json!({}))).await;
    assert!(!response.headers().contains_key("mcp-session-id"));
    assert_eq!(body(response).await["error"]["message"], "it does not start");
    assert!(world.front.status().is_empty());
}

#[tokio::test]
async fn a_second_initialize_in_a_session_is_refused() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    let response = client.send(initialize("2025-06-18", json!({}))).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert_eq!(body(response).await["error"]["code"], -32600);
}

#[tokio::test]
async fn pings_are_answered_by_the_gateway_and_levels_by_the_server() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    let ask = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": 5, "method": method, "params": params });
    let answer = |message| async { body(client.send(message).await).await };
    assert_eq!(answer(ask("ping", json!({}))).await["result"], json!({}));
    assert_eq!(answer(ask("logging/setLevel", json!({ "level": "error" }))).await["result"], json!({}));
    assert_eq!(answer(ask("logging/setLevel", json!({ "level": "loud" }))).await["error"]["code"], -32602);
    assert_eq!(answer(ask("x/unknown", json!({}))).await["error"]["code"], -32601);
}

#[tokio::test]
async fn parameters_that_are_null_or_an_empty_list_are_absent_in_every_request() {
    for version in LEGACY {
        let world = World::new().await;
        let client = world.ready("ann", version).await;
        for params in [Value::Null, json!([])] {
            for (id, method) in
                [(json!(1), "ping"), (json!("1"), "ping"), (Value::Null, "notifications/roots/list_changed")]
            {
                let mut message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
                if !id.is_null() {
                    message["id"] = id.clone();
                }
                let response = client.send(message).await;
                let expected = if id.is_null() { StatusCode::ACCEPTED } else { StatusCode::OK };
                assert_eq!(response.status(), expected, "{method} {params} in {version}");
                if !id.is_null() {
                    let answer = body(response).await;
                    assert!(answer["id"] == id && answer.get("error").is_none(), "{answer}");
                }
            }
        }
    }
}

/// A change that makes a request invalid, the request, and the answer.
type Fault = (fn(&mut HeaderMap), &'static str, StatusCode, i64);

#[tokio::test]
async fn every_invalid_post_has_its_status() {
    const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    fn set(headers: &mut HeaderMap, name: &'static str, value: &'static str) {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let faults: [Fault; 11] = [
        (|h| set(h, "accept", "text/event-stream"), PING, StatusCode::NOT_ACCEPTABLE, -32600),
        (|h| set(h, "content-type", "text/plain"), PING, StatusCode::UNSUPPORTED_MEDIA_TYPE, -32600),
        (|h| drop(h.remove("content-type")), PING, StatusCode::UNSUPPORTED_MEDIA_TYPE, -32600),
        (|_| (), "{", StatusCode::BAD_REQUEST, -32700),
        (|_| (), "[]", StatusCode::BAD_REQUEST, -32600),
        (|_| (), r#"{"id":1,"method":"ping"}"#, StatusCode::BAD_REQUEST, -32600),
        (|h| drop(h.remove("mcp-session-id")), PING, StatusCode::BAD_REQUEST, -32600),
        (|h| set(h, "mcp-session-id", "unknown"), PING, StatusCode::NOT_FOUND, -32600),
        (|h| set(h, "mcp-protocol-version", "2099-01-01"), PING, StatusCode::BAD_REQUEST, -32600),
        // of a version without sessions, without its envelope
        (|h| set(h, "mcp-protocol-version", "2026-07-28"), PING, StatusCode::BAD_REQUEST, -32602),
        (|_| (), r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, StatusCode::BAD_REQUEST, -32602),
    ];
    for version in &LEGACY[1..] {
        let world = World::new().await;
        let client = world.ready("ann", version).await;
        for (index, (change, message, status, code)) in faults.iter().enumerate() {
            let response = client.request(Verb::POST, (*message).into(), change).await;
            assert_eq!(response.status(), *status, "fault {index} in {version}");
            assert_eq!(body(response).await["error"]["code"], *code, "fault {index} in {version}");
        }
        let fine = client.request(Verb::POST, PING.into(), |h| set(h, "mcp-protocol-version", "2025-03-26")).await;
        assert_eq!(fine.status(), StatusCode::OK, "another known version is let pass in {version}");
        let wild = client.request(Verb::POST, PING.into(), |h| set(h, "accept", "*/*")).await;
        assert_eq!(wild.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn an_error_without_an_id_has_the_form_of_each_version() {
    let world = World::new().await;
    for (version, expected) in
        LEGACY.into_iter().zip([Some(&Value::Null), Some(&Value::Null), Some(&Value::Null), None])
    {
        let client = world.ready("ann", version).await;
        let answer = body(client.post("{").await).await;
        assert_eq!(answer.get("id"), expected, "{version}");
    }
    let mut early = world.client("ann");
    assert_eq!(body(early.post("{").await).await.get("id"), Some(&Value::Null));
    early.version = Some("2025-11-25");
    assert_eq!(body(early.post("{").await).await.get("id"), None);
    let narrow = early.request(Verb::POST, "{".into(), |h| drop(h.insert("accept", HeaderValue::from_static(""))));
    assert_eq!(body(narrow.await).await.get("id"), None);
}

#[tokio::test]
async fn invalid_input_is_refused_and_the_session_goes_on() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-03-26").await;
    let random: &dyn Random = &SeededRandom::new(7);
    let whole = call(1, "echo", json!({ "say": "\u{e9}" })).to_string().into_bytes();
    for round in 0..2000 {
        let [at, byte, kind, to] = random.bytes::<4>();
        let mut text = whole.clone();
        let at = usize::from(at) % text.len();
        match kind % 4 {
            0 => text[at] = byte,
            1 => text.truncate(at),
            2 => drop(text.drain(at..text.len().min(at + usize::from(to % 8)))),
            _ => text.insert(at, byte),
        }
        let response = client.post(text).await;
        let fine = [StatusCode::OK, StatusCode::ACCEPTED, StatusCode::BAD_REQUEST].contains(&response.status());
        assert!(fine, "round {round}: {}", response.status());
    }
    assert!(body(client.send(call(1, "echo", json!({}))).await).await["result"].is_object());
}

#[tokio::test]
async fn a_body_above_the_limit_is_refused() {
    let limits = LimitsConfig { request_body: 1 << 20, ..LimitsConfig::default() };
    let world = World::with(super::limited(limits)).await;
    let client = world.ready("ann", "2025-06-18").await;
    let response = client.send(call(1, "echo", json!({ "say": "x".repeat(2 << 20) }))).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn messages_without_an_answer_are_accepted() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-11-25").await;
    for message in [
        json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": "lk-x-1", "result": {} }),
        json!({ "jsonrpc": "2.0", "id": "lk-x-1", "error": { "code": -1, "message": "no" } }),
    ] {
        let response = client.send(message).await;
        assert_eq!(response.status(), StatusCode::ACCEPTED);
        assert_eq!(text(response).await, "");
    }
    let crossed: Vec<_> = world.server.calls.lock().iter().map(|call| call.method.to_string()).collect();
    assert_eq!(crossed, ["server/discover", "subscriptions/listen", "notifications/roots/list_changed"]);
}

#[tokio::test]
async fn an_endpoint_without_a_backend_is_not_found() {
    let world = World::new().await;
    for path in ["/mcp/none", "/mcp/Git", "/sse/none"] {
        let mut client = world.client("ann");
        client.path = path;
        let response = if path.starts_with("/sse") {
            client.get().await
        } else {
            client.send(initialize("2025-06-18", json!({}))).await
        };
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
        assert_eq!(body(response).await["error"]["code"], -32600);
    }
}
