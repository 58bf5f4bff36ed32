//! First calls at servers that are slow to start: a client waits for one start, and for none where a process is ready.

use std::{path::Path, sync::Arc, time::Duration};

use lockkeeper::{
    backend::Supervisor,
    mcp::{Context, Method, Reply, Server},
    model::{BackendSpec, EraChoice, Requester, SessionId},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    eras,
    scripted_servers::{
        SOON, Scripts, call, client, gated, hold_time, pass, person, result, start, started, text, tool, until,
    },
};
use crate::kit::{carriers::Actor, programs::ChangingServer, scripted::Gate};

const ROOTS: &str = r#"{"roots":{}}"#;

/// A backend whose era is not known, without spare processes.
fn unknown(scripts: &Scripts, server: impl Actor) -> BackendSpec {
    BackendSpec { era: EraChoice::Auto, spares: 0, ..scripts.serve("slow", server) }
}

fn about(server: &Arc<dyn Server>, context: Context) -> Reply {
    tool(server, context, &json!({ "name": "about" }))
}

/// The process that answered.
async fn process(reply: Reply) -> i64 {
    serde_json::from_str::<Value>(&text(reply).await).unwrap()["pid"].as_i64().unwrap()
}

/// The lists that the gateway asks for in the name of clients like this one.
async fn lists(server: Arc<dyn Server>, client: Context) {
    let context = Context { requester: Requester::Gateway, ..client };
    result(call(&server, context, Method::ToolsList, &Value::Null)).await;
}

/// Work that goes on beside the test.
fn begun<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinSet<T> {
    let mut beside = JoinSet::new();
    beside.spawn(work);
    beside
}

async fn ended<T: 'static>(mut work: JoinSet<T>) -> T {
    work.join_next().await.unwrap().unwrap()
}

/// How many of these processes run.
fn running(processes: &[i32]) -> usize {
    processes.iter().filter(|process| Path::new(&format!("/proc/{process}")).exists()).count()
}

