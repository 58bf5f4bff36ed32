//! Clients that accept JSON alone, and bodies that are compressed.

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Method as Verb, Response, StatusCode};
use lockkeeper::mcp::{Method, Reply};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde_json::{Value, json};

use super::{
    Client, Events, World, body,
    broken_streams::{done, told},
    call,
    http_sse::Connected,
    initialize,
    modern::Modern,
    text,
};

const JSON: &[(&str, Option<&str>)] = &[("accept", Some("application/json"))];

/// Sends a message and reads JSON alone.
async fn send(client: &Client, message: Value) -> Response<Body> {
    accepting(client, "application/json", message).await
}

async fn accepting(client: &Client, accept: &'static str, message: Value) -> Response<Body> {
    client.reader.asks(&message);
    let change = |headers: &mut HeaderMap| drop(headers.insert("accept", HeaderValue::from_static(accept)));
    client.request(Verb::POST, message.to_string().into(), change).await
}

/// A client that has made its handshake so.
async fn ready(world: &World, version: &'static str, capabilities: Value) -> Client {
    let mut client = world.client("ann");
    let response = send(&client, initialize(version, capabilities)).await;
    client.session = Some(response.headers()["mcp-session-id"].to_str().unwrap().to_owned());
    assert_eq!(body(response).await["result"]["protocolVersion"], version);
    let response = send(&client, json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    client
}

/// The notifications that were dropped.
fn dropped(metrics: &PrometheusHandle) -> u64 {
    let metrics = metrics.render();
    let line = metrics.lines().find(|line| line.starts_with("lockkeeper_frontend_notifications_dropped_total "));
    line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn a_client_that_accepts_json_alone_gets_json_in_every_version() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let recorder = PrometheusBuilder::new().build_recorder();
        let _recording = metrics::set_default_local_recorder(&recorder);
        let world = World::new().await;
        let client = ready(&world, version, json!({})).await;
        assert_eq!(body(send(&client, call(1, "echo", json!({ "say": "hi" }))).await).await["result"]["said"], "hi");
        assert_eq!(body(send(&client, call(2, "fail", json!({}))).await).await["error"]["code"], -32602);
        let answer = body(send(&client, call(3, "progress", json!({ "say": "hi" }))).await).await;
        assert_eq!((&answer["id"], &answer["result"]["said"]), (&json!(3), &json!("hi")), "{version}");
        assert_eq!(dropped(&recorder.handle()), 1, "its progress is counted");
        let log = told(Method::LoggingMessage, &json!({ "level": "info", "data": 1 }));
        world.server.plays.lock().push_back(Reply::new(futures_util::stream::iter([log, done()])));
        assert!(body(send(&client, call(4, "play", json!({}))).await).await["result"].is_object());
        assert_eq!(dropped(&recorder.handle()), 2, "and so is what it logs");
    }
}

#[tokio::test]
async fn a_range_counts_as_what_it_covers() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    for accept in ["application/*", "application/json;q=0.9, text/plain", "*/*, text/event-stream;q=0"] {
        let answer = body(accepting(&client, accept, call(1, "progress", json!({ "say": "hi" }))).await).await;
        assert_eq!(answer["result"]["said"], "hi", "{accept}");
    }
    for accept in ["*/*", "application/*, text/*", "application/json,text/event-stream"] {
        let mut events = Events::of(accepting(&client, accept, call(1, "progress", json!({}))).await);
        assert_eq!(events.message().await.unwrap()["method"], "notifications/progress", "{accept}");
    }
    for accept in ["text/event-stream", "text/plain", "application/json;q=0, text/event-stream"] {
        let refused = accepting(&client, accept, call(1, "echo", json!({}))).await;
        assert_eq!(refused.status(), StatusCode::NOT_ACCEPTABLE, "{accept}");
        assert!(text(refused).await.contains("both application/json and text/event-stream"));
    }
}

#[tokio::test]
async fn json_waits_for_a_slow_answer() {
    let world = World::new().await;
    let client = ready(&world, "2025-06-18", json!({})).await;
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    let later = async {
        tokio::time::sleep(std::time::Duration::from_mins(5)).await;
        world.server.gate.add_permits(1);
    };
    let (response, ()) = tokio::join!(send(&client, call(1, "hold", json!({ "say": "at last" }))), later);
    assert_eq!((body(response).await["result"]["said"].as_str(), start.elapsed().as_secs()), (Some("at last"), 300));
}

#[tokio::test]
async fn a_question_ends_a_call_that_cannot_carry_it() {
    let world = World::new().await;
    let client = ready(&world, "2025-11-25", json!({ "elicitation": {}, "roots": {} })).await;
    for method in ["elicitation/create", "roots/list"] {
        let error = body(send(&client, call(1, "ask", json!({ "method": method }))).await).await["error"].clone();
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains(method) && message.contains("Accept: application/json, text/event-stream"),
            "{message}"
        );
        assert_eq!(error["data"], json!({ "retryable": false, "mayHaveRun": true }));
    }
    // the server learns as ever that a client has no such capability, and goes on
    let answer = body(send(&client, call(2, "ask", json!({ "method": "sampling/createMessage" }))).await).await;
    assert!(answer["result"]["code"].is_number(), "{answer}");
    // with both it is asked
    let mut events = Events::of(client.send(call(3, "ask", json!({}))).await);
    assert_eq!(events.message().await.unwrap()["method"], "elicitation/create");
}

