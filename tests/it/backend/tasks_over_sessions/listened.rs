//! Status of such a task, for a client with a listen.

use lockkeeper::mcp::{Event, Notification};

use super::*;
use crate::{
    backend::scripted_servers::{next, until},
    kit::peer::status,
};

impl Old {
    /// A listen of this user for these tasks, and the acknowledged ones.
    async fn listened(&self, user: &str, ids: &[&str]) -> (Reply, Value) {
        let filter = json!({ "notifications": { "taskIds": ids } });
        let mut listen = self.ask(user, DECLARES, Method::Listen, &filter);
        let (method, params) = told(&mut listen).await;
        assert_eq!(method, "notifications/subscriptions/acknowledged");
        (listen, params["notifications"]["taskIds"].clone())
    }

    /// The server sends a status notification.
    async fn tell(&self, task: &Value) {
        self.say(&json!({ "jsonrpc": "2.0", "method": "notifications/tasks/status", "params": task })).await;
    }

    /// The server sends this in the session of the gateway and in that of its client.
    async fn say(&self, message: &Value) {
        until("both streams", || (self.aside.lock().len() == 2).then_some(())).await;
        for say in self.aside.lock().iter() {
            say.send(event(message)).unwrap();
        }
    }
}

/// The next notification for a client of 2026-07-28.
async fn told(listen: &mut Reply) -> (String, Value) {
    let Event::Notified(Notification { method, params }) = next(listen).await else { panic!("a notification") };
    let params = params.into_revision(Revision::V2026_07_28, &Facts::new(Kind::Notification, &method)).unwrap();
    (method.to_string(), params.view().unwrap())
}

fn at(status: &str, second: u8) -> Value {
    let mut task = task(status);
    task["lastUpdatedAt"] = format!("2026-01-01T00:00:0{second}Z").into();
    task
}

#[tokio::test]
async fn a_status_notification_reaches_the_client_with_the_result_of_the_task() {
    // N11
    let old = Old::with(&["working"], json!({ "result": related(text_of("done")) }), false).await;
    old.made().await;
    let (mut listen, honoured) = old.listened("ann", &["T1"]).await;
    assert_eq!(honoured, json!(["T1"]));
    old.tell(&at("working", 1)).await;
    let (method, params) = told(&mut listen).await;
    assert_eq!((method.as_str(), &params["status"]), ("notifications/tasks", &json!("working")));
    old.tell(&at("completed", 2)).await;
    let (_, params) = told(&mut listen).await;
    assert_eq!((&params["status"], &params["result"]), (&json!("completed"), &text_of("done")));
    assert_eq!((&params["ttlMs"], params.get("ttl"), params.get("_meta")), (&Value::Null, None, None));
    assert_eq!(old.peer.seen_of("tasks/result").len(), 1);
}

#[tokio::test]
async fn a_server_without_status_notifications_is_polled() {
    let ends = json!({ "error": { "code": -32050, "message": "broken" } });
    let old = Old::with(&["working", "failed"], ends, false).await;
    old.made().await;
    let (mut listen, _) = old.listened("ann", &["T1"]).await;
    let (_, params) = told(&mut listen).await;
    assert_eq!(
        (&params["status"], &params["error"]),
        (&json!("failed"), &json!({ "code": -32050, "message": "broken" }))
    );
    assert_eq!(old.peer.seen_of("tasks/get").len(), 2);
}

#[tokio::test]
async fn a_task_that_has_ended_before_the_listen_is_reported_at_once() {
    let old = Old::with(&["cancelled"], Value::Null, false).await;
    old.made().await;
    let (mut listen, _) = old.listened("ann", &["T1"]).await;
    assert_eq!(told(&mut listen).await.1["status"], "cancelled");
}

#[tokio::test]
async fn input_requests_of_a_task_are_reported_and_then_its_result() {
    let ends = json!({ "result": related(text_of("done")) });
    let old = Old::with(&["input_required", "completed"], ends, true).await;
    old.made().await;
    let (mut listen, _) = old.listened("ann", &["T1"]).await;
    let (_, params) = told(&mut listen).await;
    assert_eq!(params["inputRequests"]["r1"]["method"], "elicitation/create");
    let update = json!({ "taskId": "T1", "inputResponses": { "r1": { "action": "decline" } } });
    result(old.ask("ann", DECLARES, Method::TasksUpdate, &update)).await;
    assert_eq!(told(&mut listen).await.1["result"], text_of("done"));
}

#[tokio::test]
async fn the_end_of_a_listen_ends_the_polling() {
    let (asked, mut asking) = mpsc::unbounded_channel();
    let (gone, mut over) = mpsc::unbounded_channel();
    let peer = Peer::start(move |seen| {
        let mut answer = seen.result(&Value::Null);
        match seen.method() {
            "initialize" => {
                answer["result"] = json!({ "protocolVersion": "2025-11-25", "serverInfo": { "name": "old", "version": "1" },
                    "capabilities": { "tools": {}, "tasks": { "requests": { "tools": { "call": {} } } } } });
            }
            "tools/call" => answer["result"] = json!({ "task": task("working") }),
            // it never answers; this ends when the request is closed
            "tasks/get" => {
                let (open_end, receiver) = mpsc::unbounded_channel();
                let _ = open_end.send(": x\n\n".to_owned());
                let _ = gone.send(open_end);
                let _ = asked.send(());
                return Some(open(receiver));
            }
            _ if seen.body.is_null() => return Some(status(405)),
            _ => return None,
        }
        Some(reply(&answer))
    })
    .await;
    let (supervisor, server) = started(peer.spec()).await;
    let old = Old { peer, aside: Arc::default(), server, _supervisor: supervisor };
    old.made().await;
    let (mut listen, _) = old.listened("ann", &["T1"]).await;
    let asked = async {
        tokio::select! {
            event = listen.next_event() => panic!("{event:?}"),
            asked = asking.recv() => asked.unwrap(),
        }
    };
    asked.await;
    drop(listen);
    over.recv().await.unwrap().closed().await;
}

#[tokio::test]
async fn a_listen_for_a_task_does_not_change_who_gets_server_requests_outside_of_calls() {
    let old = Old::with(&["working"], Value::Null, false).await;
    old.made().await;
    let (mut listen, _) = old.listened("ann", &["T1"]).await;
    let params = json!({ "message": "Name?", "requestedSchema": { "type": "object", "properties": {} } });
    old.say(&json!({ "jsonrpc": "2.0", "id": "s8", "method": "elicitation/create", "params": params })).await;
    let Event::Asked(question) = next(&mut listen).await else { panic!("a question") };
    assert_eq!(question.params.string("message").as_deref(), Some("Name?"));
}
