//! Server requests that stay open on a shared process while other calls wait for it.

use std::{sync::Arc, time::Duration};

use lockkeeper::{
    layers::{Beneath, heartbeat},
    mcp::{Context, ErrorObject, Event, Method, Outcome, Reply, Server, ServerRequest},
    model::{BackendId, BackendSpec, Share},
};
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::timeout};

use super::{
    question_slots::{ASKABLE, answer, quiz, shared},
    scripted_servers::{self, Scripts, call, client, everyday, hold_time, next, pass, person, result, started, tool},
};
use crate::kit::scripted::Script;

/// The default limits.
const QUESTION_SLOT_TIME: Duration = Duration::from_secs(30);
const SLOT_WAIT: Duration = Duration::from_mins(2);
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);
const LINGER: Duration = Duration::from_secs(10);
/// After this a process whose request waits for a person is replaced by another.
const RELIEF: Duration = Duration::from_secs(5);

/// All calls that may wait for persons beside the oldest, where `parallel` is 1.
const OTHERS: [&str; 3] = ["r1", "r2", "r3"];

/// A request of a client without a session.
fn request(user: &str, name: &str) -> Context {
    Context { requester: scripted_servers::request(name), ..person(user, "none", ASKABLE) }
}

/// Answers the server requests of a reply after a while; returns the outcome.
async fn ended(mut reply: Reply, owner: &'static str) -> Outcome {
    loop {
        match reply.next_event().await {
            Some(Event::Asked(question)) => answer(question, owner),
            Some(Event::Done(outcome)) => return outcome,
            Some(Event::Notified(_)) => {}
            None => panic!("no outcome"),
        }
    }
}

fn text(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Complete(result) => String::from_utf8_lossy(result.json()).into_owned(),
        other => panic!("{other:?}"),
    }
}

/// A call with an open server request that continues by itself, like a suspended one.
async fn asking(
    running: &mut JoinSet<Outcome>,
    server: &Arc<dyn Server>,
    context: Context,
    arguments: &Value,
) -> ServerRequest {
    let mut reply = tool(server, context, &json!({ "name": "quiz", "arguments": arguments }));
    let Event::Asked(question) = next(&mut reply).await else { panic!("a question") };
    running.spawn(ended(reply, "nobody"));
    question
}

/// Waits until the input of the server with this name contains `text`, while the clock is stopped: once it runs again, the
/// text does not come.
async fn logged(scripts: &Scripts, name: &str, text: &str) {
    let journal = scripts.journal(name);
    let logged = timeout(Duration::from_hours(1), journal.until(|log| log.contains(text))).await;
    logged.unwrap_or_else(|_| panic!("`{text}` did not come: {}", journal.text()));
}

/// Calls of ann whose server requests nobody answers, the first with these arguments: no process is free then, where `parallel`
/// is 1. Returns the oldest request and the others.
async fn all_unanswered(
    (first, others): (&mut JoinSet<Outcome>, &mut JoinSet<Outcome>),
    server: &Arc<dyn Server>,
    arguments: &Value,
) -> (ServerRequest, Vec<ServerRequest>) {
    let oldest = asking(first, server, request("ann", "r0"), arguments).await;
    let mut younger = Vec::new();
    for owner in OTHERS {
        pass(RELIEF).await;
        younger.push(asking(others, server, request("ann", owner), &json!({ "owner": owner })).await);
    }
    pass(RELIEF).await;
    (oldest, younger)
}

