//! Messages that a server could read otherwise than the gateway are refused on every transport: with a repeated member
//! that matters for a decision, or one in a spelling that folds to it. Also, errors that answer no request.

use axum::body::Body;
use http::{Method as Verb, StatusCode};
use lockkeeper::mcp::Method;
use serde_json::{Value, json};

use super::{Client, World, body, call, http_sse::Connected, modern::Modern};

/// Messages of a legacy client, and their ambiguous member.
const REQUESTS: [(&str, &str, &str); 24] = [
    ("tools/call", r#"{"name":"echo","Name":"danger"}"#, "Name"),
    ("tools/call", r#"{"name":"echo","name":"echo"}"#, "name"),
    ("tools/call", r#"{"name":"echo","n\u0061me":"danger"}"#, "name"),
    ("tools/call", r#"{"name":"echo","\u004eame":"danger"}"#, "Name"),
    ("tools/call", r#"{"NAME":"danger"}"#, "NAME"),
    ("tools/call", r#"{"name":"echo","Arguments":{}}"#, "Arguments"),
    ("tools/call", r#"{"name":"echo","tas\u212a":{}}"#, "tas\u{212a}"),
    ("tools/call", r#"{"name":"echo","_Meta":{"progressToken":1}}"#, "_Meta"),
    ("tools/call", r#"{"name":"echo","_meta":{"progressToken":1,"ProgressToken":2}}"#, "ProgressToken"),
    ("tools/call", r#"{"name":"echo","_meta":{"io.modelcontextprotocol/LogLevel":"debug"}}"#, "LogLevel"),
    ("tools/call", r#"{"name":"echo","request\u017ftate":"s","requestState":"s"}"#, "request\u{17f}tate"),
    ("prompts/get", r#"{"name":"a","Name":"b"}"#, "Name"),
    ("resources/read", r#"{"uri":"a:b","URI":"c:d"}"#, "URI"),
    ("resources/subscribe", r#"{"uri":"a:b","Uri":"c:d"}"#, "Uri"),
    ("resources/unsubscribe", r#"{"uri":"a:b","uri":"c:d"}"#, "uri"),
    ("completion/complete", r#"{"ref":{"type":"ref/prompt","name":"a","Name":"b"}}"#, "Name"),
    ("completion/complete", r#"{"ref":{"type":"ref/resource","uri":"a"},"Ref":{}}"#, "Ref"),
    ("logging/setLevel", r#"{"level":"error","Level":"debug"}"#, "Level"),
    ("tasks/get", r#"{"taskId":"a","ta\u017fkId":"b"}"#, "ta\u{17f}kId"),
    ("tasks/result", r#"{"taskId":"a","taskid":"b"}"#, "taskid"),
    ("tasks/cancel", r#"{"taskId":"a","taskId":"b"}"#, "taskId"),
    ("tasks/list", r#"{"cursor":"a","Cursor":"b"}"#, "Cursor"),
    ("tools/list", r#"{"cursor":"a","CURSOR":"b"}"#, "CURSOR"),
    ("x-vendor/do", r#"{"_meta":{},"_META":{}}"#, "_META"),
];

fn request(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#)
}

/// Expects `-32602` with the member's name, in answer to request 7.
fn assert_refused(answer: &Value, member: &str, sent: &str) {
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32602), &json!(7)), "{sent}: {answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains(member), "{sent}: {answer}");
}

/// The number of calls that the server got, without `server/discover`.
fn asked(world: &World) -> usize {
    let calls = world.server.calls.lock();
    calls.iter().filter(|call| !matches!(call.method, Method::Discover | Method::Listen)).count()
}

#[tokio::test]
async fn an_ambiguous_request_reaches_no_server() {
    let world = World::new().await;
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let client = world.ready("ann", version).await;
        let before = asked(&world);
        for (method, params, member) in REQUESTS {
            let text = request(method, params);
            let response = client.post(text.clone()).await;
            assert_eq!(response.status(), StatusCode::BAD_REQUEST);
            assert_refused(&body(response).await, member, &text);
        }
        assert_eq!(asked(&world), before, "{version}");
    }
}

#[tokio::test]
async fn only_the_ambiguous_message_of_a_batch_is_refused() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-03-26").await;
    let good = call(1, "echo", json!({ "say": "hi" }));
    let told = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"ProgressToken":2}}"#;
    for (method, params, member) in REQUESTS {
        let text = format!("[{},{good},{told}]", request(method, params));
        client.reader.asks(&good);
        let answers: Vec<Value> = serde_json::from_value(body(client.post(text.clone()).await).await).unwrap();
        let of = |id: Value| answers.iter().find(|answer| answer["id"] == id).unwrap();
        assert_refused(of(json!(7)), member, &text);
        assert_eq!(of(json!(1))["result"]["said"], "hi");
        assert_eq!(of(Value::Null)["error"]["code"], -32602, "nothing is dropped silently");
    }
    assert_eq!(asked(&world), REQUESTS.len(), "the good ones alone");
}

#[tokio::test]
async fn an_ambiguous_message_is_refused_on_a_connection_too() {
    let world = World::new().await;
    let connected = Connected::ready(&world, "2024-11-05").await;
    let before = asked(&world);
    for (method, params, member) in REQUESTS {
        let text = request(method, params);
        let response = connected.client.post(text.clone()).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        assert_refused(&body(response).await, member, &text);
    }
    assert_eq!(asked(&world), before);
}

#[tokio::test]
async fn an_ambiguous_request_without_a_session_is_refused_before_its_envelope_counts() {
    let world = World::new().await;
    let modern = Modern::of(&world, "ann", "{}");
    for (method, extra, member) in [
        ("tools/call", r#""name":"echo","Name":"danger""#, "Name"),
        ("tools/call", r#""Name":"danger""#, "Name"),
        ("tools/call", r#""name":"echo","arguments":{},"Arguments":{"region":"eu"}"#, "Arguments"),
        ("tools/call", r#""name":"echo","RequestState":"gw1.x""#, "RequestState"),
        ("tools/call", r#""name":"echo","inputResponses":{},"inputResponses":{}"#, "inputResponses"),
        ("tools/call", r#""name":"echo","_META":{}"#, "_META"),
        ("resources/read", r#""uri":"a:b","Uri":"c:d""#, "Uri"),
        ("tasks/update", r#""taskId":"a","TaskId":"b""#, "TaskId"),
        ("subscriptions/listen", r#""notifications":{"taskIds":[],"TaskIds":["x"]}"#, "TaskIds"),
        ("subscriptions/listen", r#""notifications":{},"Notifications":{}"#, "Notifications"),
    ] {
        let envelope = modern.message(7, method, json!({}))["params"]["_meta"].to_string();
        let text = request(method, &format!(r#"{{"_meta":{envelope},{extra}}}"#));
        let response = modern.post(method, "echo", text.clone()).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        assert_refused(&body(response).await, member, &text);
    }
    // two envelopes, only one of which declares it
    for (one, two) in [(true, false), (false, true)] {
        let full = modern.message(7, "tools/call", json!({}))["params"]["_meta"].to_string();
        let envelope = |is_full: bool| if is_full { full.as_str() } else { "{}" };
        let text =
            request("tools/call", &format!(r#"{{"_meta":{},"_meta":{},"name":"echo"}}"#, envelope(one), envelope(two)));
        assert_refused(&body(modern.post("tools/call", "echo", text.clone()).await).await, "_meta", &text);
    }
    assert_eq!(asked(&world), 0);
}

#[tokio::test]
async fn an_ambiguous_client_description_is_refused() {
    let world = World::new().await;
    let client = world.client("ann");
    for (extra, member) in [
        (r#""capabilities":{},"Capabilities":{"sampling":{}}"#, "Capabilities"),
        (r#""capabilities":{"Sampling":{}}"#, "Sampling"),
        (r#""capabilities":{"elicitation":{"form":{},"FORM":{}}}"#, "FORM"),
        (r#""capabilities":{"Task\u017f":{}}"#, "Task\u{17f}"),
        (r#""clientInfo":{"name":"a","Name":"b"}"#, "Name"),
        (r#""protocolversion":"2024-11-05""#, "protocolversion"),
    ] {
        let text = request("initialize", &format!(r#"{{"protocolVersion":"2025-06-18",{extra}}}"#));
        let response = client.post(text.clone()).await;
        assert!(!response.headers().contains_key("mcp-session-id"));
        assert_refused(&body(response).await, member, &text);
    }
    assert!(world.front.status().is_empty());
}

#[tokio::test]
async fn an_ambiguous_notification_is_refused_and_does_nothing() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-11-25").await;
    let running = client.send(call(1, "hold", json!({ "say": "done" })));
    let cancel = async {
        world.server.wait_for(Method::ToolsCall, 1).await;
        for params in [r#"{"requestId":2,"RequestId":1}"#, r#"{"requestId":2,"requestId":1}"#] {
            let text = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#);
            let response = client.post(text).await;
            assert_eq!(response.status(), StatusCode::BAD_REQUEST);
            let answer = body(response).await;
            assert_eq!((&answer["error"]["code"], answer.get("id")), (&json!(-32602), None));
        }
        world.server.gate.add_permits(1);
    };
    let (answer, ()) = tokio::join!(running, cancel);
    assert_eq!(body(answer).await["result"]["said"], "done");
}

#[tokio::test]
async fn repeated_members_without_meaning_for_the_gateway_pass_unchanged() {
    let world = World::new().await;
    let client = world.ready("ann", "2025-11-25").await;
    client.reader.asks(&json!({ "id": 7, "method": "tools/call" }));
    let params = r#"{"arguments":{"say":"hi","Say":1,"name":2,"Name":3,"name":4,"_META":5},"name":"echo","x":1,"X":2,"x":3,"_meta":{"v/x":1,"V/X":2}}"#;
    assert_eq!(body(client.post(request("tools/call", params)).await).await["result"]["said"], "hi");
    let calls = world.server.calls.lock();
    let sent = calls.iter().find(|call| call.method == Method::ToolsCall).unwrap();
    assert_eq!(sent.params.json(), params);
}

/// The answer to unreadable input: its code, and its id if it has one.
async fn unread(client: &Client, verb: Verb, text: &'static str, version: Option<&str>) -> (Value, Option<Value>) {
    let response = client
        .request(verb, Body::from(text), |headers| {
            headers.remove("mcp-protocol-version");
            if let Some(version) = version {
                headers.insert("mcp-protocol-version", version.parse().unwrap());
            }
        })
        .await;
    let answer = body(response).await;
    (answer["error"]["code"].clone(), answer.get("id").cloned())
}

#[tokio::test]
async fn an_error_that_answers_no_request_has_the_id_that_its_version_allows() {
    let world = World::new().await;
    // 2025-11-25 and 2026-07-28, schema: an id is a string or a number, or missing
    let idless = ["2025-11-25", "2026-07-28"];
    let stranger = world.client("ann");
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "2099-01-01"] {
        let id = (!idless.contains(&version)).then_some(Value::Null);
        for text in ["{", "[]", "7", r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, r#"{"jsonrpc":"2.0"}"#] {
            let (code, given) = unread(&stranger, Verb::POST, text, Some(version)).await;
            assert!(code == -32700 || code == -32600, "{text} {code}");
            assert_eq!(given, id, "{version} {text}");
        }
        for verb in [Verb::GET, Verb::DELETE] {
            assert_eq!(unread(&stranger, verb, "", Some(version)).await.1, id, "{version}");
        }
        let mut nowhere = world.client("ann");
        nowhere.path = "/mcp/nowhere";
        assert_eq!(unread(&nowhere, Verb::POST, "{", Some(version)).await.1, id, "{version}");
        let mut lost = world.client("ann");
        lost.path = "/messages?session_id=none";
        assert_eq!(unread(&lost, Verb::POST, "{", Some(version)).await.1, id, "{version}");
    }
    assert_eq!(unread(&stranger, Verb::POST, "{", None).await.1, Some(Value::Null));
    // in a session its version counts, whatever the header says
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let client = world.ready("ann", version).await;
        let id = (!idless.contains(&version)).then_some(Value::Null);
        for header in [None, Some("2025-06-18"), Some("2025-11-25")] {
            assert_eq!(unread(&client, Verb::POST, "{", header).await.1, id, "{version} {header:?}");
        }
    }
    for version in ["2024-11-05", "2025-11-25"] {
        let connected = Connected::ready(&world, version).await;
        let id = (!idless.contains(&version)).then_some(Value::Null);
        assert_eq!(unread(&connected.client, Verb::POST, "{", None).await.1, id, "{version}");
    }
}
