//! Child processes: environment, end, and isolation from others.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use lockkeeper::{
    mcp::{Event, Method, Server},
    model::{BackendId, BackendSpec, StdioSpec, TransportSpec, status::BackendState},
    support::Secret,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    calls::hanging,
    scripted_servers::{
        PROXY_ADVICE, Scripts, call, client, everyday, failure, gateway, hold_time, next, pass, start, started, text,
        tool, until,
    },
};
use crate::kit::{
    carriers::Program,
    scripted::{Script, ScriptedServer},
};

fn echo() -> Value {
    json!({ "name": "echo", "arguments": { "text": "hi\n\u{2028}é" } })
}

#[tokio::test]
async fn a_child_process_gets_its_variables_and_no_secret_of_the_gateway() {
    let scripts = Scripts::new();
    let mut spec = scripts.spec("sees");
    let TransportSpec::Stdio(stdio) = &mut spec.transport else { panic!("a command") };
    stdio.env.insert("API_KEY".to_owned(), Secret::new("k"));
    let (_supervisor, server) = started(spec).await;
    let about: Value =
        serde_json::from_str(&text(tool(&server, gateway(), &json!({ "name": "about" }))).await).unwrap();
    let variables = about["environment"].as_object().unwrap();
    let has = |name: &str| variables.contains_key(name);
    assert!(has("API_KEY") && has("PATH") && !has("LOCKKEEPER_SECRET"), "{variables:?}");
    assert_eq!(about["pid"], about["group"], "it leads a process group of its own");
}

/// A server whose program has a child.
fn parent(stubborn: bool) -> ScriptedServer {
    let at_start = "sleep 1000 & export GRANDCHILD=$!".to_owned();
    everyday(Script::everyday()).run_as(Program { at_start, stubborn, ..Program::default() })
}

/// The process of such a server, and its child.
async fn family(server: &Arc<dyn Server>) -> [i32; 2] {
    let about: Value = serde_json::from_str(&text(tool(server, gateway(), &json!({ "name": "about" }))).await).unwrap();
    let grandchild = about["environment"]["GRANDCHILD"].as_str().unwrap().parse().unwrap();
    [i32::try_from(about["pid"].as_i64().unwrap()).unwrap(), grandchild]
}

#[tokio::test]
async fn the_whole_process_group_ends_with_the_gateway() {
    let scripts = Scripts::new();
    let (supervisor, server) = started(scripts.serve("tree", parent(true))).await;
    let [child, grandchild] = family(&server).await;
    assert!(lives(child) && lives(grandchild));
    supervisor.shutdown().await;
    assert!(!lives(child), "the child lives");
    until("the end of the grandchild", || (!lives(grandchild)).then_some(())).await;
}

#[tokio::test]
async fn a_program_that_ignores_the_end_of_its_input_is_asked_to_end_soon_unless_it_works_on_a_call() {
    let scripts = Scripts::new();
    let folder = tempfile::tempdir().unwrap();
    for (name, grace) in [("idle", 300), ("works", 2000)] {
        let asked_to_end = folder.path().join(name);
        let program = Program { lingers: Some(asked_to_end.clone()), ..Program::default() };
        let lingering = everyday(Script::everyday()).run_as(program);
        let (supervisor, server) = started(scripts.serve(name, lingering)).await;
        let mut running = JoinSet::new();
        assert_eq!(text(tool(&server, client("s1", "{}"), &echo())).await, "hi\n\u{2028}é");
        if name == "works" {
            let mut listen = call(&server, client("s1", "{}"), Method::Listen, &Value::Null);
            running.spawn(tool(&server, client("s1", "{}"), &json!({ "name": "hang" })).outcome());
            hanging(&mut listen).await;
        }
        let held = hold_time();
        let begun = tokio::time::Instant::now();
        let mut ending = Box::pin(supervisor.shutdown());
        let ended = loop {
            // the end of the process is real, and its time limits are not
            let passed = tokio::time::timeout(Duration::ZERO, &mut ending);
            tokio::select! {
                biased;
                Ok(()) = passed => break begun.elapsed(),
                () = async {
                    for _ in 0..1000 {
                        tokio::task::yield_now().await;
                    }
                } => pass(Duration::from_millis(50)).await,
            }
        };
        drop(held);
        assert!((grace..grace + 1000).contains(&ended.as_millis()), "{name}: {ended:?}");
        assert!(asked_to_end.exists(), "{name}");
        drop(ending);
    }
}

#[tokio::test]
async fn no_process_survives_the_supervisor() {
    let scripts = Scripts::new();
    let (supervisor, server) = started(scripts.serve("tree", parent(false))).await;
    let [_, grandchild] = family(&server).await;
    drop((supervisor, server));
    until("the end of the grandchild", || (!lives(grandchild)).then_some(())).await;
}

/// True if the process exists and is no zombie.
fn lives(pid: i32) -> bool {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status")).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ")
}

