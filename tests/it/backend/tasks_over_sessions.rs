//! Clients of 2026-07-28 with the tasks extension, at a server of 2025-11-25 with tasks.

mod listened;

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use lockkeeper::{
    backend::Supervisor,
    mcp::{
        Call, Capabilities, ClientInfo, Context, Facts, Method, Outcome, Payload, Reply, Revision, Server,
        translate::Kind,
    },
    model::{RequestNumber, Requester},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::scripted_servers::{failure, person, result, started, text};
use crate::kit::peer::{Peer, Response, event, reply, streamed, text_of};

const TASKS: &str = "io.modelcontextprotocol/tasks";
const RELATED: &str = "io.modelcontextprotocol/related-task";
const DECLARES: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}},"elicitation":{}}"#;

static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// A server with one task that follows a script, one step for each poll.
struct Old {
    peer: Peer,
    /// The standalone stream of each session.
    aside: Arc<Mutex<Vec<mpsc::UnboundedSender<String>>>>,
    server: Arc<dyn Server>,
    _supervisor: Supervisor,
}

fn task(status: &str) -> Value {
    json!({ "taskId": "T1", "status": status, "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": null, "pollInterval": 50 })
}

fn related(mut value: Value) -> Value {
    value["_meta"] = json!({ RELATED: { "taskId": "T1" } });
    value
}

/// A stream with these events that stays open.
fn open(events: mpsc::UnboundedReceiver<String>) -> Response {
    streamed(UnboundedReceiverStream::new(events))
}

impl Old {
    /// A task that ends as `ends` says, with a result or an error. If it `asks`, it sends an input request while its
    /// result is awaited.
    async fn with(steps: &[&str], ends: Value, asks: bool) -> Self {
        let steps: Mutex<VecDeque<Value>> = Mutex::new(steps.iter().map(|status| task(status)).collect());
        let waits: Mutex<Option<(Value, mpsc::UnboundedSender<String>)>> = Mutex::default();
        let aside: Arc<Mutex<Vec<mpsc::UnboundedSender<String>>>> = Arc::default();
        let streams = Arc::clone(&aside);
        let peer = Peer::start(move |seen| {
            if seen.verb == http::Method::GET {
                let (say, said) = mpsc::unbounded_channel();
                streams.lock().push(say);
                return Some(open(said));
            }
            let mut answer = seen.result(&Value::Null);
            match seen.method() {
                "initialize" => {
                    answer["result"] = json!({ "protocolVersion": "2025-11-25", "serverInfo": { "name": "old", "version": "1" },
                        "capabilities": { "tools": {}, "tasks": { "cancel": {}, "requests": { "tools": { "call": {} } } } } });
                }
                "tools/call" if seen.body["params"].get("task").is_some() => {
                    answer["result"] = json!({ "task": task("working") });
                }
                "tools/call" => answer["result"] = text_of("at once"),
                "tools/list" => answer["result"] = json!({ "tools": [] }),
                "tasks/get" => {
                    let mut steps = steps.lock();
                    let step = if steps.len() > 1 { steps.pop_front() } else { steps.front().cloned() };
                    answer["result"] = step.unwrap_or_default();
                }
                "tasks/cancel" => answer["result"] = task("cancelled"),
                "tasks/result" => {
                    answer.as_object_mut().unwrap().remove("result");
                    answer.as_object_mut().unwrap().extend(ends.as_object().unwrap().clone());
                    if asks && waits.lock().is_none() {
                        let (events, receiver) = mpsc::unbounded_channel();
                        let params = related(json!({ "message": "Name?", "requestedSchema": { "type": "object", "properties": {} } }));
                        let question = json!({ "jsonrpc": "2.0", "id": "s9", "method": "elicitation/create", "params": params });
                        events.send(event(&question)).unwrap();
                        *waits.lock() = Some((answer, events));
                        return Some(open(receiver));
                    }
                }
                "" if seen.body["id"] == "s9" => {
                    let waits = waits.lock();
                    let (answer, events) = waits.as_ref().unwrap();
                    events.send(event(answer)).unwrap();
                    return None;
                }
                _ => return None,
            }
            Some(reply(&answer))
        })
        .await;
        let (supervisor, server) = started(peer.spec()).await;
        Self { peer, aside, server, _supervisor: supervisor }
    }

    fn ask(&self, user: &str, capabilities: &'static str, method: Method, params: &Value) -> Reply {
        let context = modern(user, capabilities);
        let mut params = params.clone();
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = serde_json::from_str(capabilities).unwrap();
        self.server.call(Call { method, params: Payload::of(Revision::V2026_07_28, &params), context })
    }

    fn about(&self, method: Method) -> Reply {
        self.ask("ann", DECLARES, method, &json!({ "taskId": "T1" }))
    }

    async fn told(&self) -> Value {
        shown(&Method::TasksGet, self.about(Method::TasksGet)).await
    }

    async fn made(&self) -> Value {
        let called = self.ask("ann", DECLARES, Method::ToolsCall, &json!({ "name": "x", "task": {} }));
        shown(&Method::ToolsCall, called).await
    }
}

