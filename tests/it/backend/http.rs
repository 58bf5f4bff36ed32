//! Streamable HTTP, with a scripted server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Method as Verb, StatusCode};
use lockkeeper::{
    backend::BackendDeps,
    mcp::{ErrorObject, Event, Method, Outcome},
    model::{LimitsConfig, TransportSpec, status::BackendState},
    support::Live,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::scripted_servers::{
    call, client, failure, gateway, hold_time, next, pass, person, result, start_with, started, text, tool, until,
};
use crate::kit::peer::{
    Body, Peer, Response, Seen, event, events, greeting, named, open_events, reply, status, streamed, text_of, typed,
};

#[tokio::test]
async fn up_011_a_session_is_opened_used_and_closed() {
    let peer = Peer::start(|_| None).await;
    let (supervisor, server) = started(peer.spec()).await;
    assert_eq!(text(tool(&server, gateway(), &named("x"))).await, "s1");
    supervisor.shutdown().await;
    let seen = peer.seen();
    for one in &seen {
        let initialize = one.method() == "initialize";
        assert_eq!(one.header("authorization"), Some("Bearer configured"));
        assert_eq!(one.header("mcp-session-id"), if initialize { None } else { Some("s1") });
        assert_eq!(one.header("mcp-protocol-version"), if initialize { None } else { Some("2025-11-25") });
        if one.verb == Verb::POST {
            assert_eq!(one.header("accept"), Some("application/json, text/event-stream"));
        }
    }
    assert_eq!(seen.last().unwrap().verb, Verb::DELETE);
    // 405 means that there is no stream: it is not requested again
    assert_eq!(seen.iter().filter(|one| one.verb == Verb::GET).count(), 1);
}

#[tokio::test]
async fn older_versions_get_no_version_header() {
    let script = |seen: &Seen| (seen.method() == "initialize").then(|| reply(&seen.result(&greeting("2025-03-26"))));
    let peer = Peer::start(script).await;
    let (_supervisor, server) = started(peer.spec()).await;
    assert_eq!(text(tool(&server, gateway(), &named("x"))).await, "none");
    assert!(peer.seen().iter().all(|seen| seen.header("mcp-protocol-version").is_none()));
}

#[tokio::test]
async fn a_stream_carries_progress_a_server_request_and_the_answer() {
    let script = |seen: &Seen| {
        let params = &seen.body["params"];
        seen.is_tool("ask").then(|| {
            let progress = json!({ "progressToken": params["_meta"]["progressToken"], "progress": 1 });
            open_events(
                [
                    event(&json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "data": "log" } })),
                    event(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": progress })),
                    event(&json!({ "jsonrpc": "2.0", "id": 0, "method": "roots/list" })),
                    event(&seen.result(&text_of("asked"))),
                ]
                .concat(),
            )
        })
    };
    let peer = Peer::start(script).await;
    let (_supervisor, server) = started(peer.spec()).await;
    let params = json!({ "name": "ask", "_meta": { "progressToken": "mine" } });
    let mut asking = tool(&server, client("c", r#"{"roots":{}}"#), &params);
    let Event::Notified(log) = next(&mut asking).await else { panic!("a log message") };
    assert_eq!(log.method, Method::LoggingMessage);
    let Event::Notified(progress) = next(&mut asking).await else { panic!("progress") };
    assert_eq!(progress.params.string("progressToken").as_deref(), Some("mine"));
    let Event::Asked(question) = next(&mut asking).await else { panic!("a question") };
    question.answer.give(Ok(lockkeeper::mcp::Payload::of(question.params.revision, &json!({ "roots": [] }))));
    assert_eq!(text(asking).await, "asked");
    let answer =
        until("the answer", || peer.seen().into_iter().find(|seen| seen.body["result"]["roots"].is_array())).await;
    assert_eq!(answer.body["id"], 0);
}

#[tokio::test]
async fn a_session_that_the_server_forgot_is_reopened_and_the_call_goes_on() {
    let forgotten = Arc::new(AtomicUsize::new(0));
    let flag = Arc::clone(&forgotten);
    let script = move |seen: &Seen| {
        if seen.is_tool("hang") {
            return Some(open_events(": hanging\n\n".to_owned()));
        }
        let gone = flag.load(Ordering::SeqCst).to_string();
        (seen.verb == Verb::POST && seen.header("mcp-session-id") == Some(&format!("s{gone}"))).then(|| status(404))
    };
    let peer = Peer::start(script).await;
    let (_supervisor, server) = started(peer.spec()).await;
    let context = || client("c", "{}");
    let mut listen = call(&server, context(), Method::Listen, &Value::Null);
    assert_eq!(text(tool(&server, context(), &named("x"))).await, "s2");
    let mut hanging = Box::pin(failure(tool(&server, context(), &named("hang"))));
    let polled = async {
        peer.saw("tools/call").await;
        until("the hanging call", || peer.seen().iter().any(|seen| seen.is_tool("hang")).then_some(())).await;
    };
    tokio::select! { _ = &mut hanging => panic!("it hangs"), () = polled => {} }
    forgotten.store(2, Ordering::SeqCst);
    assert_eq!(text(tool(&server, context(), &named("x"))).await, "s3");
    let error = hanging.await;
    insta::assert_snapshot!(String::from_utf8_lossy(error.json()), @r#"{"code":-32603,"data":{"backend":"docs","mayHaveRun":true,"reason":"the server has forgotten the session (404)","retryable":false,"server":"docs"},"message":"The connection to server `docs` was lost: the server has forgotten the session (404). The call may have run"}"#);
    for expected in [Method::LoggingMessage, Method::ToolsListChanged] {
        let Event::Notified(told) = next(&mut listen).await else { panic!("a notification") };
        assert_eq!(told.method, expected);
    }
}

#[tokio::test]
async fn unsolicited_messages_come_on_the_stream_of_their_session() {
    let script = |seen: &Seen| {
        let theirs = seen.verb == Verb::GET && seen.header("mcp-session-id") == Some("s2");
        let changed =
            json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": "a:b" } });
        theirs.then(|| open_events(event(&changed)))
    };
    let peer = Peer::start(script).await;
    let (_supervisor, server) = started(peer.spec()).await;
    let mut listen = call(&server, client("c", "{}"), Method::Listen, &Value::Null);
    assert_eq!(text(tool(&server, client("c", "{}"), &named("x"))).await, "s2");
    let Event::Notified(told) = next(&mut listen).await else { panic!("a notification") };
    assert_eq!(told.params.string("uri").as_deref(), Some("a:b"));
}

#[tokio::test]
async fn a_stream_that_is_closed_early_is_resumed_where_it_stopped() {
    let first = Arc::new(Mutex::new(Value::Null));
    let script = move |seen: &Seen| {
        if seen.is_tool("poll") {
            *first.lock() = seen.result(&text_of("polled"));
            return Some(events("id: e1\nretry: 5\ndata:\n\n".to_owned()));
        }
        let resumed = seen.header("last-event-id") == Some("e1");
        resumed.then(|| events(format!("id: e2\n{}", event(&first.lock()))))
    };
    let peer = Peer::start(script).await;
    let (_supervisor, server) = started(peer.spec()).await;
    assert_eq!(text(tool(&server, gateway(), &named("poll"))).await, "polled");
    assert_eq!(peer.seen_of("tools/call").len(), 1, "it is never sent twice");
}

#[tokio::test]
async fn the_standalone_stream_is_resumed_where_it_was_cut() {
    let updated =
        |uri: &str| json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri } });
    let script = move |seen: &Seen| {
        let theirs = seen.verb == Verb::GET && seen.header("mcp-session-id") == Some("s2");
        theirs.then(|| match seen.header("last-event-id") {
            None => events(format!("id: e1\nretry: 5\n{}id: e2\ndata: {{\"jsonrpc\"", event(&updated("a:1")))),
            Some("e1") => open_events(format!("id: e2\n{}", event(&updated("a:2")))),
            Some(other) => panic!("{other} is no event that was received whole"),
        })
    };
    let peer = Peer::start(script).await;
    let (_supervisor, server) = started(peer.spec()).await;
    let mut listen = call(&server, client("c", "{}"), Method::Listen, &Value::Null);
    assert_eq!(text(tool(&server, client("c", "{}"), &named("x"))).await, "s2");
    for uri in ["a:1", "a:2"] {
        let Event::Notified(told) = next(&mut listen).await else { panic!("a notification") };
        assert_eq!(told.params.string("uri").as_deref(), Some(uri));
    }
}

