//! Clients with sessions at a server of 2026-07-28 with the tasks extension.

use std::{collections::VecDeque, sync::Arc};

use lockkeeper::{
    backend::Supervisor,
    mcp::{Context, Event, Facts, Method, Outcome, Payload, Reply, Revision, Server, translate::Kind},
    model::{BackendSpec, EraChoice},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::scripted_servers::{call, client, failure, next, result, started, text, tool, without_tasks};
use crate::kit::peer::{Peer, Seen, reply, text_of};

const TASKS: &str = "io.modelcontextprotocol/tasks";
const ASKABLE: &str = r#"{"elicitation":{},"sampling":{}}"#;

/// A server with one task that follows a script, one step for each poll.
struct Job {
    peer: Peer,
    server: Arc<dyn Server>,
    _supervisor: Supervisor,
}

/// Behaviour of a tool.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Makes {
    /// A task if the call allows it.
    TasksIfDeclared,
    /// Always a task.
    TasksAlone,
    /// Never a task.
    Answers,
}

fn task(status: &str) -> Value {
    json!({ "resultType": "complete", "taskId": "T1", "status": status, "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": 60000, "pollIntervalMs": 50 })
}

fn completed(result: &Value) -> Value {
    let mut task = task("completed");
    task["result"] = result.clone();
    task
}

/// A task with these input requests.
fn asking(keys: &[&str]) -> Value {
    let mut task = task("input_required");
    let params = json!({ "message": "Name?", "requestedSchema": { "type": "object", "properties": {} } });
    for key in keys {
        task["inputRequests"][*key] = json!({ "method": "elicitation/create", "params": params });
    }
    task
}

fn declares(seen: &Seen) -> bool {
    seen.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"][TASKS].is_object()
}

