//! Log levels and subscriptions of clients, and their restoration in a fresh session.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::http::Method as Verb;
use lockkeeper::mcp::{Context, Method, Server};
use serde_json::{Value, json};

use super::scripted_servers::{self, call, client, result, started, text, tool};
use crate::kit::peer::{Peer, Seen, named, reply, status};

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
    let set = async |method, params: Value| result(call(&server, client("c", "{}"), method, &params)).await;
    set(Method::SetLevel, json!({ "level": "debug" })).await;
    set(Method::ResourcesSubscribe, json!({ "uri": "a:kept" })).await;
    set(Method::ResourcesSubscribe, json!({ "uri": "a:left" })).await;
    set(Method::ResourcesUnsubscribe, json!({ "uri": "a:left" })).await;
    forgotten.store(2, Ordering::SeqCst);
    assert_eq!(text(tool(&server, client("c", "{}"), &named("x"))).await, "s3");
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
async fn a_level_is_stored_even_if_the_server_refuses_it() {
    let set = async |server: &Arc<dyn Server>| {
        let told = call(server, client("c", "{}"), Method::SetLevel, &json!({ "level": "debug" }));
        assert_eq!(result(told).await, "{}");
    };
    // it declares no `logging`: before the session opens, and after
    let silent = |seen: &Seen| {
        let greeting = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
            "serverInfo": { "name": "silent", "version": "1" } });
        (seen.method() == "initialize").then(|| reply(&seen.result(&greeting)))
    };
    let peer = Peer::start(silent).await;
    let (_supervisor, server) = started(peer.spec()).await;
    set(&server).await;
    text(tool(&server, client("c", "{}"), &named("x"))).await;
    set(&server).await;
    assert!(peer.seen_of("logging/setLevel").is_empty());
    // it declares `logging` and refuses the level
    let refuses = |seen: &Seen| {
        let error = json!({ "jsonrpc": "2.0", "id": seen.body["id"], "error": { "code": -32603, "message": "no" } });
        (seen.method() == "logging/setLevel").then(|| reply(&error))
    };
    let peer = Peer::start(refuses).await;
    let (_supervisor, server) = started(peer.spec()).await;
    text(tool(&server, client("c", "{}"), &named("x"))).await;
    set(&server).await;
    assert_eq!(peer.seen_of("logging/setLevel").len(), 1);
}

#[tokio::test]
async fn the_level_of_a_request_is_set_while_it_runs() {
    let script = |seen: &Seen| (seen.method() == "logging/setLevel").then(|| reply(&seen.result(&json!({}))));
    let peer = Peer::start(script).await;
    let (_supervisor, server) = started(peer.spec()).await;
    for (request, level) in [("r1", Some("debug")), ("r2", Some("debug")), ("r3", None)] {
        let context = Context { requester: scripted_servers::request(request), ..client(request, "{}") };
        let mut params = named("x");
        if let Some(level) = level {
            params["_meta"]["io.modelcontextprotocol/logLevel"] = level.into();
        }
        // requests of one user share a session
        assert_eq!(text(tool(&server, context, &params)).await, "s2");
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
    let set = call(&server, client("c", "{}"), Method::SetLevel, &json!({ "level": "error" }));
    assert_eq!(result(set).await, "{}");
    assert_eq!(text(tool(&server, client("c", "{}"), &named("x"))).await, "s3");
    let seen = peer.seen();
    let levels = seen.iter().filter(|seen| seen.method() == "logging/setLevel");
    let levels: Vec<_> = levels.map(|seen| (seen.header("mcp-session-id"), &seen.body["params"]["level"])).collect();
    assert_eq!(levels, [(Some("s2"), &json!("error")), (Some("s3"), &json!("error"))]);
}