#[tokio::test]
async fn a_stream_without_ids_that_is_closed_early_is_a_call_that_may_have_run() {
    let peer = Peer::start(|seen: &Seen| seen.is_tool("x").then(|| events(": bye\n\n".to_owned()))).await;
    let (_supervisor, server) = started(peer.spec()).await;
    let error = failure(tool(&server, gateway(), &named("x"))).await;
    assert!(error.message().contains("closed the stream before its answer"), "{error}");
    assert_eq!(advice(&error), (Some(false), true));
}

/// Whether an error says that the call may be sent again, and that it may have run.
fn advice(error: &ErrorObject) -> (Option<bool>, bool) {
    let error: Value = serde_json::from_slice(error.json()).unwrap();
    (error["data"]["retryable"].as_bool(), error["data"]["mayHaveRun"] == true)
}

/// A server that closes the stream of the call `poll`, and then answers each resumption with what `resumed` makes of its
/// number.
async fn polled(resumed: impl Fn(usize, &Value) -> Response + Send + Sync + 'static) -> Peer {
    let (first, polls) = (Arc::new(Mutex::new(Value::Null)), AtomicUsize::new(0));
    Peer::start(move |seen: &Seen| {
        if seen.is_tool("poll") {
            *first.lock() = seen.result(&text_of("polled"));
            return Some(events("id: e0\nretry: 1\ndata:\n\n".to_owned()));
        }
        seen.header("last-event-id").map(|_| resumed(polls.fetch_add(1, Ordering::SeqCst) + 1, &first.lock()))
    })
    .await
}

