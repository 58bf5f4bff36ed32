//! The edge cases of `translation` section 6 over Streamable HTTP; those of stdio are in `starts`.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::Method as Verb;
use lockkeeper::{
    mcp::{ErrorObject, Method, Revision},
    model::{BackendSpec, status::BackendState},
};
use serde_json::{Value, json};

use super::scripted_servers::{
    Scripts, call, client, everyday, failure, gateway, greeting_in, hold_time, pass, result, speaking, started, text,
    tool, until,
};
use crate::kit::peer::{Body, Peer, Response, Seen, greeting, named, reply, status};
use crate::kit::scripted::Script;

/// Answers `initialize` by `script`, with the number of the request from 0.
fn initialized_by(
    script: impl Fn(&Seen, usize) -> Response + Send + Sync + 'static,
) -> impl Fn(&Seen) -> Option<Response> {
    let turn = AtomicUsize::new(0);
    move |seen| (seen.method() == "initialize").then(|| script(seen, turn.fetch_add(1, Ordering::SeqCst)))
}

fn in_session(mut response: Response, id: &str) -> Response {
    response.headers_mut().insert("mcp-session-id", id.parse().unwrap());
    response
}

fn reason(state: BackendState) -> String {
    match state {
        BackendState::Restarting { reason } | BackendState::Failed { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_unknown_version_over_http_is_answered_by_lower_offers_and_leaves_no_session_behind() {
    let peer = Peer::start(initialized_by(|seen, turn| {
        let offered = seen.body["params"]["protocolVersion"].as_str().unwrap();
        let version = if offered == "2025-03-26" { offered } else { "2026-01-01" };
        in_session(reply(&seen.result(&greeting(version))), &format!("offer-{turn}"))
    }))
    .await;
    let (supervisor, _) = started(peer.spec()).await;
    assert_eq!(supervisor.status()[0].protocol_version.as_deref(), Some("2025-03-26"));
    let offers: Vec<_> =
        peer.seen_of("initialize").iter().map(|seen| seen.body["params"]["protocolVersion"].clone()).collect();
    assert_eq!(offers, ["2025-11-25", "2025-06-18", "2025-03-26"]);
    for orphan in ["offer-0", "offer-1"] {
        let deleted = || {
            peer.seen()
                .into_iter()
                .find(|seen| seen.verb == Verb::DELETE && seen.header("mcp-session-id") == Some(orphan))
        };
        until("the end of the orphan", deleted).await;
    }
}

#[tokio::test]
async fn a_server_without_a_common_version_is_unusable_with_a_reason() {
    let peer = Peer::start(initialized_by(|seen, _| reply(&seen.result(&greeting("2026-01-01"))))).await;
    let (supervisor, server) = started(peer.spec()).await;
    let state = supervisor.status().remove(0).state;
    assert!(matches!(state, BackendState::Failed { .. }));
    assert!(reason(state).contains("2026-01-01"));
    let error = failure(tool(&server, gateway(), &named("x"))).await;
    assert_eq!(error.code(), ErrorObject::INTERNAL_ERROR);
    assert_eq!(peer.seen_of("initialize").len(), 4);
}

#[tokio::test]
async fn a_reopened_session_uses_the_version_of_its_own_handshake() {
    let forgotten = Arc::new(AtomicUsize::new(0));
    let flag = Arc::clone(&forgotten);
    let greet = initialized_by(|seen, turn| {
        let version = if turn < 2 { "2025-11-25" } else { "2025-06-18" };
        in_session(reply(&seen.result(&greeting(version))), &format!("s{turn}"))
    });
    let peer = Peer::start(move |seen| {
        let gone = flag.load(Ordering::SeqCst) == 1 && seen.header("mcp-session-id") == Some("s1");
        if gone && seen.verb == Verb::POST { Some(status(404)) } else { greet(seen) }
    })
    .await;
    let (_supervisor, server) = started(peer.spec()).await;
    let context = || client("c", "{}");
    assert_eq!(text(tool(&server, context(), &named("x"))).await, "s1");
    forgotten.store(1, Ordering::SeqCst);
    assert_eq!(text(tool(&server, context(), &named("x"))).await, "s2");
    let last = peer.seen_of("tools/call").pop().unwrap();
    assert_eq!(last.header("mcp-protocol-version"), Some("2025-06-18"));
}

#[tokio::test]
async fn a_handshake_without_a_version_fails_or_gets_the_assumed_one() {
    let nameless = || {
        initialized_by(|seen, _| {
            let mut result = greeting("");
            result.as_object_mut().unwrap().remove("protocolVersion");
            reply(&seen.result(&result))
        })
    };
    let peer = Peer::start(nameless()).await;
    let (supervisor, _) = started(peer.spec()).await;
    let state = supervisor.status().remove(0).state;
    assert_eq!(reason(state), "the server answered `initialize` wrongly: `protocolVersion` is missing");
    let peer = Peer::start(nameless()).await;
    let scripts = Scripts::new();
    let mut greeting = greeting_in("");
    greeting.as_object_mut().unwrap().remove("protocolVersion");
    let server = everyday(Script::everyday().greeting(&greeting));
    for spec in [peer.spec(), scripts.serve("nameless", server)] {
        let (supervisor, _) = started(BackendSpec { assume_version: Some("2024-11-05"), ..spec }).await;
        assert_eq!(supervisor.status()[0].protocol_version.as_deref(), Some("2024-11-05"));
    }
}

#[tokio::test]
async fn initialize_is_repeated_if_its_answer_breaks_off() {
    let peer = Peer::start(initialized_by(|seen, turn| {
        if turn == 0 {
            let cut = futures_util::stream::iter([Err::<bytes::Bytes, _>(std::io::Error::other("cut"))]);
            return Response::new(Body::from_stream(cut));
        }
        reply(&seen.result(&greeting("2025-11-25")))
    }))
    .await;
    let (supervisor, server) = started(peer.spec()).await;
    assert!(matches!(supervisor.status()[0].state, BackendState::Failed { retry_in: Some(0 | 1), .. }));
    until("the next try", || matches!(supervisor.status()[0].state, BackendState::Ready).then_some(())).await;
    assert_eq!(text(tool(&server, gateway(), &named("x"))).await, "none");
}

#[tokio::test]
async fn initialized_is_repeated_until_it_is_accepted_and_nothing_is_sent_before() {
    let tries = AtomicUsize::new(0);
    let peer = Peer::start(move |seen| {
        let refused = seen.method() == "notifications/initialized" && tries.fetch_add(1, Ordering::SeqCst) < 2;
        refused.then(|| status(503))
    })
    .await;
    let (_supervisor, server) = started(peer.spec()).await;
    assert_eq!(text(tool(&server, gateway(), &named("x"))).await, "s1");
    let methods: Vec<String> =
        peer.seen().iter().filter(|seen| seen.verb == Verb::POST).map(|seen| seen.method().to_owned()).collect();
    let told = "notifications/initialized";
    assert_eq!(methods, ["initialize", told, told, told, "tools/call"]);
}

#[tokio::test]
async fn a_server_that_never_accepts_initialized_is_used_after_five_seconds() {
    for code in [400, 500, 503] {
        let peer = Peer::start(move |seen| (seen.method() == "notifications/initialized").then(|| status(code))).await;
        let supervisor = super::scripted_servers::start(vec![peer.spec()]);
        let server = supervisor.servers().remove(0).server;
        peer.saw("notifications/initialized").await;
        let held = hold_time();
        let mut called = pin!(text(tool(&server, gateway(), &named("x"))));
        let mut waited = 0;
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut called => break answer,
                () = pass(Duration::from_millis(100)) => waited += 1,
            }
            assert!(waited < 100, "{code}: it is not used");
            assert!(waited >= 45 || peer.seen_of("tools/call").is_empty(), "{code}: it is used after {waited}");
        };
        drop(held);
        assert_eq!(answer, "s1", "{code}");
        assert!(peer.seen_of("notifications/initialized").len() < 5);
    }
}

#[tokio::test]
async fn a_rejected_initialized_fails_the_handshake() {
    for (code, told) in [(401, "turned down"), (403, "turned down"), (404, "turned down")] {
        let peer = Peer::start(move |seen| (seen.method() == "notifications/initialized").then(|| status(code))).await;
        let (supervisor, _) = started(peer.spec()).await;
        let state = supervisor.status().remove(0).state;
        assert!(matches!(state, BackendState::Failed { retry_in: Some(0 | 1), .. }), "{state:?}");
        let reason = reason(state);
        assert!(reason.contains(told), "{reason}");
        until("the end of the orphan", || peer.seen().into_iter().find(|seen| seen.verb == Verb::DELETE)).await;
    }
}

#[tokio::test]
async fn a_method_that_the_servers_version_lacks_is_refused_by_the_gateway() {
    let peer = Peer::start(initialized_by(|seen, _| reply(&seen.result(&greeting("2025-06-18"))))).await;
    let scripts = Scripts::new();
    for spec in [peer.spec(), scripts.serve("old", speaking("2025-06-18"))] {
        let (_supervisor, server) = started(spec).await;
        let asked = call(&server, client("c", "{}"), Method::TasksGet, &json!({ "taskId": "1" }));
        assert_eq!(failure(asked).await.code(), ErrorObject::METHOD_NOT_FOUND);
    }
    assert!(peer.seen_of("tasks/get").is_empty());
    assert!(!scripts.log("old").contains("tasks/get"));
}

#[tokio::test]
async fn a_slow_start_over_http_succeeds() {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let held = Arc::clone(&gate);
    let peer = Peer::start(initialized_by(move |seen, _| {
        let (held, answer) = (Arc::clone(&held), seen.result(&greeting("2025-11-25")).to_string());
        let late = futures_util::stream::once(async move {
            held.acquire().await.unwrap().forget();
            Ok(answer)
        });
        let mut response = Response::new(Body::from_stream(late));
        response.headers_mut().insert("content-type", "application/json".parse().unwrap());
        response
    }))
    .await;
    let supervisor = super::scripted_servers::start(vec![peer.spec()]);
    let server = supervisor.servers().remove(0).server;
    let mut discovered = Box::pin(result(call(&server, gateway(), Method::Discover, &Value::Null)));
    let asked = peer.saw("initialize");
    tokio::select! { _ = &mut discovered => panic!("it has not started"), _ = asked => {} }
    assert!(matches!(supervisor.status()[0].state, BackendState::Starting { .. }));
    gate.add_permits(8);
    assert!(discovered.await.contains(Revision::V2025_11_25.as_str()));
}

#[tokio::test]
async fn elicitation_by_url_is_not_declared_to_a_server_that_would_read_it_as_forms() {
    let peer = Peer::start(initialized_by(|seen, turn| {
        in_session(reply(&seen.result(&greeting("2025-06-18"))), &format!("turn-{turn}"))
    }))
    .await;
    let (_supervisor, server) = started(peer.spec()).await;
    text(tool(&server, client("s1", r#"{"elicitation":{"url":{}},"roots":{}}"#), &named("x"))).await;
    let declared: Vec<Value> =
        peer.seen_of("initialize").iter().map(|seen| seen.body["params"]["capabilities"].clone()).collect();
    // the base session, then the client's, which is reopened
    assert_eq!(declared, [json!({}), json!({ "elicitation": { "url": {} }, "roots": {} }), json!({ "roots": {} })]);
}
