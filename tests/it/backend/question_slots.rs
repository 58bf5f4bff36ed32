//! Sharing of backend sessions, and attribution of server requests.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt as _, StreamExt};
use lockkeeper::{
    mcp::{Context, Event, Method, Outcome, Payload, Reply, Revision, Server, ServerRequest},
    model::{BackendSpec, OnLoss, SessionId, Share},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::scripted_servers::{
    SOON, Scripts, call, client, failure, next, person, request, result, speaking, started, started_and_lost, text,
    tool, until,
};
use crate::kit::peer::{Peer, Seen, event, events, text_of};

pub(super) const ASKABLE: &str = r#"{"elicitation":{}}"#;
/// Two users; one of them has two sessions.
const PEOPLE: [(&str, &str); 3] = [("ann", "ann-1"), ("ann", "ann-2"), ("bob", "bob-1")];
/// The number of concurrent calls of each session.
const AT_ONCE: usize = 20;

pub(super) fn shared(scripts: &Scripts, name: &str, share: Share, parallel: usize) -> BackendSpec {
    BackendSpec { share, parallel, ..scripts.spec(name) }
}

pub(super) fn quiz(owner: &str) -> Value {
    json!({ "name": "quiz", "arguments": { "owner": owner } })
}

pub(super) fn answer(question: ServerRequest, owner: &str) {
    assert_eq!(question.params.string("message").as_deref(), Some(owner), "somebody else's question");
    let answer = json!({ "action": "accept", "content": { "owner": owner } });
    let revision = question.params.revision;
    question.answer.give(Ok(Payload::of(revision, &answer)));
}

/// Answers the server requests in `reply`, and returns the text of its result.
async fn answered(mut reply: Reply, owner: &str) -> String {
    loop {
        match next(&mut reply).await {
            Event::Asked(question) => answer(question, owner),
            Event::Done(outcome) => return text(Reply::done(outcome)).await,
            Event::Notified(told) => panic!("{told:?}"),
        }
    }
}

/// Every session makes many concurrent calls, each with a server request.
async fn quiz_all(server: &Arc<dyn Server>) -> Vec<(&'static str, String)> {
    let mut running = JoinSet::new();
    for _ in 0..AT_ONCE {
        for (user, session) in PEOPLE {
            let reply = tool(server, person(user, session, ASKABLE), &quiz(session));
            running.spawn(async move { (session, answered(reply, session).await) });
        }
    }
    running.join_all().await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_server_request_reaches_its_owner_in_every_sharing_of_a_process() {
    // the base session, and the slots of each sharer
    for (share, parallel, sessions) in [
        (Share::Session, 1, 4..=4),
        (Share::User, 1, 3..=3),
        (Share::User, 4, 3..=4),
        (Share::All, 1, 2..=2),
        (Share::All, 2, 2..=3),
        (Share::All, 4, 2..=4),
    ] {
        let scripts = Scripts::new();
        let (supervisor, server) = started(shared(&scripts, "shared", share, parallel)).await;
        let answers = quiz_all(&server).await;
        assert_eq!(answers.len(), PEOPLE.len() * AT_ONCE);
        for (session, text) in answers {
            assert!(text.contains(&format!(r#""owner": "{session}""#)), "{session} {text}");
        }
        let count = supervisor.status()[0].sessions;
        assert!(sessions.contains(&count), "{share:?}, {parallel} at once: {count} sessions");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_server_request_reaches_its_owner_in_every_sharing_of_an_http_session() {
    for (share, sessions) in [(Share::Session, 4), (Share::User, 3), (Share::All, 2)] {
        let peer = Peer::start(|seen: &Seen| {
            let owner = &seen.body["params"]["arguments"]["owner"];
            let id = format!("{} {}", owner.as_str()?, seen.body["id"]);
            let asked =
                json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": { "message": owner } });
            Some(events([event(&asked), event(&seen.result(&text_of("asked")))].concat()))
        })
        .await;
        let (supervisor, server) = started(BackendSpec { share, ..peer.spec() }).await;
        quiz_all(&server).await;
        assert_eq!(supervisor.status()[0].sessions, sessions, "{share:?}");
        let answers = until("all answers", || {
            let answers: Vec<Seen> =
                peer.seen().into_iter().filter(|seen| seen.body["result"]["action"].is_string()).collect();
            (answers.len() == PEOPLE.len() * AT_ONCE).then_some(answers)
        })
        .await;
        for Seen { body, .. } in answers {
            let (id, owner) = (body["id"].as_str().unwrap(), body["result"]["content"]["owner"].as_str().unwrap());
            assert!(id.starts_with(owner), "{body}");
        }
    }
}

#[tokio::test]
async fn a_call_waits_while_another_client_session_holds_the_slot_and_lists_do_not() {
    let scripts = Scripts::new();
    let (supervisor, server) = started(shared(&scripts, "turns", Share::All, 1)).await;
    let mut first = tool(&server, client("s1", ASKABLE), &quiz("s1"));
    let Event::Asked(question) = next(&mut first).await else { panic!("a question") };
    let mut waits = JoinSet::new();
    waits.spawn(answered(tool(&server, client("s2", ASKABLE), &quiz("s2")), "s2"));
    // a second call of the session that holds the slot, and a list of the one that waits
    assert!(answered(tool(&server, client("s1", ASKABLE), &quiz("s1")), "s1").await.contains("s1"));
    result(call(&server, client("s2", ASKABLE), Method::ToolsList, &Value::Null)).await;
    assert!(!scripts.log("turns").contains(r#""owner":"s2""#), "it runs beside the other's");
    answer(question, "s1");
    text(first).await;
    assert!(waits.join_next().await.unwrap().unwrap().contains("s2"));
    assert_eq!(supervisor.status()[0].sessions, 2);
}

#[tokio::test]
async fn a_list_is_asked_of_the_process_that_said_it_changed() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(shared(&scripts, "grows", Share::All, 2)).await;
    let mut listen = call(&server, client("s2", ASKABLE), Method::Listen, &Value::Null);
    // holds the first slot, whose process lists are asked of otherwise
    let mut first = tool(&server, client("s1", ASKABLE), &quiz("s1"));
    let Event::Asked(question) = next(&mut first).await else { panic!("a question") };
    assert_eq!(text(tool(&server, client("s2", ASKABLE), &json!({ "name": "grow" }))).await, "grown");
    let Event::Notified(told) = next(&mut listen).await else { panic!("a notification") };
    assert_eq!(told.method, Method::ToolsListChanged);
    let tools = result(call(&server, client("s2", ASKABLE), Method::ToolsList, &Value::Null)).await;
    assert!(tools.contains("another-0"), "{tools}");
    drop(question);
}

#[tokio::test]
async fn a_call_that_is_cancelled_while_it_waits_never_runs() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(shared(&scripts, "turns", Share::All, 1)).await;
    let mut first = tool(&server, client("s1", ASKABLE), &quiz("s1"));
    let Event::Asked(question) = next(&mut first).await else { panic!("a question") };
    let ask = |owner: &'static str| tool(&server, client(owner, ASKABLE), &quiz(owner));
    let (mut given_up, patient) = (ask("s2"), ask("s3"));
    assert!(StreamExt::next(&mut given_up).now_or_never().is_none());
    drop(given_up);
    answer(question, "s1");
    text(first).await;
    assert!(answered(patient, "s3").await.contains("s3"));
    assert!(!scripts.log("turns").contains(r#""owner":"s2""#), "what was given up has run");
}

#[tokio::test]
async fn the_loss_of_one_slots_process_ends_no_other() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(shared(&scripts, "slots", Share::All, 2)).await;
    let mut first = tool(&server, client("s1", ASKABLE), &quiz("s1"));
    let Event::Asked(question) = next(&mut first).await else { panic!("a question") };
    let error = failure(tool(&server, client("s2", ASKABLE), &json!({ "name": "die" }))).await;
    assert!(String::from_utf8_lossy(error.json()).contains(r#""mayHaveRun":true"#));
    answer(question, "s1");
    assert!(text(first).await.contains("s1"));
    assert!(answered(tool(&server, client("s2", ASKABLE), &quiz("s2")), "s2").await.contains("s2"));
    assert_eq!(scripts.log("slots").matches(r#""name":"die""#).count(), 1, "it was sent again");
}

#[tokio::test]
async fn a_lost_shared_session_ends_every_client_session_that_used_it() {
    let scripts = Scripts::new();
    let spec = BackendSpec { on_loss: OnLoss::End, ..shared(&scripts, "ends", Share::User, 1) };
    let (_supervisor, server, mut lost) = started_and_lost(spec).await;
    let about = json!({ "name": "about" });
    let of = |user, session| person(user, session, ASKABLE);
    for (user, session) in PEOPLE {
        text(tool(&server, of(user, session), &about)).await;
    }
    failure(tool(&server, of("ann", "ann-1"), &json!({ "name": "die" }))).await;
    let mut next = async || tokio::time::timeout(SOON, lost.recv()).await.expect("an ended session").unwrap();
    let mut ended = [next().await, next().await];
    ended.sort();
    assert_eq!(ended, ["ann-1", "ann-2"].map(SessionId::new));
    assert!(lost.try_recv().is_err(), "another person's session ended");
}

#[tokio::test]
async fn a_server_request_outside_of_calls_goes_to_the_only_listener_or_is_refused() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(shared(&scripts, "late", Share::All, 1)).await;
    let listen = |session| call(&server, client(session, ASKABLE), Method::Listen, &Value::Null);
    let late = |session| tool(&server, client(session, ASKABLE), &json!({ "name": "late" }));
    let mut only = listen("s1");
    text(late("s1")).await;
    let Event::Asked(question) = next(&mut only).await else { panic!("a question") };
    answer(question, "Anybody?");
    scripts.logged("late", r#""id":"late","result""#).await;
    let _other = listen("s2");
    text(late("s1")).await;
    scripts.logged("late", r#""id":"late","error""#).await;
}

#[tokio::test]
async fn a_server_request_outside_of_calls_reaches_nobody_who_listens_for_somebody_else() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(shared(&scripts, "late", Share::All, 1)).await;
    let listen = |user, session| call(&server, person(user, session, ASKABLE), Method::Listen, &Value::Null);
    let late = |user, session| tool(&server, person(user, session, ASKABLE), &json!({ "name": "late" }));
    let mut hostile = listen("bob", "bob-1");
    text(late("ann", "ann-1")).await;
    scripts.logged("late", r#""id":"late","error""#).await;
    assert!(StreamExt::next(&mut hostile).now_or_never().is_none(), "bob is asked what is ann's");
    // once both have called, nobody knows whose it is
    text(late("bob", "bob-1")).await;
    until("the second refusal", || (refusals(&scripts.log("late")) == 2).then_some(())).await;
    assert!(StreamExt::next(&mut hostile).now_or_never().is_none(), "bob is asked what may be ann's");
}

#[tokio::test]
async fn a_server_request_outside_of_calls_comes_in_no_call_of_somebody_else() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(shared(&scripts, "held", Share::All, 1)).await;
    let ann = || person("ann", "ann-1", ASKABLE);
    text(tool(&server, ann(), &json!({ "name": "late" }))).await;
    // the server request came before the answer to this call, which cannot carry one
    result(call(&server, ann(), Method::ToolsList, &Value::Null)).await;
    let bob = tool(&server, person("bob", "bob-1", ASKABLE), &quiz("bob-1"));
    answered(bob, "bob-1").await;
    assert_eq!(refusals(&scripts.logged("held", r#""id":"late","error""#).await), 1);
}

/// The number of refused requests with the id `late`.
fn refusals(log: &str) -> usize {
    log.matches(r#""id":"late","error""#).count()
}

#[tokio::test]
async fn a_task_is_reached_at_the_process_that_created_it() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(shared(&scripts, "tasks", Share::All, 2)).await;
    let mut first = tool(&server, client("s1", ASKABLE), &quiz("s1"));
    let Event::Asked(_question) = next(&mut first).await else { panic!("a question") };
    let of = |session| client(session, ASKABLE);
    let made: Value = serde_json::from_str(&result(tool(&server, of("s2"), &json!({ "name": "task" }))).await).unwrap();
    let id = made["task"]["taskId"].as_str().unwrap();
    drop(first);
    let mut second = tool(&server, of("s3"), &quiz("s3"));
    let Event::Asked(_other) = next(&mut second).await else { panic!("a question") };
    let get = |session| call(&server, of(session), Method::TasksGet, &json!({ "taskId": id }));
    let found: Value = serde_json::from_str(&result(get("s2")).await).unwrap();
    assert_eq!(id, format!("task of {}", found["pid"]));
}

#[tokio::test]
async fn a_request_that_the_server_never_gets_leaves_its_slot_free() {
    let scripts = Scripts::new();
    // a version without tasks
    let without_tasks = scripts.serve("refused", speaking("2025-06-18"));
    let (supervisor, server) = started(BackendSpec { share: Share::All, parallel: 2, ..without_tasks }).await;
    let refused = call(&server, client("s1", ASKABLE), Method::TasksResult, &json!({ "taskId": "of nobody" }));
    assert_eq!(failure(refused).await.code(), -32601);
    text(tool(&server, client("s2", ASKABLE), &json!({ "name": "about" }))).await;
    assert_eq!(supervisor.status()[0].sessions, 2, "the base connection, and one for both");
}

#[tokio::test]
async fn unused_slots_are_ended() {
    let scripts = Scripts::new();
    let spec = BackendSpec { idle_timeout: Duration::from_millis(100), ..shared(&scripts, "idle", Share::All, 4) };
    let (supervisor, server) = started(spec).await;
    let mut open = Vec::new();
    for session in ["s1", "s2", "s3"] {
        let mut reply = tool(&server, client(session, ASKABLE), &quiz(session));
        let Event::Asked(question) = next(&mut reply).await else { panic!("a question") };
        open.push((reply, question));
    }
    assert_eq!(supervisor.status()[0].sessions, 4);
    for (reply, question) in open {
        drop(question);
        assert!(matches!(reply.outcome().await, Outcome::Complete(_)));
    }
    until("the end of the slots", || (supervisor.status()[0].sessions == 1).then_some(())).await;
}

#[tokio::test]
async fn a_server_request_outside_of_calls_waits_for_the_next_call_of_a_client_without_a_session() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(scripts.spec("held")).await;
    let client = || Context { requester: request("r"), ..client("none", ASKABLE) };
    text(tool(&server, client(), &json!({ "name": "late" }))).await;
    // the server request came before the answer to this call, which cannot carry one
    result(call(&server, client(), Method::ToolsList, &Value::Null)).await;
    let mut next_call = tool(&server, client(), &json!({ "name": "hang" }));
    let Event::Asked(question) = next(&mut next_call).await else { panic!("the question that was held") };
    question.answer.give(Ok(Payload::of(Revision::NEWEST_LEGACY, &json!({ "action": "decline" }))));
    scripts.logged("held", r#""action":"decline""#).await;
}