fn times_resumed(peer: &Peer) -> usize {
    peer.seen().iter().filter(|seen| seen.header("last-event-id").is_some()).count()
}

#[tokio::test]
async fn a_polled_call_goes_on_as_long_as_its_event_ids_are_new() {
    let peer = polled(|number, answer| match number {
        8 => events(format!("id: e8\n{}", event(answer))),
        _ => events(format!("id: e{number}\nretry: 1\ndata:\n\n")),
    });
    let peer = peer.await;
    let (_supervisor, server) = started(peer.spec()).await;
    assert_eq!(text(tool(&server, gateway(), &named("poll"))).await, "polled");
    assert_eq!((times_resumed(&peer), peer.seen_of("tools/call").len()), (8, 1));
}

#[tokio::test]
async fn a_polled_call_without_a_sign_of_life_is_lost_and_never_sent_again() {
    let stays = polled(|_, _| events("id: e0\nretry: 1\ndata:\n\n".to_owned())).await;
    let refuses = polled(|_, _| status(503)).await;
    let has_no_streams = polled(|_, _| status(405)).await;
    for (peer, resumptions) in [(stays, 5), (refuses, 5), (has_no_streams, 1)] {
        let (_supervisor, server) = started(peer.spec()).await;
        let error = failure(tool(&server, gateway(), &named("poll"))).await;
        assert_eq!(advice(&error), (Some(false), true), "{error}");
        assert_eq!((times_resumed(&peer), peer.seen_of("tools/call").len()), (resumptions, 1), "{error}");
    }
}

#[tokio::test]
async fn a_resumption_that_finds_the_server_busy_is_tried_again() {
    let peer = polled(|number, answer| match number {
        1 => status(500),
        2 => status(503),
        _ => events(format!("id: e1\n{}", event(answer))),
    });
    let peer = peer.await;
    let (_supervisor, server) = started(peer.spec()).await;
    assert_eq!(text(tool(&server, gateway(), &named("poll"))).await, "polled");
}

#[tokio::test]
async fn a_call_that_the_server_took_and_failed_may_have_run_and_one_that_it_refused_has_not() {
    for (code, expected) in [
        (500, (Some(false), true)),
        (502, (Some(false), true)),
        (504, (Some(false), true)),
        (408, (Some(false), true)),
        (503, (Some(true), false)),
        (429, (Some(true), false)),
        (400, (None, false)),
    ] {
        let peer = Peer::start(move |seen: &Seen| seen.is_tool("x").then(|| status(code))).await;
        let (_supervisor, server) = started(peer.spec()).await;
        let error = failure(tool(&server, gateway(), &named("x"))).await;
        assert_eq!(advice(&error), expected, "{code}: {error}");
        assert_eq!(peer.seen_of("tools/call").len(), 1, "{code}");
    }
}

