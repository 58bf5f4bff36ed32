//! Calls: events, server requests, cancellation.

use std::time::Duration;

use lockkeeper::{
    mcp::{Call, Event, Method, Outcome, Payload, Reply, Revision},
    model::{OnLoss, Requester, SessionId},
};
use serde_json::{Value, json};

use super::scripted_servers::{
    Scripts, call, client, failure, gateway, next, result, started, started_and_lost, text, tool, until,
};

const ASKABLE: &str = r#"{"elicitation":{},"roots":{}}"#;

#[tokio::test]
async fn progress_goes_to_its_call_under_the_clients_own_token() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(scripts.spec("pair")).await;
    // both clients choose the same token, as real ones do
    let pair = |which, steps: Value| {
        let arguments = json!({ "mark": which, "steps": steps });
        json!({ "name": "pair", "arguments": arguments, "_meta": { "progressToken": "t" } })
    };
    let both = json!(["until", "tools/call", 2]);
    let progress = |which| json!(["progress", 1, { "message": which }]);
    // the second one reports first and ends last
    let first = json!([both, ["noted", "two"], progress("one"), ["text", "one"], ["note"]]);
    let second = json!([both, progress("two"), ["note"], ["noted", "one"], ["text", "two"]]);
    let mut one = tool(&server, gateway(), &pair("one", first));
    let mut two = tool(&server, gateway(), &pair("two", second));
    let (first, second) = tokio::join!(next(&mut one), next(&mut two));
    for (event, which) in [(first, "one"), (second, "two")] {
        let Event::Notified(progress) = event else { panic!("progress first") };
        assert_eq!(progress.method, Method::Progress);
        assert_eq!(progress.params.string("progressToken").as_deref(), Some("t"));
        assert_eq!(progress.params.string("message").as_deref(), Some(which));
    }
    assert_eq!(text(one).await, "one");
    assert_eq!(text(two).await, "two");
}

#[tokio::test]
async fn answers_of_the_newest_version_are_not_sent_to_an_older_server() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(scripts.spec("old")).await;
    let params = json!({ "name": "echo", "arguments": { "text": "x" }, "requestState": "ST", "inputResponses": {} });
    let params = Payload::of(Revision::V2026_07_28, &params);
    let reply = server.call(Call { method: Method::ToolsCall, params, context: client("s1", ASKABLE) });
    assert_eq!(text(reply).await, "x");
    let log = scripts.log("old");
    let called = log.lines().find(|line| line.contains("tools/call")).unwrap();
    let called: Value = serde_json::from_str(called).unwrap();
    assert_eq!(called["params"], json!({ "name": "echo", "arguments": { "text": "x" } }));
}

#[tokio::test]
async fn a_dropped_reply_is_cancelled_at_the_server() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(scripts.spec("hang")).await;
    let mut listen = call(&server, gateway(), Method::Listen, &Value::Null);
    let reply = tool(&server, gateway(), &json!({ "name": "hang" }));
    let mut running = tokio::task::JoinSet::new();
    running.spawn(reply.outcome());
    hanging(&mut listen).await;
    running.abort_all();
    let log = scripts.logged("hang", "notifications/cancelled").await;
    let line =
        |word: &str| -> Value { serde_json::from_str(log.lines().find(|line| line.contains(word)).unwrap()).unwrap() };
    assert_eq!(line("notifications/cancelled")["params"]["requestId"], line("tools/call")["id"]);
    // the session goes on
    assert_eq!(text(tool(&server, gateway(), &json!({ "name": "echo", "arguments": { "text": "x" } }))).await, "x");
}

/// Waits until the server reports that it hangs; list changes are skipped.
pub(super) async fn hanging(listen: &mut Reply) {
    loop {
        let Event::Notified(told) = next(listen).await else { panic!("a notification") };
        if told.method == Method::LoggingMessage {
            return;
        }
    }
}