impl Job {
    async fn with(makes: Makes, steps: Vec<Value>) -> Self {
        let steps: Mutex<VecDeque<Value>> = Mutex::new(steps.into());
        let peer = Peer::start(move |seen| {
            let missing = json!({ "requiredCapabilities": { "extensions": { TASKS: {} } } });
            let error = |code: i64, message: &str, data: &Value| {
                json!({ "jsonrpc": "2.0", "id": seen.body["id"], "error": { "code": code, "message": message, "data": data } })
            };
            let answer = match (seen.method(), makes) {
                ("server/discover", _) => seen.result(&json!({ "resultType": "complete",
                    "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
                    "capabilities": { "tools": {}, "extensions": { TASKS: {} } },
                    "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "job", "version": "1" } } })),
                ("tools/call", Makes::TasksIfDeclared | Makes::TasksAlone) if declares(seen) => {
                    let mut task = task("working");
                    task["resultType"] = "task".into();
                    seen.result(&task)
                }
                ("tools/call", Makes::TasksAlone) => error(-32021, "Missing required client capability", &missing),
                ("tools/call", _) => {
                    let mut answer = text_of("at once");
                    answer["resultType"] = "complete".into();
                    seen.result(&answer)
                }
                ("tasks/get", _) => {
                    let mut steps = steps.lock();
                    let step = if steps.len() > 1 { steps.pop_front() } else { steps.front().cloned() };
                    match step {
                        Some(step) => seen.result(&step),
                        None => error(-32602, "Task not found", &Value::Null),
                    }
                }
                ("tasks/update" | "tasks/cancel", _) => seen.result(&json!({ "resultType": "complete" })),
                _ => return None,
            };
            Some(reply(&answer))
        })
        .await;
        let (supervisor, server) = started(BackendSpec { era: EraChoice::Modern, ..peer.spec() }).await;
        Self { peer, server, _supervisor: supervisor }
    }

    /// A call that asks for a task, and the client's result.
    async fn made(&self, context: Context) -> Value {
        let reply = tool(&self.server, context, &json!({ "name": "x", "task": { "ttl": 60000 } }));
        told(&Method::ToolsCall, reply.outcome().await)
    }

    fn about(&self, context: Context, method: Method, id: &str) -> Reply {
        call(&self.server, context, method, &json!({ "taskId": id }))
    }
}

/// The answer for a client of 2025-11-25.
fn told(method: &Method, outcome: Outcome) -> Value {
    match outcome.into_revision(Revision::V2025_11_25, &Facts::new(Kind::Result, method)).unwrap() {
        Outcome::Complete(result) => result.view().unwrap(),
        other => panic!("{other:?}"),
    }
}

fn owner() -> Context {
    client("s1", ASKABLE)
}

#[tokio::test]
async fn a_client_that_asks_for_a_task_gets_the_servers_task() {
    let ended = completed(&json!({ "content": [], "isError": true }));
    let job = Job::with(Makes::TasksIfDeclared, vec![task("working"), ended]).await;
    let made = job.made(owner()).await;
    assert_eq!((&made["task"]["taskId"], &made["task"]["ttl"]), (&json!("T1"), &json!(60000)));
    let get = || async { told(&Method::TasksGet, job.about(owner(), Method::TasksGet, "T1").outcome().await) };
    assert_eq!(get().await["status"], "working");
    let ended = get().await;
    assert_eq!((&ended["status"], ended.get("result")), (&json!("failed"), None));
    let result: Value = serde_json::from_str(&result(job.about(owner(), Method::TasksResult, "T1")).await).unwrap();
    assert_eq!(result["isError"], true);
    assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], "T1");
    let called = job.peer.saw("tools/call").await;
    assert!(called.body["params"].get("task").is_none());
    assert_eq!(job.peer.saw("tasks/get").await.header("mcp-name"), Some("T1"));
}

#[tokio::test]
async fn a_client_that_asks_for_no_task_declares_nothing() {
    let job = Job::with(Makes::TasksIfDeclared, vec![]).await;
    for context in [owner(), without_tasks(owner())] {
        assert_eq!(text(tool(&job.server, context, &json!({ "name": "x" }))).await, "at once");
    }
    // a client of an older version cannot ask for a task
    let old = tool(&job.server, without_tasks(owner()), &json!({ "name": "x", "task": {} }));
    assert_eq!(text(old).await, "at once");
    assert!(job.peer.seen_of("tools/call").iter().all(|seen| !declares(seen)));
}

#[tokio::test]
async fn an_immediate_result_becomes_a_completed_task() {
    let job = Job::with(Makes::Answers, vec![]).await;
    let made = job.made(owner()).await;
    assert_eq!((&made["task"]["status"], &made["task"]["ttl"]), (&json!("completed"), &json!(60000)));
    let id = made["task"]["taskId"].as_str().unwrap();
    let got = told(&Method::TasksGet, job.about(owner(), Method::TasksGet, id).outcome().await);
    assert_eq!(got, made["task"]);
    assert_eq!(text(job.about(owner(), Method::TasksResult, id)).await, "at once");
    let error = failure(job.about(owner(), Method::TasksCancel, id)).await;
    insta::assert_snapshot!(error, @"Cannot cancel task: already in terminal status 'completed' (-32602)");
    assert!(job.peer.seen_of("tasks/get").is_empty());
}

#[tokio::test]
async fn input_requests_of_a_task_are_sent_while_its_result_is_awaited() {
    let steps = vec![asking(&["a", "b"]), asking(&["a", "b"]), completed(&text_of("done"))];
    let job = Job::with(Makes::TasksIfDeclared, steps).await;
    job.made(owner()).await;
    let mut waiting = job.about(owner(), Method::TasksResult, "T1");
    let mut questions = Vec::new();
    for _ in 0..2 {
        let Event::Asked(question) = next(&mut waiting).await else { panic!("a question") };
        let params: Value = question.params.view().unwrap();
        assert_eq!(params["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], "T1");
        questions.push(question);
    }
    // a second waiting call does not get the same input request
    let mut other = Box::pin(job.about(owner(), Method::TasksResult, "T1").outcome());
    assert!(futures_util::poll!(&mut other).is_pending());
    let first = questions.remove(0);
    first.answer.give(Ok(Payload::of(Revision::V2026_07_28, &json!({ "action": "accept", "content": {} }))));
    drop(questions);
    assert_eq!(text(waiting).await, "done");
    let Outcome::Complete(_) = other.await else { panic!("a result") };
    let updates = job.peer.seen_of("tasks/update");
    assert_eq!(updates.len(), 1);
    let responses = json!({ "a": { "action": "accept", "content": {} }, "b": { "action": "cancel" } });
    assert_eq!(updates[0].body["params"]["inputResponses"], responses);
}

#[tokio::test]
async fn a_cancelled_task_stays_cancelled() {
    let job = Job::with(Makes::TasksIfDeclared, vec![task("working"), completed(&text_of("late"))]).await;
    job.made(owner()).await;
    let cancelled = told(&Method::TasksCancel, job.about(owner(), Method::TasksCancel, "T1").outcome().await);
    assert_eq!((&cancelled["status"], &cancelled["ttl"]), (&json!("cancelled"), &json!(60000)));
    let got = told(&Method::TasksGet, job.about(owner(), Method::TasksGet, "T1").outcome().await);
    assert_eq!(got, cancelled);
    let error = failure(job.about(owner(), Method::TasksResult, "T1")).await;
    insta::assert_snapshot!(error, @"The task was cancelled, so it has no result (-32603)");
    let error = failure(job.about(owner(), Method::TasksCancel, "T1")).await;
    insta::assert_snapshot!(error, @"Cannot cancel task: already in terminal status 'cancelled' (-32602)");
    assert_eq!(job.peer.seen_of("tasks/cancel").len(), 1);
}

#[tokio::test]
async fn a_completed_task_is_not_cancelled() {
    let job = Job::with(Makes::TasksIfDeclared, vec![completed(&text_of("done"))]).await;
    job.made(owner()).await;
    let error = failure(job.about(owner(), Method::TasksCancel, "T1")).await;
    insta::assert_snapshot!(error, @"Cannot cancel task: already in terminal status 'completed' (-32602)");
    assert_eq!(text(job.about(owner(), Method::TasksResult, "T1")).await, "done");
}

#[tokio::test]
async fn a_tool_that_runs_only_as_a_task_is_awaited() {
    let steps = vec![task("working"), asking(&["a"]), completed(&text_of("done"))];
    let job = Job::with(Makes::TasksAlone, steps).await;
    let mut reply = tool(&job.server, without_tasks(owner()), &json!({ "name": "x" }));
    let Event::Asked(question) = next(&mut reply).await else { panic!("a question") };
    question.answer.give(Ok(Payload::of(Revision::V2026_07_28, &json!({ "action": "decline" }))));
    assert_eq!(text(reply).await, "done");
    let calls: Vec<bool> = job.peer.seen_of("tools/call").iter().map(declares).collect();
    assert_eq!(calls, [false, true]);
    assert!(job.peer.seen_of("tasks/cancel").is_empty());
}

#[tokio::test]
async fn the_call_ends_like_the_awaited_task() {
    let mut failed = task("failed");
    failed["error"] = json!({ "code": -32050, "message": "broken" });
    let mut cancelled = task("cancelled");
    cancelled["statusMessage"] = "out of paper".into();
    let job = Job::with(Makes::TasksAlone, vec![failed, cancelled]).await;
    let called = || tool(&job.server, owner(), &json!({ "name": "x" }));
    insta::assert_snapshot!(failure(called()).await, @"broken (-32050)");
    let stopped: Value = serde_json::from_str(&result(called()).await).unwrap();
    assert_eq!(stopped["isError"], true);
    insta::assert_snapshot!(stopped["content"][0]["text"].as_str().unwrap(), @"The server cancelled the task that this call ran as: out of paper");
}

#[tokio::test]
async fn cancelling_the_call_cancels_the_awaited_task() {
    let job = Job::with(Makes::TasksAlone, vec![task("working")]).await;
    let mut running = tokio::task::JoinSet::new();
    running.spawn(tool(&job.server, without_tasks(owner()), &json!({ "name": "x" })).outcome());
    job.peer.saw("tasks/get").await;
    running.abort_all();
    let cancelled = job.peer.saw("tasks/cancel").await;
    assert_eq!(cancelled.body["params"]["taskId"], "T1");
}

#[tokio::test]
async fn an_unanswerable_input_request_ends_the_call_and_the_task() {
    let mut asks = task("input_required");
    asks["inputRequests"]["s"] = json!({ "method": "roots/list" });
    let job = Job::with(Makes::TasksAlone, vec![asks]).await;
    let mut reply = tool(&job.server, owner(), &json!({ "name": "x" }));
    let Event::Asked(question) = next(&mut reply).await else { panic!("a question") };
    drop(question);
    let ended: Value = serde_json::from_str(&result(reply).await).unwrap();
    insta::assert_snapshot!(ended["content"][0]["text"].as_str().unwrap(), @"Input 's' (roots/list) was not given: nobody is there to be asked");
    job.peer.saw("tasks/cancel").await;
}

#[tokio::test]
async fn methods_that_the_extension_lacks_are_unknown() {
    let job = Job::with(Makes::TasksIfDeclared, vec![]).await;
    let error = failure(call(&job.server, owner(), Method::TasksList, &json!({}))).await;
    insta::assert_snapshot!(error, @"Method not found: tasks/list (-32601)");
    let error = failure(job.about(without_tasks(owner()), Method::TasksGet, "T1")).await;
    insta::assert_snapshot!(error, @"Method not found: tasks/get (-32601)");
    // the server decides about a task of unknown owner
    insta::assert_snapshot!(failure(job.about(owner(), Method::TasksGet, "T9")).await, @"Task not found (-32602)");
}