#[tokio::test]
async fn a_batch_is_answered_with_an_array_whatever_comes_before() {
    let world = World::new().await;
    let client = ready(&world, "2025-03-26", json!({ "roots": {} })).await;
    let batch =
        json!([call(1, "progress", json!({ "say": "one" })), call(2, "ask", json!({ "method": "roots/list" }))]);
    let mut answers: Vec<Value> = serde_json::from_value(body(send(&client, batch).await).await).unwrap();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(answers[0]["result"]["said"], "one");
    assert!(answers[1]["error"]["message"].as_str().unwrap().contains("roots/list"), "{answers:?}");
}

#[tokio::test]
async fn what_is_not_of_the_call_waits_for_a_stream() {
    let world = World::new().await;
    let client = ready(&world, "2025-06-18", json!({})).await;
    let told = [
        told(Method::ResourceUpdated, &json!({ "uri": "file:///a" })),
        told(Method::ToolsListChanged, &json!({})),
        done(),
    ];
    world.server.plays.lock().push_back(Reply::new(futures_util::stream::iter(told)));
    assert!(body(send(&client, call(1, "play", json!({}))).await).await["result"].is_object());
    let mut events = Events::of(client.get().await);
    assert_eq!(events.message().await.unwrap()["method"], "notifications/resources/updated");
}

#[tokio::test]
async fn a_call_that_is_cancelled_has_no_answer_and_one_whose_client_left_goes_on() {
    let world = World::new().await;
    let client = ready(&world, "2025-06-18", json!({})).await;
    let cancel = async {
        world.server.wait_for(Method::ToolsCall, 1).await;
        let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
        send(&client, cancelled).await
    };
    let (response, _) = tokio::join!(send(&client, call(1, "hold", json!({}))), cancel);
    assert_eq!((response.status(), text(response).await.as_str()), (StatusCode::ACCEPTED, ""));
    assert_eq!(world.server.fate().await, "dropped");
    tokio::select! {
        biased;
        _ = send(&client, call(2, "hold", json!({}))) => unreachable!(),
        () = world.server.wait_for(Method::ToolsCall, 2) => {}
    }
    world.server.gate.add_permits(1);
    assert_eq!(world.server.fate().await, "done");
}

#[tokio::test]
async fn streams_need_a_client_that_accepts_them() {
    let world = World::new().await;
    let client = ready(&world, "2025-06-18", json!({})).await;
    let accept = |headers: &mut HeaderMap| drop(headers.insert("accept", HeaderValue::from_static("application/json")));
    for session in [client.session.clone(), None] {
        let client = Client { session, ..client.clone() };
        for path in ["/mcp", "/sse"] {
            let client = Client { path, ..client.clone() };
            let refused = client.request(Verb::GET, Body::empty(), accept).await;
            assert_eq!(refused.status(), StatusCode::NOT_ACCEPTABLE);
            let message = text(refused).await;
            assert!(
                message.contains("must list text/event-stream") && message.contains("stream of events"),
                "{message}"
            );
        }
    }
    let modern = Modern::of(&world, "ann", "{}");
    let listen = modern.message(7, "subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
    let refused = modern.send_as(&listen, JSON).await;
    assert_eq!(refused.status(), StatusCode::NOT_ACCEPTABLE);
    let answer = body(refused).await;
    assert_eq!(answer["id"], 7);
    assert!(answer["error"]["message"].as_str().unwrap().contains("subscriptions/listen"), "{answer}");
}

#[tokio::test]
async fn a_request_without_a_session_gets_json_too() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", r#"{"elicitation":{"form":{}}}"#);
    let params = json!({ "name": "progress", "arguments": { "say": "hi" }, "_meta": { "progressToken": 7 } });
    let answer = body(client.send_as(&client.message(1, "tools/call", params), JSON).await).await;
    assert_eq!(answer["result"]["said"], "hi");
    // there a question is an answer
    let asks = client.message(2, "tools/call", json!({ "name": "ask", "arguments": {} }));
    let asked = body(client.send_as(&asks, JSON).await).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let unknown = client.message(3, "x/nobody-knows", json!({}));
    assert_eq!(client.send_as(&unknown, JSON).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_compressed_body_is_named_as_such() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-06-18").await;
    let connected = Connected::ready(&world, "2024-11-05").await;
    let gzip: &[u8] = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xab\x56";
    let mut initial = world.client("ann");
    initial.path = "/mcp/git";
    for client in [&client, &initial, &connected.client] {
        for (coding, sent, named) in [
            ("gzip", gzip, "(gzip)"),
            ("", gzip, "(gzip)"),
            ("br", b"\x0b\x02\x80", "(br)"),
            ("", b"\x28\xb5\x2f\xfd\x04", "(zstd)"),
        ] {
            let change = |headers: &mut HeaderMap| {
                if !coding.is_empty() {
                    headers.insert("content-encoding", HeaderValue::from_static(coding));
                }
            };
            let refused = client.request(Verb::POST, sent.into(), change).await;
            assert_eq!(refused.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
            assert_eq!(refused.headers()["accept-encoding"], "identity");
            let message = text(refused).await;
            assert!(message.contains(named) && message.contains("uncompressed"), "{message}");
        }
    }
    // a header that is wrong harms nobody
    let wrong = |headers: &mut HeaderMap| drop(headers.insert("content-encoding", HeaderValue::from_static("gzip")));
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    assert_eq!(client.request(Verb::POST, ping.to_string().into(), wrong).await.status(), StatusCode::OK);
}