#[tokio::test]
async fn a_server_request_of_a_cancelled_call_is_answered_as_cancelled() {
    let scripts = Scripts::new();
    for (name, method, answer) in [
        ("form", "elicitation/create", json!({ "result": { "action": "cancel" } })),
        (
            "model",
            "sampling/createMessage",
            json!({ "error": "The request was cancelled before the client answered it" }),
        ),
        ("files", "roots/list", json!({ "error": "The request was cancelled before the client answered it" })),
    ] {
        let (_supervisor, server) = started(scripts.spec(name)).await;
        let capabilities = r#"{"elicitation":{},"sampling":{},"roots":{}}"#;
        let asking = json!({ "name": "ask", "arguments": { "method": method } });
        let mut reply = tool(&server, client("s1", capabilities), &asking);
        let Event::Asked(question) = next(&mut reply).await else { panic!("a question") };
        drop(reply);
        drop(question);
        let log = scripts.logged(name, "notifications/cancelled").await;
        let read = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut read = read.skip_while(|message| message["id"] != "q1");
        // before the call itself is cancelled
        let answered = read.next().unwrap_or_else(|| panic!("no answer in {log}"));
        if let Some(error) = answer["error"].as_str() {
            assert_eq!((&answered["error"]["code"], &answered["error"]["message"]), (&json!(-32603), &json!(error)));
        } else {
            assert_eq!(answered["result"], answer["result"], "{method}");
        }
        assert_eq!(read.next().unwrap()["method"], "notifications/cancelled", "{log}");
    }
}

#[tokio::test]
async fn a_silent_call_times_out_and_is_cancelled() {
    let scripts = Scripts::new();
    let mut spec = scripts.spec("hang");
    spec.call_timeout = Duration::from_millis(200);
    let (_supervisor, server) = started(spec).await;
    let error = failure(tool(&server, gateway(), &json!({ "name": "hang" }))).await;
    insta::assert_snapshot!(error, @"Server `hang` gave no sign of life for 0.2 s, so the call was cancelled (-32603)");
    scripts.logged("hang", "notifications/cancelled").await;
}

#[tokio::test]
async fn a_server_request_goes_to_the_call_that_caused_it() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(scripts.spec("asks")).await;
    let params = json!({ "name": "ask", "arguments": { "method": "elicitation/create" } });
    let mut reply = tool(&server, client("s1", ASKABLE), &params);
    let Event::Asked(question) = next(&mut reply).await else { panic!("a question") };
    assert_eq!(question.method, Method::Elicit);
    assert_eq!(question.params.string("message").as_deref(), Some("Well?"));
    let answer = Payload::of(question.params.revision, &json!({ "action": "accept" }));
    question.answer.give(Ok(answer));
    assert_eq!(text(reply).await, r#"{"action": "accept"}"#);
    let log = scripts.log("asks");
    assert!(
        log.contains(r#""capabilities":{"elicitation":{},"roots":{}},"clientInfo":{"name":"tester","version":"1.0"}"#)
    );
}

#[tokio::test]
async fn a_server_can_withdraw_its_request() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(scripts.spec("asks")).await;
    let params = json!({ "name": "ask", "arguments": { "method": "roots/list", "withdraw": true } });
    let mut reply = tool(&server, client("s1", ASKABLE), &params);
    let Event::Asked(mut question) = next(&mut reply).await else { panic!("a question") };
    question.answer.withdrawn().await;
    assert_eq!(text(reply).await, "withdrawn");
}

#[tokio::test]
async fn a_server_request_that_no_client_supports_is_refused() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(scripts.spec("asks")).await;
    let ask = |method: &str| json!({ "name": "ask", "arguments": { "method": method } });
    for (method, code) in [("roots/list", -32601), ("elicitation/create", -32602), ("sampling/createMessage", -32602)] {
        let refused: Value = serde_json::from_str(&text(tool(&server, gateway(), &ask(method))).await).unwrap();
        assert_eq!(refused["code"], code, "{method}");
    }
    // a client that could answer, and did not
    let unanswered = text(tool(&server, client("s1", ASKABLE), &ask("roots/list"))).await;
    assert!(unanswered.contains("-32601"), "{unanswered}");
}

