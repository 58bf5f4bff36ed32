//! Log levels and subscriptions of clients, in fresh sessions and in shared ones.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::http::Method as Verb;
use lockkeeper::{
    mcp::{Context, ErrorObject, Level, LogLevel, Method, Outcome, Reply, Server},
    model::{BackendSpec, Share},
};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::{JoinSet, yield_now},
};

use super::scripted_servers::{
    self, call, client, failure, granted, hold_time, pass, person, result, started, text, tool, until,
};
use crate::kit::peer::{Peer, Seen, named, open_events, reply, status};

#[tokio::test]
async fn a_fresh_session_gets_the_clients_settings() {
    let forgotten = Arc::new(AtomicUsize::new(0));
    let flag = Arc::clone(&forgotten);
    let script = move |seen: &Seen| {
        let gone = flag.load(Ordering::SeqCst).to_string();
        if seen.verb == Verb::POST && seen.header("mcp-session-id") == Some(&format!("s{gone}")) {
            return Some(status(404));
        }
        let sets = seen.method() == "logging/setLevel" || seen.method().starts_with("resources/");
        sets.then(|| reply(&seen.result(&json!({}))))
    };
    let peer = Peer::start(script).await;
    let (_supervisor, server) = started(peer.spec()).await;
    let (_level, level) = watch::channel(Some(Level::Debug));
    let context = || Context { level: LogLevel::Session(level.clone()), ..client("c", "{}") };
    let mut listening = JoinSet::new();
    listening.spawn(call(&server, context(), Method::Listen, &Value::Null).outcome());
    let set = |method, uri: &str| call(&server, context(), method, &json!({ "uri": uri }));
    let _kept = granted(set(Method::ResourcesSubscribe, "a:kept")).await;
    drop(granted(set(Method::ResourcesSubscribe, "a:left")).await);
    result(set(Method::ResourcesUnsubscribe, "a:left")).await;
    assert_eq!(peer.seen_of("resources/unsubscribe").len(), 1, "the server knows before the client is answered");
    peer.saw("logging/setLevel").await;
    forgotten.store(2, Ordering::SeqCst);
    assert_eq!(text(tool(&server, context(), &named("x"))).await, "s3");
    let again: Vec<Value> = peer
        .seen()
        .into_iter()
        .filter(|seen| seen.header("mcp-session-id") == Some("s3"))
        .filter(|seen| seen.verb == Verb::POST)
        .map(|seen| json!([seen.method(), seen.body["params"]]))
        .collect();
    insta::assert_snapshot!(Value::from(again), @r#"[["notifications/initialized",null],["logging/setLevel",{"level":"debug"}],["resources/subscribe",{"uri":"a:kept"}],["tools/call",{"name":"x"}]]"#);
}

// LOG
#[tokio::test]
async fn a_level_that_the_server_does_not_take_fails_no_call() {
    let context = || Context { level: LogLevel::Request(Some(Level::Debug)), ..client("c", "{}") };
    // it declares no `logging`
    let silent = |seen: &Seen| {
        let greeting = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
            "serverInfo": { "name": "silent", "version": "1" } });
        (seen.method() == "initialize").then(|| reply(&seen.result(&greeting)))
    };
    let peer = Peer::start(silent).await;
    let (_supervisor, server) = started(peer.spec()).await;
    text(tool(&server, context(), &named("x"))).await;
    assert!(peer.seen_of("logging/setLevel").is_empty());
    // it declares `logging` and refuses the level
    let refuses = |seen: &Seen| {
        let error = json!({ "jsonrpc": "2.0", "id": seen.body["id"], "error": { "code": -32603, "message": "no" } });
        (seen.method() == "logging/setLevel").then(|| reply(&error))
    };
    let peer = Peer::start(refuses).await;
    let (_supervisor, server) = started(peer.spec()).await;
    for _ in 0..2 {
        text(tool(&server, context(), &named("x"))).await;
    }
    assert_eq!(peer.seen_of("logging/setLevel").len(), 1);
}