#[tokio::test]
async fn the_oldest_unanswered_request_of_a_user_yields_to_the_users_newer_call() {
    for share in [Share::Session, Share::User, Share::All] {
        let scripts = Scripts::new();
        let (supervisor, server) = started(shared(&scripts, "shared", share, 1)).await;
        let _held = hold_time();
        let (mut first, mut others, mut waiting) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
        let quiz_of_first = json!({ "owner": "r0" });
        let (mut oldest, younger) = all_unanswered((&mut first, &mut others), &server, &quiz_of_first).await;
        // the base session and four processes
        assert_eq!(supervisor.status()[0].sessions, 5);
        waiting.spawn(ended(tool(&server, request("ann", "w"), &quiz("w")), "w"));
        result(call(&server, request("ann", "l"), Method::ToolsList, &Value::Null)).await;
        pass(QUESTION_SLOT_TIME.saturating_sub(Duration::from_secs(1))).await;
        result(call(&server, request("ann", "m"), Method::ToolsList, &Value::Null)).await;
        assert!(!scripts.log("shared").contains(r#""owner":"w""#), "{share:?}: it runs beside the others");
        pass(Duration::from_secs(1)).await;
        let accepted = text(&waiting.join_next().await.unwrap().unwrap());
        assert!(accepted.contains("accept"), "{share:?}: {accepted}");
        let Outcome::Failed(error) = first.join_next().await.unwrap().unwrap() else { panic!("an error") };
        insta::allow_duplicates! {
            insta::assert_snapshot!(String::from_utf8_lossy(error.json()), @r#"{"code":-32603,"data":{"reason":"question_closed"},"message":"Server `shared`: a server request of this call was unanswered while no process was free for other calls, so it was closed; call again and answer sooner"}"#);
        }
        oldest.answer.withdrawn().await;
        // one call waited, so one server request is closed
        for (owner, question) in OTHERS.into_iter().zip(younger) {
            answer(question, owner);
        }
        for ended in others.join_all().await {
            assert!(text(&ended).contains("accept"), "{share:?}: {ended:?}");
        }
    }
}

#[tokio::test]
async fn unanswered_requests_to_a_user_delay_the_next_call_of_that_user_by_five_seconds() {
    for share in [Share::Session, Share::All] {
        let scripts = Scripts::new();
        let (_supervisor, server) = started(shared(&scripts, "shared", share, 4)).await;
        let _held = hold_time();
        let (mut running, mut waiting) = (JoinSet::new(), JoinSet::new());
        let mut questions = Vec::new();
        for name in ["r0", "r1", "r2", "r3"] {
            questions.push(asking(&mut running, &server, request("ann", name), &json!({ "owner": name })).await);
        }
        let echo = json!({ "name": "echo", "arguments": { "text": "at last" } });
        waiting.spawn(ended(tool(&server, request("ann", "w"), &echo), "w"));
        result(call(&server, request("ann", "l"), Method::ToolsList, &Value::Null)).await;
        assert!(!scripts.log("shared").contains("at last"), "{share:?}: it runs beside the others");
        pass(RELIEF).await;
        assert!(text(&waiting.join_next().await.unwrap().unwrap()).contains("at last"));
        // and the call after that not at all
        assert!(result(tool(&server, request("ann", "x"), &echo)).await.contains("at last"));
        for (question, owner) in questions.into_iter().zip(["r0", "r1", "r2", "r3"]) {
            answer(question, owner);
        }
        for ended in running.join_all().await {
            assert!(text(&ended).contains("accept"), "{share:?}: {ended:?}");
        }
    }
}

#[tokio::test]
async fn long_calls_and_unanswered_requests_of_a_user_delay_others_by_five_seconds() {
    for hostile in [json!({ "name": "hang" }), json!({ "name": "quiz", "arguments": { "owner": "h", "hangs": true } })]
    {
        let scripts = Scripts::new();
        let (_supervisor, server) = started(shared(&scripts, "shared", Share::All, 4)).await;
        let _held = hold_time();
        let (mut busy, mut waiting) = (Vec::new(), JoinSet::new());
        for number in 0..20 {
            let mut reply = tool(&server, request("hostile", &format!("h{number}")), &hostile);
            if number < 4 {
                next(&mut reply).await;
            } else {
                assert!(futures_util::FutureExt::now_or_never(reply.next_event()).is_none());
            }
            busy.push(reply);
        }
        waiting.spawn(ended(tool(&server, request("bob", "w"), &quiz("w")), "w"));
        result(call(&server, request("bob", "l"), Method::ToolsList, &Value::Null)).await;
        pass(RELIEF).await;
        assert!(text(&waiting.join_next().await.unwrap().unwrap()).contains("accept"), "{hostile}");
        drop(busy);
    }
}

#[tokio::test]
async fn the_server_request_to_a_client_with_a_session_is_closed_too_and_its_dialog_withdrawn() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(shared(&scripts, "shared", Share::All, 1)).await;
    let _held = hold_time();
    let (mut first, mut others, mut waiting) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
    let mut question = asking(&mut first, &server, client("s1", ASKABLE), &json!({ "owner": "s1" })).await;
    let mut younger = Vec::new();
    for owner in ["s2", "s3", "s4"] {
        pass(RELIEF).await;
        younger.push(asking(&mut others, &server, client(owner, ASKABLE), &json!({ "owner": owner })).await);
    }
    waiting.spawn(ended(tool(&server, client("w", ASKABLE), &quiz("w")), "w"));
    result(call(&server, client("w", ASKABLE), Method::ToolsList, &Value::Null)).await;
    pass(QUESTION_SLOT_TIME).await;
    question.answer.withdrawn().await;
    assert!(matches!(first.join_next().await.unwrap().unwrap(), Outcome::Failed(_)));
    assert!(text(&waiting.join_next().await.unwrap().unwrap()).contains("accept"));
}

#[tokio::test]
async fn a_call_that_does_not_finish_after_its_server_request_was_closed_is_cancelled() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(shared(&scripts, "slow", Share::All, 1)).await;
    let _held = hold_time();
    let (mut first, mut others, mut waiting) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
    let hangs = json!({ "owner": "r0", "hangs": true });
    let (_oldest, younger) = all_unanswered((&mut first, &mut others), &server, &hangs).await;
    waiting.spawn(ended(tool(&server, request("ann", "w"), &quiz("w")), "w"));
    result(call(&server, request("ann", "l"), Method::ToolsList, &Value::Null)).await;
    pass(QUESTION_SLOT_TIME).await;
    logged(&scripts, "slow", r#""action":"cancel""#).await;
    assert!(!scripts.log("slow").contains("notifications/cancelled"), "the call is not cancelled yet");
    pass(FINISH_TIMEOUT).await;
    let Outcome::Failed(error) = first.join_next().await.unwrap().unwrap() else { panic!("an error") };
    insta::assert_snapshot!(String::from_utf8_lossy(error.json()), @r#"{"code":-32603,"data":{"reason":"question_closed"},"message":"Server `slow`: a server request of this call was unanswered while no process was free for other calls, so it was closed; the server did not finish the call within 10 s, so it was cancelled; call again and answer sooner"}"#);
    logged(&scripts, "slow", "notifications/cancelled").await;
    // messages of the server may still belong to that call
    assert!(!scripts.log("slow").contains(r#""owner":"w""#), "{}", scripts.log("slow"));
    pass(LINGER).await;
    assert!(text(&waiting.join_next().await.unwrap().unwrap()).contains("accept"));
    // its slot is enough: no other request was closed meanwhile
    for (owner, question) in OTHERS.into_iter().zip(younger) {
        answer(question, owner);
    }
    for ended in others.join_all().await {
        assert!(text(&ended).contains("accept"), "{ended:?}");
    }
}

#[tokio::test]
async fn a_server_request_stays_open_while_no_call_waits() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(shared(&scripts, "patient", Share::All, 1)).await;
    let _held = hold_time();
    let mut first = JoinSet::new();
    let question = asking(&mut first, &server, request("ann", "r1"), &json!({ "owner": "r1" })).await;
    // longer than the maximum silence of a server
    pass(Duration::from_mins(11)).await;
    // calls without server requests wait for no slot
    let cannot = Context { client: Arc::clone(&client("c", "{}").client), ..request("bob", "r2") };
    let echo = tool(&server, cannot, &json!({ "name": "echo", "arguments": { "text": "at once" } }));
    assert!(result(echo).await.contains("at once"));
    answer(question, "r1");
    assert!(text(&first.join_next().await.unwrap().unwrap()).contains("accept"));
}

#[tokio::test]
async fn a_call_that_gets_no_slot_reports_progress_and_ends_as_busy() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(shared(&scripts, "busy", Share::All, 1)).await;
    let id = BackendId::parse("busy").unwrap();
    let server = heartbeat(None)(Beneath { backend: &id, server, facts: &Arc::default() });
    let _held = hold_time();
    let mut running = tool(&server, request("ann", "r1"), &json!({ "name": "hang", "_meta": { "progressToken": 1 } }));
    assert!(futures_util::FutureExt::now_or_never(running.next_event()).is_none());
    let waits = json!({ "name": "quiz", "arguments": { "owner": "w" }, "_meta": { "progressToken": "p" } });
    let mut waiting = tool(&server, request("ann", "w"), &waits);
    assert!(futures_util::FutureExt::now_or_never(waiting.next_event()).is_none());
    pass(Duration::from_secs(15)).await;
    let Some(Event::Notified(told)) = waiting.next_event().await else { panic!("progress") };
    insta::assert_snapshot!(String::from_utf8_lossy(told.params.json()), @r#"{"progressToken":"p","progress":-1,"message":"waiting for a free process of `busy`"}"#);
    pass(SLOT_WAIT).await;
    let busy = ended(waiting, "w").await;
    let Outcome::Failed(error) = busy else { panic!("{busy:?}") };
    assert_eq!(error.code(), ErrorObject::INTERNAL_ERROR);
    insta::assert_snapshot!(String::from_utf8_lossy(error.json()), @r#"{"code":-32603,"data":{"backend":"busy","reason":"all its shared processes serve other clients; try again later, or raise `parallel`","retryable":true,"server":"busy"},"message":"Server `busy` is not available: all its shared processes serve other clients; try again later, or raise `parallel`"}"#);
    assert!(!scripts.log("busy").contains(r#""owner":"w""#));
}

#[tokio::test]
async fn a_server_request_after_its_call_was_cancelled_reaches_no_other_client() {
    let scripts = Scripts::new();
    let belated = json!([["ask", "belated", "elicitation/create", { "message": "Still there?" }]]);
    let spec = scripts.serve("belated", everyday(Script::everyday().on("notifications/cancelled", belated)));
    let (_supervisor, server) = started(BackendSpec { share: Share::All, parallel: 1, ..spec }).await;
    let mut listening = call(&server, client("s2", ASKABLE), Method::Listen, &Value::Null);
    assert!(futures_util::FutureExt::now_or_never(listening.next_event()).is_none());
    // the client never answers
    let hangs = json!({ "name": "quiz", "arguments": { "owner": "s1", "hangs": true } });
    let mut given_up = tool(&server, client("s1", ASKABLE), &hangs);
    let Event::Asked(_question) = next(&mut given_up).await else { panic!("a question") };
    drop(given_up);
    logged(&scripts, "belated", r#""id":"belated","result":{"action":"cancel"}"#).await;
    assert!(futures_util::FutureExt::now_or_never(listening.next_event()).is_none());
}