#[tokio::test]
async fn messages_outside_of_calls_reach_only_their_clients_listen() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(scripts.spec("talks")).await;
    let mut theirs = call(&server, client("s1", "{}"), Method::Listen, &Value::Null);
    let mut other = call(&server, client("s2", "{}"), Method::Listen, &Value::Null);
    assert_eq!(text(tool(&server, client("s1", "{}"), &json!({ "name": "tell" }))).await, "done");
    let Event::Notified(told) = next(&mut theirs).await else { panic!("a notification") };
    assert_eq!(told.params.string("data").as_deref(), Some("told"));
    assert!(futures_util::FutureExt::now_or_never(futures_util::StreamExt::next(&mut other)).is_none());
    scripts.logged("talks", r#""id":"p","result":{}"#).await;
}

#[tokio::test]
async fn each_client_session_has_a_process_of_its_own() {
    let scripts = Scripts::new();
    let (supervisor, server) = started(scripts.spec("own")).await;
    let about = json!({ "name": "about" });
    let of = async |session| text(tool(&server, client(session, "{}"), &about)).await;
    let (one, again, two) = tokio::join!(of("s1"), of("s1"), of("s2"));
    assert_eq!(one, again);
    assert_ne!(one, two);
    assert_eq!(supervisor.status()[0].sessions, 3);
    supervisor.ended(&Requester::Session(SessionId::new("s1")));
    until("the end of the session", || (supervisor.status()[0].sessions == 2).then_some(())).await;
    scripts.logged("own", "stdin closed").await;
}

#[tokio::test]
async fn idle_sessions_end_and_their_clients_are_notified_of_the_restart() {
    let scripts = Scripts::new();
    let mut spec = scripts.spec("idle");
    spec.idle_timeout = Duration::from_millis(100);
    let (supervisor, server) = started(spec).await;
    let mut listen = call(&server, client("s1", "{}"), Method::Listen, &Value::Null);
    let echo = json!({ "name": "echo", "arguments": { "text": "x" } });
    assert_eq!(text(tool(&server, client("s1", "{}"), &echo)).await, "x");
    until("the end of the session", || (supervisor.status()[0].sessions == 1).then_some(())).await;
    assert_eq!(text(tool(&server, client("s1", "{}"), &echo)).await, "x");
    let Event::Notified(told) = next(&mut listen).await else { panic!("a notification") };
    assert!(told.params.string("data").unwrap().contains("started anew"));
    let Event::Notified(told) = next(&mut listen).await else { panic!("a notification") };
    assert_eq!(told.method, Method::ToolsListChanged);
}

#[tokio::test]
async fn a_clients_notification_reaches_its_session_and_opens_none() {
    let scripts = Scripts::new();
    let (supervisor, server) = started(scripts.spec("told")).await;
    let tell = || call(&server, client("s1", ASKABLE), Method::RootsListChanged, &Value::Null);
    assert!(matches!(tell().outcome().await, Outcome::Complete(payload) if payload.is_absent()));
    assert_eq!(supervisor.status()[0].sessions, 1);
    result(call(&server, client("s1", ASKABLE), Method::ToolsList, &Value::Null)).await;
    tell().outcome().await;
    scripts.logged("told", "notifications/roots/list_changed").await;
}

#[tokio::test]
async fn with_on_loss_end_a_lost_session_ends_the_clients_session() {
    let scripts = Scripts::new();
    let mut spec = scripts.spec("ends");
    spec.on_loss = OnLoss::End;
    let (supervisor, server, mut lost) = started_and_lost(spec).await;
    failure(tool(&server, client("s1", "{}"), &json!({ "name": "die" }))).await;
    assert_eq!(lost.recv().await.unwrap(), SessionId::new("s1"));
    text(tool(&server, client("s2", "{}"), &json!({ "name": "about" }))).await;
    supervisor.shutdown().await;
    assert!(lost.try_recv().is_err(), "a session survives the gateway's own end");
}