#[tokio::test]
async fn a_server_that_asks_for_patience_is_told_of_with_the_time() {
    let patience = |seen: &Seen| {
        let mut refused = status(403);
        refused.headers_mut().insert("retry-after", "30".parse().unwrap());
        seen.is_tool("x").then_some(refused)
    };
    let peer = Peer::start(patience).await;
    let (_supervisor, server) = started(peer.spec()).await;
    let error = failure(tool(&server, gateway(), &named("x"))).await;
    assert!(error.message().contains("limits the gateway (403 Forbidden); it asks to wait 30 s"), "{error}");
    assert_eq!(advice(&error), (Some(true), false));
}

#[tokio::test]
async fn the_standalone_stream_is_asked_for_again_when_the_server_wants_it() {
    let asked = AtomicUsize::new(0);
    let script = move |seen: &Seen| {
        let theirs = seen.verb == Verb::GET && seen.header("mcp-session-id") == Some("s2");
        theirs.then(|| match asked.fetch_add(1, Ordering::SeqCst) {
            0 => {
                let mut refused = status(503);
                refused.headers_mut().insert("retry-after", "90".parse().unwrap());
                refused
            }
            _ => open_events(": here\n\n".to_owned()),
        })
    };
    let peer = Peer::start(script).await;
    let (_supervisor, server) = started(peer.spec()).await;
    let streams = || {
        let theirs = |seen: &&Seen| seen.verb == Verb::GET && seen.header("mcp-session-id") == Some("s2");
        peer.seen().iter().filter(theirs).count()
    };
    assert_eq!(text(tool(&server, client("c", "{}"), &named("x"))).await, "s2");
    until("the first request of the stream", || (streams() == 1).then_some(())).await;
    let held = hold_time();
    // the refusal is read in the time that this call takes
    for seconds in [0, 30, 30, 29] {
        pass(Duration::from_secs(seconds)).await;
        assert_eq!(text(tool(&server, client("c", "{}"), &named("x"))).await, "s2");
    }
    assert_eq!(streams(), 1, "before the time that the server named");
    pass(Duration::from_secs(2)).await;
    drop(held);
    until("the next request of the stream", || (streams() == 2).then_some(())).await;
}

#[tokio::test]
async fn an_answer_that_came_while_the_gateway_was_frozen_is_read_before_the_server_is_given_up() {
    let (answer, answered) = tokio::sync::mpsc::unbounded_channel::<String>();
    let answered = Mutex::new(Some(answered));
    let peer = Peer::start(move |seen: &Seen| {
        seen.is_tool("slow")
            .then(|| streamed(tokio_stream::wrappers::UnboundedReceiverStream::new(answered.lock().take().unwrap())))
    })
    .await;
    let (_supervisor, server) = started(peer.spec()).await;
    let held = hold_time();
    let mut slow = Box::pin(tool(&server, gateway(), &named("slow")).outcome());
    let called = async {
        while peer.seen_of("tools/call").is_empty() {
            tokio::task::yield_now().await;
        }
        peer.seen_of("tools/call").remove(0)
    };
    let called = tokio::select! { _ = &mut slow => panic!("it waits"), called = called => called };
    // far more than `call_timeout`, in one jump
    pass(Duration::from_hours(2)).await;
    assert!(futures_util::poll!(&mut slow).is_pending());
    answer.send(event(&called.result(&text_of("in time")))).unwrap();
    let Outcome::Complete(result) = slow.await else { panic!("a result") };
    assert!(String::from_utf8_lossy(result.json()).contains("in time"));
    drop(held);
}

#[tokio::test]
async fn a_dropped_reply_is_cancelled_at_the_server() {
    let peer = Peer::start(|seen: &Seen| seen.is_tool("hang").then(|| open_events(": hanging\n\n".to_owned()))).await;
    let (_supervisor, server) = started(peer.spec()).await;
    let mut running = JoinSet::new();
    running.spawn(tool(&server, gateway(), &named("hang")).outcome());
    let called = peer.saw("tools/call").await;
    running.abort_all();
    let cancelled = peer.saw("notifications/cancelled").await;
    assert_eq!(cancelled.body["params"]["requestId"], called.body["id"]);
}

