//! Tools that run as tasks, called by clients without tasks, which get the result of a plain call.

use std::sync::Arc;

use lockkeeper::{
    mcp::{Event, Method, Payload, Reply, Server},
    model::{BackendSpec, Share},
};
use serde_json::{Value, json};

use super::scripted_servers::{
    Scripts, call, client, everyday, failure, greeting_in, next, result, started, text, tool, until, without_tasks,
};
use crate::kit::scripted::{Script, ScriptedServer};

const ASKABLE: &str = r#"{"elicitation":{}}"#;

/// A client of 2025-06-18.
fn old(session: &str) -> lockkeeper::mcp::Context {
    without_tasks(client(session, ASKABLE))
}

/// A call of the tool that runs only as a task, as the gateway makes it for such a client.
fn chore(what: &str) -> Value {
    json!({ "name": "chore", "arguments": { "do": what }, "task": {}, "_meta": { "progressToken": "mine" } })
}

/// A server whose only tool runs as a task.
fn worker() -> ScriptedServer {
    everyday(serde_json::from_str(include_str!("tasks.json")).unwrap())
}

fn called(server: &Arc<dyn Server>, what: &str) -> Reply {
    tool(server, old("s1"), &chore(what))
}

/// Expects this progress, under the client's own token, as the next event.
async fn progressed(reply: &mut Reply, progress: u64) {
    let Event::Notified(told) = next(reply).await else { panic!("progress") };
    assert_eq!(told.method, Method::Progress);
    assert_eq!(told.params.json(), &format!(r#"{{"progress": {progress}, "progressToken": "mine"}}"#));
}

#[tokio::test]
async fn the_client_gets_result_and_progress_of_the_task_without_seeing_it() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(scripts.serve("chore", worker())).await;
    let mut listen = call(&server, old("s1"), Method::Listen, &Value::Null);
    let mut reply = called(&server, "answer");
    progressed(&mut reply, 1).await;
    progressed(&mut reply, 2).await;
    assert_eq!(text(reply).await, "done");
    // a status notification would have come before this
    assert_eq!(text(tool(&server, old("s1"), &json!({ "name": "tell" }))).await, "done");
    let Event::Notified(told) = next(&mut listen).await else { panic!("a notification") };
    assert_eq!(told.params.string("data").as_deref(), Some("told"));
    assert!(!scripts.log("chore").contains("tasks/cancel"));
}

#[tokio::test]
async fn server_requests_of_the_task_come_in_the_call() {
    let scripts = Scripts::new();
    // also on a shared connection
    for (name, share) in [("own", Share::Session), ("all", Share::All)] {
        let (_supervisor, server) = started(BackendSpec { share, ..scripts.serve(name, worker()) }).await;
        let mut reply = called(&server, "ask");
        progressed(&mut reply, 1).await;
        let Event::Asked(question) = next(&mut reply).await else { panic!("a question") };
        question.answer.give(Ok(Payload::of(question.params.revision, &json!({ "action": "accept" }))));
        assert_eq!(text(reply).await, r#"{"action": "accept"}"#);
    }
}

#[tokio::test]
async fn the_call_ends_like_its_task() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(scripts.serve("chore", worker())).await;
    let failed: Value = serde_json::from_str(&result(called(&server, "fail")).await).unwrap();
    assert_eq!((&failed["content"][0]["text"], &failed["isError"]), (&json!("bad"), &json!(true)));
    insta::assert_snapshot!(failure(called(&server, "err")).await, @"broken (-32050)");
    let stopped: Value = serde_json::from_str(&result(called(&server, "stop")).await).unwrap();
    assert_eq!(stopped["isError"], true);
    insta::assert_snapshot!(stopped["content"][0]["text"].as_str().unwrap(), @"The server cancelled the task that this call ran as: out of paper");
    assert!(!scripts.log("chore").contains("tasks/cancel"));
}

#[tokio::test]
async fn cancelling_the_call_cancels_the_task() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(scripts.serve("chore", worker())).await;
    let mut listen = call(&server, old("s1"), Method::Listen, &Value::Null);
    let mut reply = called(&server, "hold");
    progressed(&mut reply, 1).await;
    let mut running = tokio::task::JoinSet::new();
    running.spawn(reply.outcome());
    said(&mut listen, "waited for").await;
    running.abort_all();
    let log = scripts.logged("chore", "tasks/cancel").await;
    assert!(log.lines().any(|line| line.contains("tasks/cancel") && line.contains(r#"{"taskId":"t1"}"#)), "{log}");
}

#[tokio::test]
async fn a_task_created_after_its_call_was_cancelled_is_cancelled_too() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(scripts.serve("chore", worker())).await;
    let mut listen = call(&server, old("s1"), Method::Listen, &Value::Null);
    let mut running = tokio::task::JoinSet::new();
    running.spawn(called(&server, "dawdle").outcome());
    said(&mut listen, "dawdling").await;
    running.shutdown().await;
    call(&server, old("s1"), Method::parse("notifications/x/go"), &Value::Null).outcome().await;
    let log = scripts.logged("chore", "tasks/cancel").await;
    // 2025-11-25 cancellation: a request that creates a task is not cancelled by the notification
    assert!(!log.contains("notifications/cancelled"), "{log}");
}

/// Waits until the server logs this text.
async fn said(listen: &mut Reply, what: &str) {
    loop {
        let Event::Notified(told) = next(listen).await else { panic!("a notification") };
        if told.params.string("data").as_deref() == Some(what) {
            return;
        }
    }
}

#[tokio::test]
async fn a_server_that_is_lost_with_the_task_leaves_a_call_that_may_have_run() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(scripts.serve("chore", worker())).await;
    let error = failure(called(&server, "die")).await;
    let object: Value = serde_json::from_slice(error.json()).unwrap();
    assert_eq!(
        (&object["data"]["retryable"], &object["data"]["mayHaveRun"]),
        (&json!(false), &json!(true)),
        "{object}"
    );
}

#[tokio::test]
async fn a_client_that_has_tasks_gets_the_task_that_it_asked_for() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(scripts.serve("chore", worker())).await;
    let mut listen = call(&server, client("s1", ASKABLE), Method::Listen, &Value::Null);
    let reply = tool(&server, client("s1", ASKABLE), &chore("answer"));
    let made: Value = serde_json::from_str(&result(reply).await).unwrap();
    assert_eq!(made["task"]["taskId"], "t1");
    let task = json!({ "taskId": "t1" });
    assert_eq!(text(call(&server, client("s1", ASKABLE), Method::TasksResult, &task)).await, "done");
    let mut told = Vec::new();
    while told.len() < 3 {
        let Event::Notified(one) = next(&mut listen).await else { panic!("a notification") };
        told.push(one.method.to_string());
    }
    let progress = "notifications/progress";
    assert_eq!(told, [progress, progress, "notifications/tasks/status"]);
}

#[tokio::test]
async fn an_older_server_gets_no_task_calls() {
    let scripts = Scripts::new();
    let refused = json!([["give", { "error": { "code": -32601, "message": "This tool runs only as a task" } }]]);
    let script = Script::everyday().greeting(&greeting_in("2025-03-26")).hidden("chore", refused);
    let (_supervisor, server) = started(scripts.serve("older", everyday(script))).await;
    insta::assert_snapshot!(failure(called(&server, "answer")).await, @"This tool runs only as a task (-32601)");
    until("the call", || scripts.log("older").contains("tools/call").then_some(())).await;
    assert!(!scripts.log("older").contains("\"task\""));
}