#[tokio::test]
async fn a_level_that_a_session_sets_is_told_at_once_and_the_most_verbose_one_to_a_shared_server() {
    let script = |seen: &Seen| (seen.method() == "logging/setLevel").then(|| reply(&seen.result(&json!({}))));
    let peer = Peer::start(script).await;
    let (_supervisor, server) = started(BackendSpec { share: Share::All, ..peer.spec() }).await;
    let mut listening = JoinSet::new();
    let levels = ["ann", "bob"].map(|user| {
        let (level, of_session) = watch::channel(None);
        let context = Context { level: LogLevel::Session(of_session), ..person(user, user, "{}") };
        listening.spawn(call(&server, context, Method::Listen, &Value::Null).outcome());
        level
    });
    let mut told: Vec<Value> = Vec::new();
    for (session, level, effective) in
        [(0, Level::Error, "error"), (1, Level::Debug, "debug"), (0, Level::Alert, ""), (1, Level::Warning, "warning")]
    {
        levels[session].send_replace(Some(level));
        if !effective.is_empty() {
            told.push(effective.into());
        }
        let seen =
            || peer.seen_of("logging/setLevel").iter().map(|seen| seen.body["params"]["level"].clone()).collect();
        until(effective, || Some(seen()).filter(|seen: &Vec<Value>| *seen == told)).await;
    }
}

#[tokio::test]
async fn the_next_level_is_told_before_a_call_though_the_server_has_not_answered_the_last_one() {
    let script = |seen: &Seen| {
        let is_level = seen.method() == "logging/setLevel";
        let is_answered = seen.body["params"]["level"] == "debug";
        is_level.then(|| if is_answered { reply(&seen.result(&json!({}))) } else { open_events(String::new()) })
    };
    let peer = Peer::start(script).await;
    let (_supervisor, server) = started(BackendSpec { share: Share::All, ..peer.spec() }).await;
    let _time = hold_time();
    let of = |user: &str, level| Context { level: LogLevel::Request(Some(level)), ..person(user, user, "{}") };
    let mut calls = JoinSet::new();
    calls.spawn(tool(&server, of("ann", Level::Error), &named("x")).outcome());
    peer.saw("logging/setLevel").await;
    calls.spawn(tool(&server, of("bob", Level::Debug), &named("y")).outcome());
    // until the second call waits for its level
    for _ in 0..100 {
        yield_now().await;
    }
    pass(Duration::from_secs(5)).await;
    while let Some(outcome) = calls.join_next().await {
        assert!(matches!(outcome.unwrap(), Outcome::Complete(_)));
    }
    let seen = peer.seen();
    let of = |level: &str| seen.iter().position(|seen| seen.body["params"]["level"] == level).unwrap();
    let call = seen.iter().position(|seen| seen.is_tool("y")).unwrap();
    assert!(of("error") < of("debug") && of("debug") < call, "{seen:?}");
}

#[tokio::test]
async fn the_level_of_a_request_is_set_while_it_runs() {
    let script = |seen: &Seen| (seen.method() == "logging/setLevel").then(|| reply(&seen.result(&json!({}))));
    let peer = Peer::start(script).await;
    let (_supervisor, server) = started(peer.spec()).await;
    for (request, level) in [("r1", Some(Level::Debug)), ("r2", Some(Level::Debug)), ("r3", None)] {
        let level = LogLevel::Request(level);
        let context = Context { requester: scripted_servers::request(request), level, ..client(request, "{}") };
        // requests of one user share a session
        assert_eq!(text(tool(&server, context, &named("x"))).await, "s2");
    }
    let seen = peer.seen_of("logging/setLevel");
    let levels: Vec<_> = seen.iter().map(|seen| &seen.body["params"]["level"]).collect();
    assert_eq!(levels, ["debug"], "it is set where it is another, and not for who wants no log messages");
}

#[tokio::test]
async fn a_level_for_a_lost_session_is_set_on_the_next_one() {
    let script = |seen: &Seen| match (seen.method(), seen.header("mcp-session-id")) {
        ("logging/setLevel", Some("s2")) => Some(status(404)),
        ("logging/setLevel", _) => Some(reply(&seen.result(&json!({})))),
        _ => None,
    };
    let peer = Peer::start(script).await;
    let (_supervisor, server) = started(peer.spec()).await;
    assert_eq!(text(tool(&server, client("c", "{}"), &named("x"))).await, "s2");
    let context = Context { level: LogLevel::Request(Some(Level::Error)), ..client("c", "{}") };
    assert_eq!(text(tool(&server, context, &named("x"))).await, "s3");
    let seen = peer.seen();
    let levels = seen.iter().filter(|seen| seen.method() == "logging/setLevel");
    let levels: Vec<_> = levels.map(|seen| (seen.header("mcp-session-id"), &seen.body["params"]["level"])).collect();
    assert_eq!(levels, [(Some("s2"), &json!("error")), (Some("s3"), &json!("error"))]);
}

