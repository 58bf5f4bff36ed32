//! The standalone stream of a session (GET) and the calls that wait for it.

use std::time::Duration;

use futures_util::StreamExt as _;
use http::Method as Verb;
use lockkeeper::mcp::{Event, Method};
use serde_json::{Value, json};
use tokio::{sync::broadcast, task::JoinSet};
use tokio_stream::wrappers::BroadcastStream;

use super::scripted_servers::{call, client, hold_time, next, pass, result, started, text, tool};
use crate::{
    kit::peer::{Peer, Response, Seen, event, named, open_events, reply, status, streamed},
    support::log::Log,
};

const ASKABLE: &str = r#"{"elicitation":{}}"#;

/// Answers lists.
fn lists(seen: &Seen) -> Option<Response> {
    (seen.method() == "tools/list").then(|| reply(&seen.result(&json!({ "tools": [] }))))
}

#[tokio::test]
async fn the_first_call_waits_for_the_standalone_stream() {
    let (ask, _) = broadcast::channel::<String>(8);
    let script = move |seen: &Seen| {
        if seen.verb == Verb::GET {
            return Some(streamed(BroadcastStream::new(ask.subscribe()).map(Result::unwrap)));
        }
        if seen.is_tool("ask") {
            let asked =
                json!({ "jsonrpc": "2.0", "id": 0, "method": "elicitation/create", "params": { "message": "?" } });
            // lost if no stream is open
            let _ = ask.send(event(&asked));
            return Some(open_events(": asked\n\n".to_owned()));
        }
        lists(seen)
    };
    let peer = Peer::start_without_streams(script).await;
    let (_supervisor, server) = started(peer.spec()).await;
    let _held = hold_time();
    let mut asking = tool(&server, client("c", ASKABLE), &named("ask"));
    let listing = result(call(&server, client("c", ASKABLE), Method::ToolsList, &Value::Null));
    tokio::select! {
        event = asking.next_event() => panic!("{event:?}"),
        list = listing => assert!(list.contains("tools"), "{list}"),
    }
    assert!(peer.seen_of("tools/call").is_empty(), "the call does not wait");
    peer.answer_streams();
    let Event::Asked(question) = next(&mut asking).await else { panic!("a question") };
    assert_eq!(question.method, Method::Elicit);
}

#[tokio::test]
async fn a_late_standalone_stream_is_awaited_once() {
    let peer = Peer::start_without_streams(lists).await;
    let (_supervisor, server) = started(peer.spec()).await;
    let _held = hold_time();
    let mut calling = JoinSet::new();
    calling.spawn(text(tool(&server, client("c", ASKABLE), &named("x"))));
    result(call(&server, client("c", ASKABLE), Method::ToolsList, &Value::Null)).await;
    assert!(peer.seen_of("tools/call").is_empty(), "the call does not wait");
    pass(Duration::from_millis(250)).await;
    assert_eq!(calling.join_next().await.unwrap().unwrap(), "s2");
    assert_eq!(text(tool(&server, client("d", ASKABLE), &named("x"))).await, "s3");
}

#[tokio::test]
async fn a_call_does_not_wait_without_a_stream_or_without_capabilities() {
    for refusal in [400, 401, 403, 404, 405, 429, 500] {
        let peer = Peer::start(move |seen| (seen.verb == Verb::GET).then(|| status(refusal))).await;
        let (_supervisor, server) = started(peer.spec()).await;
        let _held = hold_time();
        assert_eq!(text(tool(&server, client("c", ASKABLE), &named("x"))).await, "s2", "{refusal}");
    }
    let peer = Peer::start_without_streams(lists).await;
    let (_supervisor, server) = started(peer.spec()).await;
    let _held = hold_time();
    assert_eq!(text(tool(&server, client("c", "{}"), &named("x"))).await, "s2");
}

#[tokio::test]
async fn a_server_without_a_standalone_stream_is_no_warning() {
    let log = Log::open();
    let peer = Peer::start(|seen| (seen.verb == Verb::GET).then(|| status(405))).await;
    let (supervisor, server) = started(peer.spec()).await;
    text(tool(&server, client("c", ASKABLE), &named("x"))).await;
    assert!(peer.seen().iter().any(|seen| seen.verb == Verb::GET));
    assert_eq!(supervisor.status()[0].warnings, [""; 0]);
    assert_eq!(log.lines("WARN"), [""; 0]);
}
