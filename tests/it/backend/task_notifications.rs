//! Task notifications of a server of 2026-07-28, for clients of both eras.

use std::sync::Arc;

use lockkeeper::{
    backend::Supervisor,
    mcp::{
        Call, Capabilities, ClientInfo, Context, Event, Facts, Method, Notification, Outcome, Payload, Reply, Revision,
        Server, translate::Kind,
    },
    model::{BackendSpec, EraChoice},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::scripted_servers::{call, client, next, request, result, started, tool, until};
use crate::kit::peer::{Peer, event, reply, streamed, text_of};

const TASKS: &str = "io.modelcontextprotocol/tasks";
const DECLARES: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

/// A server with tasks whose notifications the test controls.
struct Job {
    peer: Peer,
    server: Arc<dyn Server>,
    listens: Listens,
    _supervisor: Supervisor,
}

/// For each listen: its tasks, its id, and its stream.
type Listens = Arc<Mutex<Vec<(Value, Value, UnboundedSender<String>)>>>;

fn task(id: &str, status: &str) -> Value {
    let mut task = json!({ "taskId": id, "status": status, "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": 60000 });
    if status == "completed" {
        task["result"] = text_of("done");
    }
    task
}

impl Job {
    /// It acknowledges only tasks whose ids begin with T, and rejects a listen that names one with X.
    async fn new() -> Self {
        Self::with(json!({ "tools": {}, "extensions": { TASKS: {} } })).await
    }

    async fn with(capabilities: Value) -> Self {
        let listens = Listens::default();
        let opened = Arc::clone(&listens);
        let peer = Peer::start(move |seen| {
            let answer = match seen.method() {
                "server/discover" => json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0,
                    "cacheScope": "private", "capabilities": capabilities,
                    "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "job", "version": "1" } } }),
                "tools/call" => {
                    let mut task = task(seen.body["params"]["name"].as_str().unwrap(), "working");
                    task["resultType"] = "task".into();
                    task
                }
                "tasks/get" => {
                    let mut task = task(seen.body["params"]["taskId"].as_str().unwrap(), "completed");
                    task["resultType"] = "complete".into();
                    task
                }
                "subscriptions/listen" => {
                    let mut filter = seen.body["params"]["notifications"].clone();
                    if filter["taskIds"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .any(|id| id.as_str().unwrap().starts_with('X'))
                    {
                        let error = json!({ "code": -32602, "message": "Task not found" });
                        return Some(reply(&json!({ "jsonrpc": "2.0", "id": seen.body["id"], "error": error })));
                    }
                    if let Some(ids) = filter["taskIds"].as_array_mut() {
                        ids.retain(|id| id.as_str().unwrap().starts_with('T'));
                    }
                    let (say, said) = mpsc::unbounded_channel();
                    let params = json!({ "notifications": filter });
                    say.send(tagged(&seen.body["id"], "notifications/subscriptions/acknowledged", params)).unwrap();
                    opened.lock().push((filter["taskIds"].clone(), seen.body["id"].clone(), say));
                    return Some(streamed(UnboundedReceiverStream::new(said)));
                }
                _ => return None,
            };
            Some(reply(&seen.result(&answer)))
        })
        .await;
        let (supervisor, server) = started(BackendSpec { era: EraChoice::Modern, ..peer.spec() }).await;
        Self { peer, server, listens, _supervisor: supervisor }
    }

    /// Waits until the last open listen names these tasks.
    async fn listened_for(&self, ids: &Value) {
        until("the listen", || self.listens.lock().last().is_some_and(|(named, ..)| named == ids).then_some(())).await;
    }

    /// Sends the status of a task to every listen that names it.
    fn tell(&self, task: &Value) {
        for (ids, id, say) in self.listens.lock().iter() {
            if ids.as_array().is_some_and(|ids| ids.contains(&task["taskId"])) {
                let _ = say.send(tagged(id, "notifications/tasks", task.clone()));
            }
        }
    }

    /// A listen of a client without a session for these tasks, and the acknowledged ones.
    async fn listen(&self, name: &str, ids: &[&str]) -> (Reply, Value) {
        let params = Payload::of(Revision::V2026_07_28, &json!({ "notifications": { "taskIds": ids } }));
        let mut listen = self.server.call(Call { method: Method::Listen, params, context: modern(name) });
        let (method, acknowledged) = told(&mut listen, Revision::V2026_07_28).await;
        assert_eq!(method, "notifications/subscriptions/acknowledged");
        (listen, acknowledged["notifications"]["taskIds"].clone())
    }

    /// A task with this id, created by a client with this session.
    async fn made(&self, session: &str, id: &str) {
        let called = tool(&self.server, owner(session), &json!({ "name": id, "task": { "ttl": 60000 } }));
        let Outcome::Complete(_) = called.outcome().await else { panic!("a task") };
    }
}

fn tagged(id: &Value, method: &str, mut params: Value) -> String {
    params["_meta"]["io.modelcontextprotocol/subscriptionId"] = id.clone();
    event(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
}

fn owner(session: &str) -> Context {
    client(session, "{}")
}

/// A request of a client without a session.
fn modern(name: &str) -> Context {
    let context = client(name, DECLARES);
    let client = ClientInfo {
        revision: Revision::V2026_07_28,
        capabilities: Capabilities::new(DECLARES.into()),
        ..ClientInfo::clone(&context.client)
    };
    Context { requester: request(name), client: Arc::new(client), ..context }
}

/// The next notification for a client of this version.
async fn told(listen: &mut Reply, revision: Revision) -> (String, Value) {
    let Event::Notified(Notification { method, params }) = next(listen).await else { panic!("a notification") };
    let params = params.into_revision(revision, &Facts::new(Kind::Notification, &method)).unwrap();
    (method.of_tasks_in(revision).to_string(), params.view().unwrap())
}

#[tokio::test]
async fn a_listen_gets_notifications_of_its_acknowledged_tasks_until_they_end() {
    let job = Job::new().await;
    let (mut one, honoured) = job.listen("one", &["T1", "U1"]).await;
    assert_eq!(honoured, json!(["T1"]));
    let (mut two, honoured) = job.listen("two", &["T2", "T1"]).await;
    assert_eq!(honoured, json!(["T2", "T1"]));
    for seen in job.peer.seen_of("subscriptions/listen") {
        let capabilities = &seen.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        assert!(capabilities["extensions"][TASKS].is_object(), "{capabilities}");
    }
    job.tell(&task("T1", "completed"));
    for listen in [&mut one, &mut two] {
        let (method, params) = told(listen, Revision::V2026_07_28).await;
        assert_eq!((method.as_str(), &params["result"]), ("notifications/tasks", &text_of("done")));
    }
    // an ended task leaves the listen
    job.listened_for(&json!(["T2"])).await;
    drop(one);
    drop(two);
    let closed = || job.listens.lock().iter().all(|(.., say)| say.is_closed()).then_some(());
    until("the end of the listens", closed).await;
}

#[tokio::test]
async fn a_server_without_the_extension_gets_no_tasks_in_a_listen() {
    let job = Job::with(json!({ "tools": { "listChanged": true } })).await;
    let (_listen, honoured) = job.listen("one", &["T1"]).await;
    assert_eq!(honoured, json!([]));
    assert!(job.peer.seen_of("subscriptions/listen").iter().all(|seen| !seen.body.to_string().contains("taskIds")));
}

#[tokio::test]
async fn a_client_with_a_session_is_notified_of_the_end_of_its_task_and_the_result_is_stored() {
    // N12
    let job = Job::new().await;
    let mut own = call(&job.server, owner("s1"), Method::Listen, &Value::Null);
    let mut other = call(&job.server, owner("s2"), Method::Listen, &Value::Null);
    job.made("s1", "T1").await;
    job.made("s2", "T2").await;
    job.listened_for(&json!(["T1", "T2"])).await;
    job.tell(&task("T1", "completed"));
    let mut expected = task("T1", "completed");
    for member in ["result", "ttlMs"] {
        expected.as_object_mut().unwrap().remove(member);
    }
    expected["ttl"] = 60000.into();
    let heard = told(&mut own, Revision::V2025_11_25).await;
    assert_eq!(heard, ("notifications/tasks/status".to_owned(), expected));
    job.tell(&task("T2", "cancelled"));
    assert_eq!(told(&mut other, Revision::V2025_11_25).await.1["taskId"], "T2");
    let about = json!({ "taskId": "T1" });
    let got = result(call(&job.server, owner("s1"), Method::TasksGet, &about)).await;
    assert!(got.contains("completed"), "{got}");
    let came = result(call(&job.server, owner("s1"), Method::TasksResult, &about)).await;
    assert!(came.contains("done"), "{came}");
    assert!(job.peer.seen_of("tasks/get").is_empty());
}

#[tokio::test]
async fn notifications_about_a_task_reach_only_the_listens_that_name_it() {
    let job = Job::new().await;
    let mut own = call(&job.server, owner("s1"), Method::Listen, &Value::Null);
    job.made("s1", "T1").await;
    let (mut other, honoured) = job.listen("other", &["T3"]).await;
    assert_eq!(honoured, json!(["T3"]));
    job.tell(&task("T1", "completed"));
    job.tell(&task("T3", "completed"));
    assert_eq!(told(&mut own, Revision::V2025_11_25).await.1["taskId"], "T1");
    assert_eq!(told(&mut other, Revision::V2026_07_28).await.1["taskId"], "T3");
}

#[tokio::test]
async fn a_task_whose_end_is_known_to_the_client_is_no_longer_followed() {
    let job = Job::new().await;
    let mut own = call(&job.server, owner("s1"), Method::Listen, &Value::Null);
    for id in ["T1", "T2"] {
        job.made("s1", id).await;
    }
    job.listened_for(&json!(["T1", "T2"])).await;
    let asked = call(&job.server, owner("s1"), Method::TasksGet, &json!({ "taskId": "T1" }));
    assert!(result(asked).await.contains("completed"));
    job.tell(&task("T1", "working"));
    job.tell(&task("T2", "completed"));
    assert_eq!(told(&mut own, Revision::V2025_11_25).await.1["taskId"], "T2");
}

#[tokio::test]
async fn after_a_listen_ended_its_tasks_are_polled_and_in_the_next_listen() {
    let job = Job::new().await;
    let (mut listen, _) = job.listen("one", &["T1"]).await;
    job.listens.lock().clear();
    let params = loop {
        let Event::Notified(Notification { method, params }) = next(&mut listen).await else {
            panic!("a notification")
        };
        // lists may have changed as well
        if method == Method::Tasks {
            break params.view::<Value>().unwrap();
        }
    };
    assert_eq!((&params["status"], &params["result"]), (&json!("completed"), &text_of("done")));
    assert_eq!(params.get("resultType"), None);
    assert_eq!(job.peer.seen_of("subscriptions/listen").len(), 2);
}

#[tokio::test]
async fn a_task_for_which_the_server_rejects_the_listen_affects_no_other() {
    let job = Job::new().await;
    let (mut one, _) = job.listen("one", &["T1"]).await;
    let (_other, honoured) = job.listen("other", &["X1"]).await;
    assert_eq!(honoured, json!([]));
    let (mut third, honoured) = job.listen("third", &["T3"]).await;
    assert_eq!(honoured, json!(["T3"]));
    for id in ["T1", "T3"] {
        job.tell(&task(id, "completed"));
    }
    assert_eq!(told(&mut one, Revision::V2026_07_28).await.1["taskId"], "T1");
    assert_eq!(told(&mut third, Revision::V2026_07_28).await.1["taskId"], "T3");
}
