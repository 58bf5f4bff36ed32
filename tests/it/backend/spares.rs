//! Spare processes: started before a client needs them.

use std::{sync::Arc, time::Duration};

use lockkeeper::{
    mcp::{ClientInfo, Context, Event, Method, Payload, Revision, Server},
    model::{BackendSpec, Requester, SessionId},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

use super::scripted_servers::{
    Scripts, call, client, everyday, hold_time, next, pass, result, started, text, tool, until,
};
use crate::kit::scripted::Script;

const DIALOGS: &str = r#"{"elicitation":{}}"#;

/// The process ids of the server with this name, in the order of their starts.
fn processes(scripts: &Scripts, name: &str) -> Vec<i32> {
    scripts.journal(name).processes()
}

async fn started_processes(scripts: &Scripts, name: &str, count: usize) -> Vec<i32> {
    until("a start", || Some(processes(scripts, name)).filter(|all| all.len() >= count)).await
}

fn about() -> Value {
    json!({ "name": "about", "arguments": {} })
}

fn pid(text: &str) -> i64 {
    serde_json::from_str::<Value>(text).unwrap()["pid"].as_i64().unwrap()
}

#[tokio::test]
async fn the_next_session_gets_a_process_that_has_started_before_it() {
    let scripts = Scripts::new();
    let (supervisor, server) = started(scripts.spec("kept")).await;
    assert_eq!(processes(&scripts, "kept").len(), 1, "no client has used it yet");
    let first = pid(&text(tool(&server, client("s1", "{}"), &about())).await);
    // that of the gateway, that of the session, the spare one
    let all = started_processes(&scripts, "kept", 3).await;
    assert_eq!(i64::from(all[1]), first);
    let second = pid(&text(tool(&server, client("s2", "{}"), &about())).await);
    assert_eq!(i64::from(all[2]), second);
    started_processes(&scripts, "kept", 4).await;
    supervisor.shutdown().await;
    // the spare one ends with the others
    until("four ends", || (scripts.journal("kept").count("stdin closed") == 4).then_some(())).await;
}

/// The lists that the gateway asks for in the name of clients that can show dialogs.
async fn introduced(server: &Arc<dyn Server>) {
    let context = Context { requester: Requester::Gateway, ..client("s1", DIALOGS) };
    result(call(server, context, Method::ToolsList, &Value::Null)).await;
}

#[tokio::test]
async fn the_process_that_introduced_the_server_serves_the_first_session() {
    let scripts = Scripts::new();
    let spec = BackendSpec { spares: 0, ..scripts.spec("once") };
    let (supervisor, server) = started(spec).await;
    introduced(&server).await;
    let all = started_processes(&scripts, "once", 2).await;
    let first = pid(&text(tool(&server, client("s1", DIALOGS), &about())).await);
    assert_eq!(i64::from(all[1]), first);
    // its questions reach the session
    let asks = json!({ "name": "ask", "arguments": { "method": "elicitation/create" } });
    let mut reply = tool(&server, client("s1", DIALOGS), &asks);
    let Event::Asked(question) = next(&mut reply).await else { panic!("a question") };
    question.answer.give(Ok(Payload::of(Revision::NEWEST_LEGACY, &json!({ "action": "decline" }))));
    assert!(text(reply).await.contains("decline"));
    // another session gets a process of its own
    let second = pid(&text(tool(&server, client("s2", DIALOGS), &about())).await);
    assert_ne!(first, second);
    supervisor.shutdown().await;
    assert_eq!(processes(&scripts, "once").len(), 3);
}

#[tokio::test]
async fn a_process_that_has_spoken_of_its_own_introduces_alone() {
    let scripts = Scripts::new();
    let hello = json!([["tell", "notifications/message", { "level": "info", "data": "hello" }]]);
    let server = everyday(Script::everyday().on("notifications/initialized", hello));
    let spec = BackendSpec { spares: 0, ..scripts.serve("heard", server) };
    let (supervisor, server) = started(spec).await;
    introduced(&server).await;
    let all = started_processes(&scripts, "heard", 2).await;
    let first = pid(&text(tool(&server, client("s1", DIALOGS), &about())).await);
    assert!(!all.iter().any(|known| i64::from(*known) == first), "what it said is lost for this session");
    supervisor.shutdown().await;
}

#[tokio::test]
async fn a_process_that_was_told_of_another_client_introduces_alone() {
    let scripts = Scripts::new();
    let spec = BackendSpec { spares: 0, ..scripts.spec("other") };
    let (supervisor, server) = started(spec).await;
    introduced(&server).await;
    let all = started_processes(&scripts, "other", 2).await;
    let named = ClientInfo {
        implementation: r#"{"name":"another","version":"2"}"#.into(),
        ..ClientInfo::clone(&client("s1", DIALOGS).client)
    };
    let context = Context { client: Arc::new(named), ..client("s1", DIALOGS) };
    let first = pid(&text(tool(&server, context, &about())).await);
    assert!(!all.iter().any(|known| i64::from(*known) == first));
    supervisor.shutdown().await;
}

#[tokio::test]
async fn a_spare_process_that_has_died_is_passed_over() {
    let scripts = Scripts::new();
    let (supervisor, server) = started(scripts.spec("dying")).await;
    text(tool(&server, client("s1", "{}"), &about())).await;
    let all = started_processes(&scripts, "dying", 3).await;
    kill(Pid::from_raw(all[2]), Signal::SIGKILL).unwrap();
    let second = pid(&text(tool(&server, client("s2", "{}"), &about())).await);
    assert!(!all.iter().any(|known| i64::from(*known) == second), "{all:?} {second}");
    supervisor.shutdown().await;
}

#[tokio::test]
async fn without_spare_processes_each_starts_when_it_is_needed() {
    let scripts = Scripts::new();
    let spec = BackendSpec { spares: 0, ..scripts.spec("lean") };
    let (supervisor, server) = started(spec).await;
    text(tool(&server, client("s1", "{}"), &about())).await;
    text(tool(&server, client("s2", "{}"), &about())).await;
    supervisor.shutdown().await;
    assert_eq!(processes(&scripts, "lean").len(), 3);
}

#[tokio::test]
async fn a_spare_process_ends_a_while_after_the_last_client() {
    let scripts = Scripts::new();
    let (supervisor, server) = started(scripts.spec("left")).await;
    text(tool(&server, client("s1", "{}"), &about())).await;
    let all = started_processes(&scripts, "left", 3).await;
    let time = hold_time();
    pass(Duration::from_mins(3)).await;
    assert!(!all.iter().any(|process| kill(Pid::from_raw(*process), None).is_err()), "the client is still there");
    supervisor.ended(&Requester::Session(SessionId::new("s1")));
    pass(Duration::from_secs(30)).await;
    for _ in 0..4 {
        pass(Duration::from_secs(30)).await;
    }
    drop(time);
    // that of the session, and the spare one
    let is_gone = |process: &i32| kill(Pid::from_raw(*process), None).is_err();
    until("the ends", || all[1..].iter().all(is_gone).then_some(())).await;
    assert!(!is_gone(&all[0]), "the gateway's own process stays");
    supervisor.shutdown().await;
}
