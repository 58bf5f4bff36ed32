//! Servers of 2026-07-28 over HTTP: translation, listens, and the end of connections.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::{StreamExt as _, stream};
use http::Method as Verb;
use lockkeeper::{
    crossing::{self, Crossing},
    mcp::{Context, ErrorObject, Event, Level, LogLevel, Method, Outcome, Payload, Reply, Revision, Server},
    model::{BackendSpec, EraChoice, ReplicaNumber, Target},
    support::{SealingKey, SeededRandom, SystemClock},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::scripted_servers::{
    call, client, failure, gateway, granted, next, request, result, started, text, tool, until,
};
use crate::kit::peer::{
    Peer, Response, Seen, event, events, greeting, named, open_events, reply, status, streamed, text_of,
};

const NONE: &str = "{}";

fn spec(peer: &Peer) -> BackendSpec {
    BackendSpec { era: EraChoice::Auto, ..peer.spec() }
}

fn server_info(capabilities: &Value) -> Value {
    json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities, "ttlMs": 0,
        "cacheScope": "private", "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "scripted", "version": "9" } } })
}

/// A server with this `DiscoverResult` that leaves the rest to `script`.
fn modern(
    capabilities: Value,
    script: impl Fn(&Seen) -> Option<Response> + Send + Sync + 'static,
) -> impl Fn(&Seen) -> Option<Response> + Send + Sync + 'static {
    move |seen| match seen.method() {
        "server/discover" => Some(reply(&seen.result(&server_info(&capabilities)))),
        _ => script(seen).or_else(|| Some(status(500))),
    }
}

fn complete(text: &str) -> Value {
    let mut result = text_of(text);
    result["resultType"] = "complete".into();
    result
}

fn refused(seen: &Seen, code: i64) -> Response {
    let error = json!({ "jsonrpc": "2.0", "id": seen.body["id"], "error": { "code": code, "message": "no" } });
    let mut response = reply(&error);
    *response.status_mut() = http::StatusCode::BAD_REQUEST;
    response
}

/// The acknowledgement of a listen, with its tag.
fn acknowledged(seen: &Seen) -> Value {
    tagged(
        seen,
        "notifications/subscriptions/acknowledged",
        &json!({ "notifications": seen.body["params"]["notifications"] }),
    )
}