fn subscribe(server: &Arc<dyn Server>, user: &str, uri: &str) -> Reply {
    call(server, person(user, user, "{}"), Method::ResourcesSubscribe, &json!({ "uri": uri }))
}

/// The subscriptions that a server was asked for whose URI begins so.
fn asked_for(peer: &Peer, begin: &str) -> Vec<String> {
    let uris = peer.seen_of("resources/subscribe").into_iter();
    let uris = uris.map(|seen| seen.body["params"]["uri"].as_str().unwrap().to_owned());
    uris.filter(|uri| uri.starts_with(begin)).collect()
}

#[tokio::test]
async fn a_subscription_that_the_server_does_not_answer_holds_up_nobody_elses() {
    let script = |seen: &Seen| {
        let is_silent = seen.body["params"]["uri"].as_str().is_some_and(|uri| uri.starts_with("a:silent"));
        let answer = || if is_silent { open_events(": x\n\n".to_owned()) } else { reply(&seen.result(&json!({}))) };
        seen.method().starts_with("resources/").then(answer)
    };
    let peer = Peer::start(script).await;
    let (_supervisor, server) = started(BackendSpec { share: Share::All, ..peer.spec() }).await;
    let mut hostile = JoinSet::new();
    for number in 0..100 {
        hostile.spawn(subscribe(&server, "hostile", &format!("a:silent/{number}")).outcome());
    }
    until("many open requests", || (asked_for(&peer, "a:silent").len() > 10).then_some(())).await;
    let fine = granted(subscribe(&server, "ann", "a:fine")).await;
    // the same user has a number of open requests, and another one waits for the same resource as long as it likes
    let mut ann = JoinSet::new();
    ann.spawn(subscribe(&server, "ann", "a:silent/99").outcome());
    until("the resource that waited", || asked_for(&peer, "a:silent/99").pop()).await;
    let shared = granted(subscribe(&server, "bob", "a:fine")).await;
    drop(fine);
    assert_eq!(asked_for(&peer, "a:fine").len(), 1, "those who share a server share its subscription");
    ann.abort_all();
    hostile.abort_all();
    while hostile.join_next().await.is_some() || ann.join_next().await.is_some() {}
    let left = || (peer.seen_of("notifications/cancelled").len() == asked_for(&peer, "a:silent").len()).then_some(());
    until("the end of what nobody waits for", left).await;
    assert!(peer.seen_of("resources/unsubscribe").is_empty(), "one of them still wants it");
    drop(shared);
    until("the end of what nobody wants", || peer.seen_of("resources/unsubscribe").pop()).await;
}

#[tokio::test]
async fn a_subscription_that_was_refused_is_asked_for_again() {
    let refused = AtomicUsize::new(0);
    let script = move |seen: &Seen| {
        let error =
            json!({ "jsonrpc": "2.0", "id": seen.body["id"], "error": { "code": -32602, "message": "not yet" } });
        let answer = || match refused.fetch_add(1, Ordering::SeqCst) {
            0 => reply(&error),
            _ => reply(&seen.result(&json!({}))),
        };
        (seen.method() == "resources/subscribe").then(answer)
    };
    let peer = Peer::start(script).await;
    let (_supervisor, server) = started(BackendSpec { share: Share::All, ..peer.spec() }).await;
    let error = failure(subscribe(&server, "ann", "a:x")).await;
    assert_eq!((error.code(), error.message()), (ErrorObject::INVALID_PARAMS, "not yet".to_owned()));
    let _bob = granted(subscribe(&server, "bob", "a:x")).await;
    let _ann = granted(subscribe(&server, "ann", "a:x")).await;
    assert_eq!(asked_for(&peer, "a:x").len(), 2);
}
