//! Server requests outside of any call, for clients of 2026-07-28, which get them only in calls.

use std::time::Duration;

use lockkeeper::mcp::{AnswerReceiver, Event, Method, Payload, Revision, ServerRequest, listen::Filter};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use super::{Events, World, body, broken_streams::done, modern::Modern};

const ALL: &str = r#"{"sampling":{},"elicitation":{},"roots":{}}"#;

/// An acknowledged listen, and the sender of its events.
async fn listening(world: &World, client: &Modern) -> (Events, UnboundedSender<Event>) {
    let (say, said) = tokio::sync::mpsc::unbounded_channel();
    *world.server.heard.lock() = Some(said);
    say.send(Filter::default().acknowledged()).unwrap();
    let mut events = Events::of(client.ask("l", "subscriptions/listen", json!({ "notifications": {} })).await);
    assert!(events.message().await.is_some());
    (events, say)
}

/// Reads a listen while another future runs.
async fn beside<T>(events: &mut Events, other: impl Future<Output = T>) -> T {
    let reads = async {
        loop {
            if let Some(message) = events.message().await {
                panic!("the listen says {message}");
            }
        }
    };
    tokio::select! {
        done = other => done,
        () = reads => unreachable!("the listen goes on"),
    }
}

/// A server request, and the receiver of its answer.
pub(super) fn question(method: Method) -> (Event, AnswerReceiver) {
    let (question, answered) = ServerRequest::new(method, Payload::empty(Revision::V2025_11_25));
    (Event::Asked(question), answered)
}

/// Waits until the listen has read its events.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_server_request_outside_of_calls_comes_in_the_next_call_of_its_client() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", ALL);
    let (mut events, say) = listening(&world, &client).await;
    let (asked, answered) = question(Method::RootsList);
    say.send(asked).unwrap();
    beside(&mut events, settle()).await;
    // other clients do not get it, nor do calls without server requests
    let (stranger, poorer) =
        (Modern::of(&world, "bob", ALL), Modern::of(&world, "ann", r#"{"roots":{},"sampling":{}}"#));
    for other in [&stranger, &poorer] {
        let answer = beside(&mut events, async { body(other.tool(1, "echo", json!({})).await).await }).await;
        assert!(answer["result"]["content"].is_array(), "{answer}");
    }
    // nor does a call that ends at once
    let quick = beside(&mut events, async { body(client.tool(1, "echo", json!({})).await).await }).await;
    assert!(quick["result"]["content"].is_array(), "{quick}");
    let arguments = json!({ "name": "t" });
    let asked = beside(&mut events, async { body(client.tool(1, "talk", arguments.clone()).await).await }).await;
    let requests = asked["result"]["inputRequests"].as_object().unwrap().clone();
    let (key, request) = requests.iter().next().unwrap();
    assert_eq!(request["method"], "roots/list");
    let roots = json!({ "roots": [{ "uri": "file:///a" }] });
    let params = json!({ "name": "talk", "arguments": arguments, "inputResponses": { key: roots },
        "requestState": asked["result"]["requestState"] });
    let finish = async {
        let answer = answered.wait().await.unwrap().unwrap();
        world.server.say("t", done());
        answer.view::<Value>().unwrap()
    };
    let (last, answer) = tokio::join!(client.ask(2, "tools/call", params), finish);
    assert_eq!(answer, roots);
    assert_eq!(body(last).await["result"]["resultType"], "complete");
}

#[tokio::test]
async fn a_deferred_request_is_refused_after_five_seconds_without_a_call() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", ALL);
    let (mut events, say) = listening(&world, &client).await;
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let (asked, answered) = question(Method::Elicit);
    say.send(asked).unwrap();
    let error = beside(&mut events, answered.wait()).await.unwrap().unwrap_err();
    assert_eq!((error.code(), error.message().as_str()), (-32602, "No associated client request"));
    assert!((5_000..5_100).contains(&began.elapsed().as_millis()));
}

#[tokio::test]
async fn an_undeclared_server_request_is_refused_at_once() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", "{}");
    let (mut events, say) = listening(&world, &client).await;
    tokio::time::pause();
    for (method, code) in [(Method::RootsList, -32601), (Method::Elicit, -32602), (Method::CreateMessage, -32602)] {
        let (asked, answered) = question(method);
        say.send(asked).unwrap();
        let answer = beside(&mut events, tokio::time::timeout(Duration::from_secs(2), answered.wait())).await;
        assert_eq!(answer.unwrap().unwrap().unwrap_err().code(), code);
    }
}

#[tokio::test]
async fn a_withdrawn_deferred_request_is_not_sent() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", ALL);
    let (mut events, say) = listening(&world, &client).await;
    let (asked, answered) = question(Method::RootsList);
    say.send(asked).unwrap();
    beside(&mut events, settle()).await;
    drop(answered);
    beside(&mut events, settle()).await;
    let call = async {
        let call = client.tool(1, "talk", json!({ "name": "t" }));
        let end = async {
            world.server.wait_for(Method::ToolsCall, 1).await;
            tokio::time::sleep(Duration::from_millis(60)).await;
            world.server.say("t", done());
        };
        tokio::join!(call, end).0
    };
    let answer = beside(&mut events, call).await;
    assert_eq!(body(answer).await["result"]["resultType"], "complete");
}