#[tokio::test]
async fn a_rejected_start_reports_the_remedy() {
    let cases = [
        (401, "the server turned the gateway away (401 Unauthorized): give it valid credentials in a header"),
        (404, "the server answered 404 Not Found: is its URL the MCP endpoint?"),
        (307, "the server redirects (307 Temporary Redirect) to nowhere: give the right address"),
        (500, "the server failed (500 Internal Server Error): see its own log"),
        (503, "the server failed (503 Service Unavailable): see its own log"),
    ];
    for (code, expected) in cases {
        let script = move |seen: &Seen| {
            let mut response = status(code);
            // some servers send a session id here, which has to be ignored
            response.headers_mut().insert("mcp-session-id", "bad".parse().unwrap());
            (seen.verb == Verb::POST).then_some(response)
        };
        let peer = Peer::start(script).await;
        let (supervisor, _) = started(peer.spec()).await;
        let BackendState::Failed { reason, .. } = supervisor.status().remove(0).state else { panic!("a retry") };
        assert!(reason.contains(expected), "{reason}");
        supervisor.shutdown().await;
        assert!(peer.seen().iter().all(|seen| seen.header("mcp-session-id").is_none()));
    }
}

#[tokio::test]
async fn an_unreachable_server_is_reported() {
    let peer = Peer::start(|_| None).await;
    let mut spec = peer.spec();
    let TransportSpec::Http(http) = &mut spec.transport else { panic!("an endpoint") };
    http.url = "http://127.0.0.1:1/mcp?key=secret".parse().unwrap();
    let (supervisor, _) = started(spec).await;
    let BackendState::Failed { reason, .. } = supervisor.status().remove(0).state else { panic!("a retry") };
    assert!(reason.starts_with("the server cannot be reached (") && !reason.contains("secret"), "{reason}");
}

#[tokio::test]
async fn an_error_with_a_bad_status_passes_unchanged() {
    let script = |seen: &Seen| {
        seen.is_tool("x").then(|| {
            let error = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32602, "message": "odd", "x": 1 } });
            let mut response = reply(&error);
            *response.status_mut() = StatusCode::BAD_REQUEST;
            response
        })
    };
    let peer = Peer::start(script).await;
    let (_supervisor, server) = started(peer.spec()).await;
    let error = failure(tool(&server, gateway(), &named("x"))).await;
    assert_eq!(error.json(), r#"{"code":-32602,"message":"odd","x":1}"#);
}

#[tokio::test]
async fn a_result_that_is_no_object_is_an_error_that_names_the_server() {
    let peer = Peer::start(|seen| seen.is_tool("x").then(|| reply(&seen.result(&json!([1]))))).await;
    let (_supervisor, server) = started(peer.spec()).await;
    let error = failure(tool(&server, gateway(), &named("x"))).await;
    let error: Value = serde_json::from_slice(error.json()).unwrap();
    assert_eq!(error["code"], -32603);
    assert_eq!(error["data"], json!({ "backend": "docs", "server": "docs", "reason": "the result is not an object" }));
}

#[tokio::test]
async fn the_error_of_an_unavailable_backend_has_its_name_the_reason_and_whether_to_retry() {
    let data = async |peer: Peer| {
        let (_supervisor, server) = started(peer.spec()).await;
        let error = failure(tool(&server, gateway(), &named("x"))).await;
        serde_json::from_slice::<Value>(error.json()).unwrap()["data"].clone()
    };
    let foreign = Peer::start(|seen| {
        let error = json!({ "code": -32602, "message": "no", "data": { "supported": ["2099-01-01"] } });
        let answer = json!({ "jsonrpc": "2.0", "id": seen.body["id"], "error": error });
        (seen.method() == "initialize").then(|| reply(&answer))
    });
    let told = data(foreign.await).await;
    assert_eq!((&told["backend"], &told["supported"]), (&json!("docs"), &json!(["2099-01-01"])), "{told}");
    assert!(told["reason"].as_str().unwrap().contains("2099-01-01"), "{told}");
    assert_eq!(told["retryable"], Value::Null, "nothing passes by itself: {told}");
    let busy = Peer::start(|seen| (seen.method() == "initialize").then(|| status(503)));
    let told = data(busy.await).await;
    assert_eq!((&told["backend"], &told["retryable"]), (&json!("docs"), &json!(true)), "{told}");
    assert_eq!(told["server"], told["backend"], "{told}");
}