async fn greeted(scripts: &Scripts, count: usize) {
    until("a handshake", || (scripts.journal("slow").count(r#""initialize""#) >= count).then_some(())).await;
}

#[tokio::test]
async fn a_clients_process_starts_beside_the_one_that_finds_out_the_era() {
    let (scripts, gate) = (Scripts::new(), Gate::closed());
    let supervisor = start(vec![unknown(&scripts, gated(&gate))]);
    let server = supervisor.servers().remove(0).server;
    let first = begun(process(about(&server, client("s1", "{}"))));
    // both wait in the handshake
    greeted(&scripts, 2).await;
    gate.open();
    let processes = scripts.journal("slow").processes();
    assert!(processes.contains(&i32::try_from(ended(first).await).unwrap()));
    assert_eq!(scripts.journal("slow").processes().len(), 2);
    supervisor.shutdown().await;
}

#[tokio::test]
async fn a_server_whose_first_process_hangs_serves_clients_with_others() {
    let scripts = Scripts::new();
    let (first, later) = (Gate::closed(), Gate::closed());
    later.open();
    let server = ChangingServer::new(move |number| gated(if number == 0 { &first } else { &later }));
    let supervisor = start(vec![unknown(&scripts, server)]);
    // the gateway's own comes first
    greeted(&scripts, 1).await;
    let server = supervisor.servers().remove(0).server;
    process(about(&server, client("s1", "{}"))).await;
    process(about(&server, client("s2", ROOTS))).await;
    assert!(!supervisor.ready(Duration::ZERO).await, "the first still hangs");
    supervisor.shutdown().await;
}

#[tokio::test]
async fn a_modern_server_that_a_client_reaches_first_is_asked_on_the_same_process() {
    let scripts = Scripts::new();
    let spec = BackendSpec { spares: 0, ..eras::spec(&scripts, "only") };
    let supervisor = start(vec![spec]);
    let server = supervisor.servers().remove(0).server;
    assert_eq!(text(tool(&server, client("s1", "{}"), &json!({ "name": "x" }))).await, "only");
    assert!(supervisor.ready(SOON).await);
    assert_eq!(text(tool(&server, client("s1", "{}"), &json!({ "name": "x" }))).await, "only");
    assert_eq!(scripts.journal("era").processes().len(), 2, "one of the gateway, one of the session");
    supervisor.shutdown().await;
}

#[tokio::test]
async fn a_call_waits_for_the_process_that_is_asked_for_its_lists_and_starts_no_other() {
    let (scripts, gate) = (Scripts::new(), Gate::closed());
    let supervisor = start(vec![unknown(&scripts, gated(&gate))]);
    let server = supervisor.servers().remove(0).server;
    let listed = begun(lists(Arc::clone(&server), client("s1", ROOTS)));
    greeted(&scripts, 2).await;
    let first = begun(process(about(&server, client("s1", ROOTS))));
    tokio::task::yield_now().await;
    gate.open();
    ended(listed).await;
    ended(first).await;
    assert_eq!(scripts.journal("slow").processes().len(), 2);
    supervisor.shutdown().await;
}

#[tokio::test]
async fn of_two_users_with_the_same_client_one_gets_the_process_that_was_asked_and_the_other_its_own() {
    let (scripts, gate) = (Scripts::new(), Gate::closed());
    let supervisor = start(vec![unknown(&scripts, gated(&gate))]);
    let server = supervisor.servers().remove(0).server;
    let listed = begun(lists(Arc::clone(&server), person("ann", "a", ROOTS)));
    greeted(&scripts, 2).await;
    let ann = begun(process(about(&server, person("ann", "a", ROOTS))));
    let eve = begun(process(about(&server, person("eve", "e", ROOTS))));
    // one of both does not wait for what it will not get
    greeted(&scripts, 3).await;
    gate.open();
    ended(listed).await;
    let (ann, eve) = (ended(ann).await, ended(eve).await);
    assert_ne!(ann, eve);
    assert_eq!(scripts.journal("slow").processes().len(), 3);
    // what one of them leaves is not given to the other
    assert_eq!(process(about(&server, person("ann", "a", ROOTS))).await, ann);
    assert_eq!(process(about(&server, person("eve", "e", ROOTS))).await, eve);
    supervisor.shutdown().await;
}

#[tokio::test]
async fn a_process_whose_client_leaves_before_it_is_ready_ends_and_one_that_it_waited_for_serves_another() {
    let (scripts, gate) = (Scripts::new(), Gate::closed());
    let supervisor = start(vec![unknown(&scripts, gated(&gate))]);
    let server = supervisor.servers().remove(0).server;
    let listed = begun(lists(Arc::clone(&server), person("ann", "a", ROOTS)));
    greeted(&scripts, 2).await;
    // the first takes the process that lists, the second starts its own
    let mut leaving = JoinSet::new();
    for session in ["a", "b"] {
        leaving.spawn(about(&server, person("ann", session, ROOTS)).outcome());
        tokio::task::yield_now().await;
    }
    greeted(&scripts, 3).await;
    leaving.abort_all();
    for session in ["a", "b"] {
        let session = Requester::Session(SessionId::new(session));
        // its client may end it twice
        supervisor.ended(&session);
        supervisor.ended(&session);
    }
    gate.open();
    ended(listed).await;
    let eve = process(about(&server, person("eve", "e", ROOTS))).await;
    let processes = scripts.journal("slow").processes();
    assert!(processes.contains(&i32::try_from(eve).unwrap()), "nobody else has the process that listed");
    assert_eq!(processes.len(), 3);
    let last = || (running(&processes) == 2).then_some(());
    until("the end of the process that nobody waits for", last).await;
    supervisor.shutdown().await;
}

/// A server that is ready, with a session whose start took three seconds.
async fn slow(scripts: &Scripts, spares: usize) -> (Arc<dyn Server>, Supervisor) {
    let (quick, slow) = (Gate::closed(), Gate::closed());
    quick.open();
    let opens = slow.clone();
    let server = ChangingServer::new(move |number| gated(if number == 0 { &quick } else { &slow }));
    let (supervisor, server) = started(BackendSpec { spares, ..scripts.serve("slow", server) }).await;
    let call = begun(process(about(&server, client("s1", "{}"))));
    greeted(scripts, 2).await;
    let held = hold_time();
    pass(Duration::from_secs(3)).await;
    opens.open();
    ended(call).await;
    drop(held);
    (server, supervisor)
}

#[tokio::test]
async fn where_a_start_is_slow_the_next_client_finds_a_process_that_knows_it() {
    let scripts = Scripts::new();
    let (server, _supervisor) = slow(&scripts, 1).await;
    // of the gateway, of the session, of the next
    greeted(&scripts, 3).await;
    let known = scripts.journal("slow").processes();
    let next = process(about(&server, client("s2", "{}"))).await;
    assert!(known.contains(&i32::try_from(next).unwrap()));
    // another client is not taken for it
    let other = process(about(&server, client("s3", ROOTS))).await;
    assert_ne!(next, other);
}

#[tokio::test]
async fn no_process_is_introduced_ahead_where_none_may_be_kept() {
    let scripts = Scripts::new();
    let (server, _supervisor) = slow(&scripts, 0).await;
    process(about(&server, client("s2", "{}"))).await;
    assert_eq!(scripts.journal("slow").processes().len(), 3, "of the gateway and of two sessions");
}