/// A request of a client without a session.
fn modern(user: &str, capabilities: &'static str) -> Context {
    let number = RequestNumber::new(REQUESTS.fetch_add(1, Ordering::Relaxed));
    let context = person(user, "none", "{}");
    let client = ClientInfo {
        revision: Revision::V2026_07_28,
        capabilities: Capabilities::new(Bytes::from_static(capabilities.as_bytes())),
        ..ClientInfo::clone(&context.client)
    };
    Context { requester: Requester::Request(number), client: Arc::new(client), ..context }
}

/// The answer for a client of 2026-07-28.
async fn shown(method: &Method, reply: Reply) -> Value {
    let outcome = reply.outcome().await;
    match outcome.into_revision(Revision::V2026_07_28, &Facts::new(Kind::Result, method)).unwrap() {
        Outcome::Complete(result) => result.view().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_task_is_returned_with_its_result() {
    let ends = json!({ "result": related(json!({ "content": [], "isError": true })) });
    let old = Old::with(&["working", "failed"], ends, false).await;
    let made = old.made().await;
    assert_eq!(
        (&made["resultType"], &made["taskId"], &made["pollIntervalMs"]),
        (&json!("task"), &json!("T1"), &json!(50))
    );
    assert_eq!(old.told().await["status"], "working");
    let mut expected = json!({ "resultType": "complete", "ttlMs": null, "pollIntervalMs": 50, "status": "completed",
        "result": { "content": [], "isError": true },
        "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "old", "version": "1" } } });
    for key in ["taskId", "createdAt", "lastUpdatedAt"] {
        expected[key] = task("x")[key].clone();
    }
    assert_eq!(old.told().await, expected);
    assert!(old.peer.seen_of("initialize").iter().all(|seen| !seen.body.to_string().contains(TASKS)));
}

#[tokio::test]
async fn a_failed_call_is_returned_as_a_failed_task() {
    let old = Old::with(&["failed"], json!({ "error": { "code": -32050, "message": "broken" } }), false).await;
    let told = old.told().await;
    assert_eq!((&told["status"], &told["error"]), (&json!("failed"), &json!({ "code": -32050, "message": "broken" })));
}

#[tokio::test]
async fn a_task_is_returned_with_its_input_requests_and_they_are_answered_once() {
    let ends = json!({ "result": related(text_of("done")) });
    let old = Old::with(&["input_required", "input_required", "completed"], ends, true).await;
    old.made().await;
    for _ in 0..2 {
        let told = old.told().await;
        assert_eq!(told["status"], "input_required");
        let params = json!({ "message": "Name?", "requestedSchema": { "type": "object", "properties": {} } });
        assert_eq!(told["inputRequests"], json!({ "r1": { "method": "elicitation/create", "params": params } }));
    }
    let responses = json!({ "r1": { "action": "decline" }, "r7": { "action": "accept" }, "odd": 1 });
    let update = json!({ "taskId": "T1", "inputResponses": responses });
    for _ in 0..2 {
        let acknowledged = result(old.ask("ann", DECLARES, Method::TasksUpdate, &update)).await;
        assert_eq!(acknowledged, r#"{"resultType":"complete"}"#);
    }
    assert_eq!(old.told().await["result"], text_of("done"));
    let answers: Vec<_> = old.peer.seen().into_iter().filter(|seen| seen.body["id"] == "s9").collect();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].body["result"], json!({ "action": "decline", "_meta": { RELATED: { "taskId": "T1" } } }));
    assert_eq!(old.peer.seen_of("tasks/result").len(), 1);
}

#[tokio::test]
async fn a_task_is_cancelled_with_an_empty_answer() {
    let old = Old::with(&["cancelled"], Value::Null, false).await;
    old.made().await;
    assert_eq!(result(old.about(Method::TasksCancel)).await, r#"{"resultType":"complete"}"#);
    assert_eq!(old.told().await["status"], "cancelled");
    assert_eq!(old.peer.saw("tasks/cancel").await.body["params"], json!({ "taskId": "T1" }));
}

#[tokio::test]
async fn a_client_must_declare_the_extension() {
    let old = Old::with(&["working"], Value::Null, false).await;
    for method in [Method::TasksGet, Method::TasksUpdate, Method::TasksCancel] {
        let error = failure(old.ask("ann", "{}", method, &json!({ "taskId": "T1" }))).await;
        let error: Value = serde_json::from_slice(error.json()).unwrap();
        assert_eq!(error["code"], -32021);
        assert_eq!(error["data"]["requiredCapabilities"]["extensions"][TASKS], json!({}));
    }
}

#[tokio::test]
async fn a_client_without_the_extension_gets_the_result_of_a_required_task() {
    // X20
    let old = Old::with(&["working"], json!({ "result": related(text_of("done")) }), false).await;
    let called = old.ask("ann", "{}", Method::ToolsCall, &json!({ "name": "x", "task": {} }));
    assert_eq!(text(called).await, "done");
    assert_eq!(text(old.ask("ann", DECLARES, Method::ToolsCall, &json!({ "name": "x" }))).await, "at once");
}