#[tokio::test]
async fn a_custom_server_request_reaches_its_client_and_is_answered() {
    let script = |seen: &Seen| {
        let ask = json!({ "jsonrpc": "2.0", "id": "v1", "method": "x-vendor/ask", "params": { "y": 1 } });
        seen.is_tool("ask").then(|| open_events([event(&ask), event(&seen.result(&text_of("asked")))].concat()))
    };
    let peer = Peer::start(script).await;
    let (_supervisor, server) = started(peer.spec()).await;
    let mut asking = tool(&server, client("c", "{}"), &named("ask"));
    let Event::Asked(question) = next(&mut asking).await else { panic!("a request") };
    assert_eq!((question.method.as_str(), question.params.json().as_ref()), ("x-vendor/ask", br#"{"y":1}"#.as_slice()));
    question.answer.give(Ok(lockkeeper::mcp::Payload::of(question.params.revision, &json!({ "z": 2 }))));
    assert_eq!(text(asking).await, "asked");
    until("the answer", || {
        peer.seen().into_iter().find(|seen| seen.body["id"] == "v1" && seen.body["result"]["z"] == 2)
    })
    .await;
}

#[tokio::test]
async fn an_answer_with_another_media_type_is_refused() {
    let script = |seen: &Seen| {
        let page = || typed("text/html", Body::from("<html>"));
        let stray = json!({ "jsonrpc": "2.0", "id": 4711, "result": {} });
        if seen.is_tool("page") { Some(page()) } else { seen.is_tool("stray").then(|| reply(&stray)) }
    };
    let peer = Peer::start(script).await;
    let (_supervisor, server) = started(peer.spec()).await;
    for (name, reason) in [("page", "neither JSON nor a stream of events"), ("stray", "does not answer the request")] {
        let error = failure(tool(&server, gateway(), &named(name))).await;
        assert!(error.message().contains(reason), "{error}");
    }
    assert!(result(tool(&server, gateway(), &named("x"))).await.contains("s1"));
}

#[tokio::test]
async fn sessions_are_limited_and_idle_ones_are_ended() {
    let script = |seen: &Seen| seen.is_tool("hang").then(|| open_events(": hanging\n\n".to_owned()));
    let peer = Peer::start(script).await;
    let limits = Live::new(LimitsConfig { slot_wait: Duration::from_millis(50), ..LimitsConfig::default() });
    let supervisor = start_with(vec![peer.spec()], |deps| BackendDeps { limits, ..deps });
    let server = supervisor.servers().remove(0).server;
    assert_eq!(text(tool(&server, client("idle", "{}"), &named("x"))).await, "s2");
    let mut running = JoinSet::new();
    for number in 0..56 {
        running.spawn(tool(&server, client(&format!("c{number}"), "{}"), &named("hang")).outcome());
    }
    until("all calls", || (peer.seen().iter().filter(|seen| seen.is_tool("hang")).count() == 56).then_some(())).await;
    let ended =
        until("the end of the idle one", || peer.seen().into_iter().find(|seen| seen.verb == Verb::DELETE)).await;
    assert_eq!(ended.header("mcp-session-id"), Some("s2"));
    assert_eq!(supervisor.status()[0].sessions, 57);
    let error = failure(tool(&server, client("more", "{}"), &named("x"))).await;
    insta::assert_snapshot!(error, @"Server `docs` is not available: 56 of the 64 sessions that it may have are in use, and the others are kept for users who have none; end some of yours, try again later, or raise `server_sessions` in `[limits]` (-32603)");
    let other = tool(&server, person("other", "o", "{}"), &named("x"));
    assert_eq!(text(other).await, "s59");
}

#[tokio::test]
async fn a_burst_of_users_waits_for_sessions_in_turn_and_nobody_is_refused() {
    let peer = Peer::start(|_: &Seen| None).await;
    let limits = Live::new(LimitsConfig { server_sessions: 8, ..LimitsConfig::default() });
    let supervisor = start_with(vec![peer.spec()], |deps| BackendDeps { limits, ..deps });
    let server = supervisor.servers().remove(0).server;
    let mut calls = JoinSet::new();
    for number in 0..100 {
        let called = tool(&server, person(&format!("u{number}"), &format!("s{number}"), "{}"), &named("x"));
        calls.spawn(text(called));
    }
    assert_eq!(calls.join_all().await.len(), 100);
}

#[tokio::test]
async fn whoever_has_the_most_sessions_at_a_server_gives_way_and_never_during_a_call() {
    let script = |seen: &Seen| seen.is_tool("hang").then(|| open_events(": hanging\n\n".to_owned()));
    let peer = Peer::start(script).await;
    let slot_wait = Duration::from_millis(50);
    let limits = Live::new(LimitsConfig { server_sessions: 8, slot_wait, ..LimitsConfig::default() });
    let supervisor = start_with(vec![peer.spec()], |deps| BackendDeps { limits, ..deps });
    let server = supervisor.servers().remove(0).server;
    let called = |user: &str, session: &str| tool(&server, person(user, session, "{}"), &named("x"));
    let ended = || {
        let deleted =
            |seen: &Seen| (seen.verb == Verb::DELETE).then(|| seen.header("mcp-session-id").unwrap().to_owned());
        peer.seen().iter().filter_map(deleted).collect::<Vec<_>>()
    };
    let anns = text(called("ann", "a")).await;
    let mut theirs = Vec::new();
    for number in 0..7 {
        theirs.push(text(called("hostile", &format!("h{number}"))).await);
    }
    until("the end of one of their own", || (ended() == theirs[..1]).then_some(())).await;
    text(called("ann", "another")).await;
    until("the end of one of those of whoever has the most", || (ended() == theirs[..2]).then_some(())).await;
    text(called("bob", "b")).await;
    assert_eq!(ended().len(), 2, "a place was kept for somebody who has none");

    let mut running = JoinSet::new();
    for number in 2..7 {
        let session = person("hostile", &format!("h{number}"), "{}");
        running.spawn(tool(&server, session, &named("hang")).outcome());
    }
    until("all calls", || (peer.seen().iter().filter(|seen| seen.is_tool("hang")).count() == 5).then_some(())).await;
    let error = failure(called("hostile", "more")).await;
    assert!(error.message().contains("all 8 sessions that it may have are in use"), "{error}");
    text(called("carl", "c")).await;
    until("the end of the one that was idle longest", || (ended()[2..] == [anns.as_str()]).then_some(())).await;
    assert_eq!(running.len(), 5);
    assert!(running.try_join_next().is_none(), "no call was cut");
}

#[tokio::test]
async fn a_server_that_knows_no_get_at_all_keeps_its_session() {
    let peer = Peer::start(|seen: &Seen| (seen.verb == Verb::GET).then(|| status(404))).await;
    let (supervisor, server) = started(peer.spec()).await;
    until("the stream to be refused", || peer.seen().iter().any(|seen| seen.verb == Verb::GET).then_some(())).await;
    assert_eq!(text(tool(&server, gateway(), &named("x"))).await, "s1");
    assert_eq!(supervisor.status()[0].state, BackendState::Ready);
}

#[tokio::test]
async fn a_session_that_is_rejected_with_400_is_reopened() {
    let script = |seen: &Seen| {
        let stale = seen.is_tool("x") && seen.header("mcp-session-id") == Some("s2");
        stale.then(|| {
            let error = json!({ "code": -32000, "message": "Bad Request: No valid session ID provided" });
            let mut response = reply(&json!({ "jsonrpc": "2.0", "error": error, "id": seen.body["id"] }));
            *response.status_mut() = StatusCode::BAD_REQUEST;
            response
        })
    };
    let peer = Peer::start(script).await;
    let (_supervisor, server) = started(peer.spec()).await;
    assert_eq!(text(tool(&server, client("c", "{}"), &named("x"))).await, "s3");
}