#[tokio::test]
async fn an_exiting_child_process_fails_its_calls_and_is_restarted() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(scripts.spec("dies")).await;
    let mut listen = call(&server, client("s1", "{}"), Method::Listen, &Value::Null);
    let session = || client("s1", "{}");
    let (hung, died) = tokio::join!(
        failure(tool(&server, session(), &json!({ "name": "hang" }))),
        failure(tool(&server, session(), &json!({ "name": "die" }))),
    );
    assert_eq!(hung, died);
    insta::assert_snapshot!(String::from_utf8_lossy(died.json()), @r#"{"code":-32603,"data":{"backend":"dies","mayHaveRun":true,"reason":"the process exited (exit status: 3)","retryable":false,"server":"dies"},"message":"The connection to server `dies` was lost: the process exited (exit status: 3). The call may have run"}"#);
    assert_eq!(text(tool(&server, session(), &echo())).await, "hi\n\u{2028}é");
    let anew = async {
        while let Event::Notified(told) = next(&mut listen).await {
            if told.params.string("data").is_some_and(|text| text.contains("started anew")) {
                return;
            }
        }
    };
    anew.await;
}

#[tokio::test]
async fn a_base_connection_that_ends_soon_is_restarted_after_a_delay() {
    let scripts = Scripts::new();
    let (supervisor, server) = started(scripts.spec("dies")).await;
    let mut listen = call(&server, gateway(), Method::Listen, &Value::Null);
    failure(tool(&server, gateway(), &json!({ "name": "die" }))).await;
    let status = until("the failure", || {
        Some(supervisor.status().remove(0)).filter(|status| status.state != BackendState::Ready)
    })
    .await;
    let output: Vec<String> = status.output.iter().map(ToString::to_string).collect();
    assert_eq!(output, ["stderr | last words"]);
    assert_eq!(status.advice.as_deref(), Some(PROXY_ADVICE));
    let Event::Notified(told) = next(&mut listen).await else { panic!("a notification") };
    assert_eq!(told.method, Method::ToolsListChanged);
    assert_eq!(supervisor.status()[0].state, BackendState::Ready);
    assert_eq!(supervisor.status()[0].restarts, 1);
}

#[tokio::test]
async fn an_endless_line_ends_its_session() {
    let scripts = Scripts::new();
    let (_supervisor, server) = started(scripts.spec("long")).await;
    let error = failure(tool(&server, client("s1", "{}"), &json!({ "name": "long" }))).await;
    assert!(error.message().contains("a line is longer than 16777216 bytes"), "{error}");
    assert_eq!(text(tool(&server, gateway(), &echo())).await, "hi\n\u{2028}é");
}

#[tokio::test]
async fn a_child_process_that_does_not_read_blocks_no_other() {
    let scripts = Scripts::new();
    let (supervisor, server) = started(scripts.spec("deaf")).await;
    let mut listen = call(&server, client("s1", "{}"), Method::Listen, &Value::Null);
    let mut calls = JoinSet::new();
    calls.spawn(tool(&server, client("s1", "{}"), &json!({ "name": "deaf" })).outcome());
    next(&mut listen).await;
    let large = json!({ "name": "echo", "arguments": { "text": "x".repeat(100_000) } });
    for _ in 0..100 {
        calls.spawn(tool(&server, client("s1", "{}"), &large).outcome());
    }
    assert_eq!(text(tool(&server, client("s2", "{}"), &echo())).await, "hi\n\u{2028}é");
    supervisor.shutdown().await;
    while let Some(outcome) = calls.join_next().await {
        assert!(matches!(outcome.unwrap(), lockkeeper::mcp::Outcome::Failed(_)));
    }
}

/// Moves bytes from a socket on which nothing comes to its standard output, in the kernel: on a pipe it holds the lock
/// meanwhile. It says so where that is refused.
const MOVES_IN_THE_KERNEL: &str = "
import os, socket, sys
kept = socket.socketpair()
try:
    os.splice(kept[0].fileno(), 1, 1 << 16)
except OSError:
    print('not with a socket', file=sys.stderr, flush=True)
sys.stdin.read()
";

#[tokio::test]
async fn a_server_that_moves_bytes_in_the_kernel_holds_up_nobody_else() {
    let scripts = Scripts::new();
    let args = ["-c", MOVES_IN_THE_KERNEL].map(str::to_owned).into();
    let moving = StdioSpec { command: "python3".to_owned(), args, env: BTreeMap::new(), cwd: None };
    let moving = BackendSpec::new(BackendId::parse("moving").unwrap(), TransportSpec::Stdio(moving));
    let supervisor = start(vec![moving, scripts.spec("quick")]);
    until("its refusal", || {
        let printed = supervisor.status().remove(0).output;
        printed.iter().any(|line| line.to_string().contains("not with a socket")).then_some(())
    })
    .await;
    let quick = supervisor.servers().remove(1).server;
    assert_eq!(text(tool(&quick, gateway(), &json!({ "name": "echo", "arguments": { "text": "hi" } }))).await, "hi");
    supervisor.shutdown().await;
}