fn tagged(seen: &Seen, method: &str, params: &Value) -> Value {
    let mut params = params.clone();
    params["_meta"] = json!({ "io.modelcontextprotocol/subscriptionId": seen.body["id"] });
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

async fn notified(reply: &mut Reply) -> (Method, Payload) {
    match next(reply).await {
        Event::Notified(told) => (told.method, told.params),
        other => panic!("{other:?}"),
    }
}

fn subscribe(server: &Arc<dyn Server>, session: &str, uri: &str) -> Reply {
    call(server, client(session, NONE), Method::ResourcesSubscribe, &json!({ "uri": uri }))
}

#[tokio::test]
async fn a_request_carries_its_client_and_its_headers_and_comes_back_as_it_was_written() {
    let peer = Peer::start(modern(json!({ "tools": {}, "logging": {} }), |seen| {
        let token = &seen.body["params"]["_meta"]["progressToken"];
        let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": token, "progress": 1 } });
        (seen.method() == "tools/call").then(|| events(event(&progress) + &event(&seen.result(&complete("done")))))
    }))
    .await;
    let (_supervisor, server) = started(spec(&peer)).await;
    let params = json!({ "name": "\u{e9}", "_meta": { "progressToken": "mine", "x/y": 1 } });
    let level = LogLevel::Request(Some(Level::Warning));
    let context = Context { level, ..client("s1", r#"{"sampling":{},"roots":{"listChanged":true}}"#) };
    let mut called = tool(&server, context, &params);
    let (method, params) = notified(&mut called).await;
    assert_eq!((method, params.string("progressToken").as_deref()), (Method::Progress, Some("mine")));
    let Event::Done(Outcome::Complete(payload)) = next(&mut called).await else { panic!("a result") };
    assert_eq!(payload.revision, Revision::V2026_07_28);
    let seen = peer.saw("tools/call").await;
    assert_eq!(seen.header("mcp-name"), Some("=?base64?w6k=?="));
    assert_eq!(seen.header("mcp-session-id"), None);
    let meta = &seen.body["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({ "sampling": {}, "roots": {} }));
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "tester");
    assert_eq!(meta["io.modelcontextprotocol/logLevel"], "warning");
    assert_eq!(meta["x/y"], 1);
    // each client has its own level
    result(tool(&server, client("s2", NONE), &named("plain"))).await;
    let plain = peer.seen_of("tools/call").remove(1);
    assert!(plain.body["params"]["_meta"].get("io.modelcontextprotocol/logLevel").is_none());
}

#[tokio::test]
async fn a_result_with_server_requests_passes_whole_for_methods_that_allow_it() {
    let asking = json!({ "resultType": "input_required", "requestState": "s", "inputRequests": { "a": { "method": "roots/list" } } });
    let result_of = asking.clone();
    let peer = Peer::start(modern(json!({ "tools": {}, "completions": {} }), move |seen| {
        Some(reply(&seen.result(&result_of)))
    }))
    .await;
    let (_supervisor, server) = started(spec(&peer)).await;
    let without_session = Context { requester: request("r"), ..client("s1", NONE) };
    let outcome = tool(&server, without_session, &named("x")).outcome().await;
    let Outcome::InputRequired(questions) = outcome else { panic!("{outcome:?}") };
    assert_eq!(questions.view::<Value>(), Some(asking));
    let completion = json!({ "ref": { "type": "ref/prompt", "name": "p" }, "argument": { "name": "a", "value": "" } });
    let error = failure(call(&server, client("s1", NONE), Method::Complete, &completion)).await;
    assert_eq!(error.code(), ErrorObject::INTERNAL_ERROR);
}

#[tokio::test]
async fn a_subscription_is_answered_after_the_acknowledgement_and_gets_its_own_updates() {
    let capabilities = json!({ "resources": { "subscribe": true, "listChanged": true } });
    let peer = Peer::start(modern(capabilities, move |seen| {
        if seen.method() != "subscriptions/listen" {
            return None;
        }
        let updates =
            seen.body["params"]["notifications"]["resourceSubscriptions"].as_array().cloned().unwrap_or_default();
        let told = |uri: &Value| event(&tagged(seen, "notifications/resources/updated", &json!({ "uri": uri })));
        Some(open_events(event(&acknowledged(seen)) + &updates.iter().map(told).collect::<String>()))
    }))
    .await;
    let (_supervisor, server) = started(spec(&peer)).await;
    let listen = |session| call(&server, client(session, NONE), Method::Listen, &Value::Null);
    let (mut one, mut two) = (listen("s1"), listen("s2"));
    let a = granted(subscribe(&server, "s1", "x:a")).await;
    let (method, params) = notified(&mut one).await;
    assert_eq!((method, params.string("uri").as_deref()), (Method::ResourceUpdated, Some("x:a")));
    let _b = granted(subscribe(&server, "s2", "x:b")).await;
    // the new listen names both clients' topics, and each client gets its own
    let (_, params) = notified(&mut two).await;
    assert_eq!(params.string("uri").as_deref(), Some("x:b"));
    let last = peer.seen_of("subscriptions/listen").pop().unwrap();
    assert_eq!(last.body["params"]["notifications"]["resourceSubscriptions"], json!(["x:a", "x:b"]));
    assert_eq!(last.body["params"]["notifications"]["resourcesListChanged"], true);
    drop(a);
    result(call(&server, client("s1", NONE), Method::ResourcesUnsubscribe, &json!({ "uri": "x:a" }))).await;
    let only_b = || {
        peer.seen_of("subscriptions/listen")
            .into_iter()
            .find(|seen| seen.body["params"]["notifications"]["resourceSubscriptions"] == json!(["x:b"]))
    };
    until("the listen without what was left", only_b).await;
}

#[tokio::test]
async fn notifications_on_the_older_listen_count_after_the_newer_one_is_acknowledged() {
    let capabilities = json!({ "resources": { "subscribe": true, "listChanged": true } });
    let (first, told) = mpsc::unbounded_channel::<String>();
    let (turn, told) = (AtomicUsize::new(0), Mutex::new(Some(told)));
    let peer = Peer::start(modern(capabilities, move |seen| {
        if seen.method() != "subscriptions/listen" {
            return None;
        }
        if turn.fetch_add(1, Ordering::SeqCst) > 0 {
            return Some(open_events(event(&acknowledged(seen))));
        }
        let changed = event(&tagged(seen, "notifications/resources/list_changed", &json!({})));
        let acknowledged = event(&acknowledged(seen));
        let told = UnboundedReceiverStream::new(told.lock().take()?).map(move |_| changed.clone());
        Some(streamed(stream::iter([acknowledged]).chain(told)))
    }))
    .await;
    let (_supervisor, server) = started(spec(&peer)).await;
    let mut listen = call(&server, client("s1", NONE), Method::Listen, &Value::Null);
    until("the first listen", || peer.seen_of("subscriptions/listen").pop()).await;
    let _subscribed = granted(subscribe(&server, "s1", "x:a")).await;
    first.send(String::new()).unwrap();
    assert_eq!(notified(&mut listen).await.0, Method::ResourcesListChanged);
}

#[tokio::test]
async fn a_resource_that_the_server_does_not_acknowledge_is_not_subscribed_to() {
    let capabilities = json!({ "resources": { "subscribe": true } });
    let peer = Peer::start(modern(capabilities, |seen| {
        let none = tagged(seen, "notifications/subscriptions/acknowledged", &json!({ "notifications": {} }));
        (seen.method() == "subscriptions/listen").then(|| open_events(event(&none)))
    }))
    .await;
    let (_supervisor, server) = started(spec(&peer)).await;
    assert_eq!(failure(subscribe(&server, "s1", "x:a")).await.code(), ErrorObject::INVALID_PARAMS);
}

#[tokio::test]
async fn a_subscription_without_an_acknowledgement_in_time_can_be_repeated() {
    let silent = |seen: &Seen| (seen.method() == "subscriptions/listen").then(|| open_events(": x\n\n".to_owned()));
    let peer = Peer::start(modern(json!({ "resources": { "subscribe": true } }), silent)).await;
    let (_supervisor, server) = started(spec(&peer)).await;
    let error = failure(subscribe(&server, "s1", "x:a"));
    let lets_time_pass = async {
        until("the listen", || peer.seen_of("subscriptions/listen").pop()).await;
        tokio::time::pause();
    };
    let (error, ()) = tokio::join!(error, lets_time_pass);
    assert_eq!(error.code(), ErrorObject::INTERNAL_ERROR);
    assert!(error.message().ends_with("try again"), "{error}");
}

#[tokio::test]
async fn a_server_without_subscriptions_is_reported() {
    let peer = Peer::start(modern(json!({ "resources": {} }), |_| None)).await;
    let (_supervisor, server) = started(spec(&peer)).await;
    assert_eq!(failure(subscribe(&server, "s1", "x:a")).await.code(), ErrorObject::METHOD_NOT_FOUND);
    assert!(peer.seen_of("subscriptions/listen").is_empty());
}

#[tokio::test]
async fn after_a_listen_ended_everything_may_have_changed() {
    let turn = AtomicUsize::new(0);
    let peer = Peer::start(modern(json!({ "tools": { "listChanged": true } }), move |seen| {
        (seen.method() == "subscriptions/listen").then(|| {
            let acknowledged = event(&acknowledged(seen));
            if turn.fetch_add(1, Ordering::SeqCst) == 0 { events(acknowledged) } else { open_events(acknowledged) }
        })
    }))
    .await;
    let (_supervisor, server) = started(spec(&peer)).await;
    let mut listen = call(&server, gateway(), Method::Listen, &Value::Null);
    assert_eq!(notified(&mut listen).await.0, Method::ToolsListChanged);
}

#[tokio::test]
async fn a_cancelled_call_closes_its_stream_and_posts_nothing() {
    let peer = Peer::start(modern(json!({ "tools": {} }), |_| Some(open_events(": x\n\n".to_owned())))).await;
    let (_supervisor, server) = started(spec(&peer)).await;
    let mut running = tokio::task::JoinSet::new();
    running.spawn(tool(&server, client("s1", NONE), &named("hang")).outcome());
    peer.saw("tools/call").await;
    running.abort_all();
    while running.join_next().await.is_some() {}
    assert!(peer.seen().iter().all(|seen| seen.verb == Verb::POST && !seen.method().starts_with("notifications/")));
}

#[tokio::test]
async fn a_broken_stream_fails_a_call_that_may_have_run() {
    let peer = Peer::start(modern(json!({ "tools": {} }), |_| Some(events("id: 7\ndata:\n\n".to_owned())))).await;
    let (_supervisor, server) = started(spec(&peer)).await;
    let error = failure(tool(&server, client("s1", NONE), &named("x"))).await;
    assert!(error.to_string().contains("closed the stream"), "{error}");
    assert!(String::from_utf8_lossy(error.json()).contains(r#""retryable":false"#), "{error}");
    // it may have run: it is neither resumed nor repeated
    assert_eq!(peer.seen_of("tools/call").len(), 1);
    assert!(peer.seen().iter().all(|seen| seen.verb == Verb::POST));
}

#[tokio::test]
async fn a_server_that_changes_to_sessions_is_detected_and_gets_the_call() {
    let turned = Arc::new(AtomicUsize::new(0));
    let flag = Arc::clone(&turned);
    let peer = Peer::start(move |seen| {
        let is_modern = flag.load(Ordering::SeqCst) == 0;
        match seen.method() {
            "server/discover" if is_modern => Some(reply(&seen.result(&server_info(&json!({ "tools": {} }))))),
            "initialize" if is_modern => Some(status(400)),
            "initialize" => Some(reply(&seen.result(&greeting("2025-11-25")))),
            "notifications/initialized" => Some(status(202)),
            "tools/call" if seen.header("mcp-method").is_none() => Some(reply(&seen.result(&text_of("in a session")))),
            _ => Some(refused(seen, -32022)),
        }
    })
    .await;
    let (supervisor, server) = started(spec(&peer)).await;
    assert_eq!(supervisor.status()[0].protocol_version.as_deref(), Some("2026-07-28"));
    turned.store(1, Ordering::SeqCst);
    for caller in [client("s1", NONE), gateway()] {
        assert_eq!(text(tool(&server, caller, &named("x"))).await, "in a session");
    }
    assert_eq!(supervisor.status().remove(0).era.unwrap().era, "legacy");
}

/// A server that ends calls with a server request, and then changes its era.
async fn turning() -> (Peer, Arc<AtomicUsize>) {
    let turned = Arc::new(AtomicUsize::new(0));
    let flag = Arc::clone(&turned);
    let peer = Peer::start(move |seen| {
        let is_modern = flag.load(Ordering::SeqCst) == 0;
        let asking = json!({ "resultType": "input_required", "requestState": "s", "inputRequests": { "a": { "method": "roots/list" } } });
        match seen.method() {
            "server/discover" if is_modern => Some(reply(&seen.result(&server_info(&json!({ "tools": {} }))))),
            "tools/call" if is_modern => Some(reply(&seen.result(&asking))),
            "initialize" if is_modern => Some(status(400)),
            "initialize" => Some(reply(&seen.result(&greeting("2025-11-25")))),
            "notifications/initialized" => Some(status(202)),
            "tools/call" if seen.header("mcp-method").is_none() => Some(reply(&seen.result(&text_of("anew")))),
            _ => Some(refused(seen, -32022)),
        }
    })
    .await;
    (peer, turned)
}

fn is_not_begun_anew(error: &ErrorObject, peer: &Peer) {
    assert_eq!(error.code(), ErrorObject::INTERNAL_ERROR);
    assert!(error.message().contains("replaced while it waited for input"), "{error}");
    assert!(peer.seen_of("tools/call").iter().all(|seen| seen.header("mcp-method").is_some()), "it was not begun anew");
}

#[tokio::test]
async fn a_round_does_not_continue_at_a_server_that_has_sessions_by_now() {
    let (peer, turned) = turning().await;
    let (_supervisor, server) = started(spec(&peer)).await;
    let mut called = tool(&server, client("s1", r#"{"roots":{}}"#), &named("x"));
    let Event::Asked(question) = next(&mut called).await else { panic!("a question") };
    turned.store(1, Ordering::SeqCst);
    question.answer.give(Ok(Payload::of(Revision::V2025_11_25, &json!({ "roots": [] }))));
    is_not_begun_anew(&failure(called).await, &peer);
}

#[tokio::test]
async fn the_state_of_a_server_that_has_sessions_by_now_is_invalid() {
    let (peer, turned) = turning().await;
    let (_supervisor, server) = started(spec(&peer)).await;
    let deps = crossing::SuspensionDeps {
        clock: Arc::new(SystemClock),
        random: Arc::new(SeededRandom::new(1)),
        state_key: SealingKey::new([7; 32]),
        replica: ReplicaNumber::SOLE,
    };
    let crossing = Crossing::new(lockkeeper::support::Live::default(), deps);
    let server = crossing.around_endpoint(Target::Merged, server);
    let context = || Context { requester: request("r"), ..client("s1", r#"{"roots":{}}"#) };
    let Outcome::InputRequired(asked) = tool(&server, context(), &named("x")).outcome().await else {
        panic!("a request for input")
    };
    turned.store(1, Ordering::SeqCst);
    let again = json!({ "name": "x", "inputResponses": { "a": { "roots": [] } }, "requestState": asked.string("requestState") });
    is_not_begun_anew(&failure(tool(&server, context(), &again)).await, &peer);
}
