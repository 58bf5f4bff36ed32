//! Starts, handshakes and their failures.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt as _;
use lockkeeper::{
    backend::BackendDeps,
    mcp::{
        Method, Outcome, Revision,
        observer::{LifecycleEvent, Observer},
    },
    model::{BackendSpec, ServerHome, Share, TransportSpec, status::BackendState},
    support::Latch,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;

use super::scripted_servers::{
    PROXY_ADVICE, SOON, Scripts, call, client, everyday, failure, gated, gateway, greeting_in, hold_time, pass, result,
    speaking, start, start_in_turns, start_with, started, text, tool, until,
};
use crate::kit::peer::{Peer, Seen, reply, status};
use crate::kit::{
    carriers::Program,
    programs::ChangingServer,
    scripted::{Gate, Script, ScriptedServer},
};

fn echo() -> Value {
    json!({ "name": "echo", "arguments": { "text": "hi" } })
}

#[tokio::test]
async fn server_information_passes_unchanged() {
    let scripts = Scripts::new();
    // as other programs write it
    let written = r#"{"jsonrpc": "2.0", "id": {/id}, "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}, "logging": {}, "tasks": {}, "x": 1.0}, "serverInfo": {"name": "scripted", "version": "7", "x-odd": 100.0}, "instructions": "Be kind."}}"#;
    let script = Script::everyday().on("initialize", json!([["write", written], ["hold"]]));
    let (supervisor, server) = started(scripts.serve("files", everyday(script))).await;
    let discovered = result(call(&server, gateway(), Method::Discover, &Value::Null)).await;
    insta::assert_snapshot!(discovered, @r#"{"supportedVersions":["2025-11-25"],"capabilities":{"tools": {"listChanged": true}, "logging": {}, "tasks": {}, "x": 1.0},"instructions":"Be kind.","_meta":{"io.modelcontextprotocol/serverInfo":{"name": "scripted", "version": "7", "x-odd": 100.0}}}"#);
    let status = supervisor.status().remove(0);
    assert_eq!((status.state, status.sessions), (BackendState::Ready, 1));
    assert_eq!(status.protocol_version.as_deref(), Some("2025-11-25"));
    assert_eq!(status.server.as_deref(), Some("scripted 7"));
    supervisor.shutdown().await;
    assert!(scripts.logged("files", "stdin closed").await.ends_with("stdin closed\n"));
}

#[tokio::test]
async fn a_server_of_another_replica_starts_once_this_one_is_its_home() {
    let scripts = Scripts::new();
    let (home, (sender, mut moved)) = (Latch::default(), unbounded_channel());
    let observer = Observer::new(move |event| {
        if let LifecycleEvent::ServerMovedHere(backend) = event {
            let _ = sender.send(backend.to_string());
        }
    });
    let spec = BackendSpec { home: ServerHome::One, ..scripts.spec("files") };
    let supervisor = start_with(vec![spec], |deps| BackendDeps { home: home.clone(), observer, ..deps });
    assert!(supervisor.ready(SOON).await, "there is nothing to wait for");
    let server = supervisor.servers().remove(0).server;
    let refused = failure(tool(&server, gateway(), &echo())).await;
    assert!(refused.to_string().contains("it runs at another replica of this gateway"), "{refused}");
    home.open();
    assert_eq!(text(tool(&server, gateway(), &echo())).await, "hi");
    assert_eq!(moved.recv().await.as_deref(), Some("files"));
    supervisor.shutdown().await;
}

#[tokio::test]
async fn nothing_is_sent_before_the_end_of_the_handshake() {
    let scripts = Scripts::new();
    let gate = Gate::closed();
    let supervisor = start(vec![scripts.serve("slow", gated(&gate)), scripts.spec("quick")]);
    let servers = supervisor.servers();
    let mut waiting = Box::pin(text(tool(&servers[0].server, gateway(), &echo())));
    scripts.logged("slow", "initialize").await;
    // the slow server delays no other
    assert_eq!(text(tool(&servers[1].server, gateway(), &echo())).await, "hi");
    assert!(waiting.as_mut().now_or_never().is_none());
    assert!(!supervisor.ready(Duration::ZERO).await);
    assert!(matches!(supervisor.status()[0].state, BackendState::Starting { .. }));
    gate.open();
    assert_eq!(waiting.await, "hi");
    let log = scripts.log("slow");
    let methods: Vec<&str> = log.split("\"method\":\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(methods, ["initialize", "notifications/initialized", "tools/call"]);
}

#[tokio::test]
async fn every_legacy_version_can_be_negotiated() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let scripts = Scripts::new();
        let (supervisor, server) = started(scripts.serve("old", speaking(version))).await;
        assert_eq!(supervisor.status()[0].protocol_version.as_deref(), Some(version));
        assert_eq!(text(tool(&server, gateway(), &echo())).await, "hi");
    }
}

/// A server that speaks this version, and answers a wrong one if it is offered any other.
fn odd(version: &str) -> ScriptedServer {
    let wrong = json!({ "result": greeting_in("2026-01-01") });
    let steps = json!([["when", "/params/protocolVersion", version, ["end"]], ["give", wrong]]);
    ScriptedServer::scripted(
        Revision::parse(version).unwrap_or(Revision::NEWEST_LEGACY),
        Script::everyday().on("initialize", steps),
    )
}

#[tokio::test]
async fn an_unknown_version_is_answered_by_a_lower_offer_on_a_fresh_connection() {
    let scripts = Scripts::new();
    let (supervisor, _) = started(scripts.serve("odd", odd("2025-03-26"))).await;
    assert_eq!(supervisor.status()[0].protocol_version.as_deref(), Some("2025-03-26"));
    assert_eq!(scripts.log("odd").matches("started").count(), 3);
}

#[tokio::test]
async fn a_server_without_a_known_version_fails_with_a_reason() {
    let scripts = Scripts::new();
    let (supervisor, server) = started(scripts.serve("odd", odd("none"))).await;
    let BackendState::Failed { reason, .. } = supervisor.status().remove(0).state else { panic!("a failure") };
    insta::assert_snapshot!(reason, @"the server speaks no protocol version that this gateway knows: offered 2024-11-05, it answered with `2026-01-01`; update one of the two");
    let error = failure(tool(&server, gateway(), &echo())).await;
    assert_eq!(error.code(), -32603);
    assert!(
        error.message().starts_with("Server `odd` is not available: the server speaks no protocol version"),
        "{error}"
    );
    assert_eq!(scripts.log("odd").matches("started").count(), 4);
}

#[tokio::test]
async fn a_server_that_lists_its_versions_gets_an_offer_of_one_of_them() {
    let scripts = Scripts::new();
    let refusing = |version: &str| {
        let data = json!({ "supported": [version], "requested": "{/params/protocolVersion}" });
        let error = json!({ "code": -32602, "message": "Unsupported", "data": data });
        everyday(Script::everyday().on("initialize", json!([["give", { "error": error }]])))
    };
    let (supervisor, _) = started(scripts.serve("modern", refusing("2026-07-28"))).await;
    let BackendState::Failed { reason, .. } = supervisor.status().remove(0).state else { panic!("a failure") };
    assert!(reason.starts_with("the server speaks protocol 2026-07-28 and opens no session"), "{reason}");
    let (_supervisor, _) = started(scripts.serve("named", refusing("2024-11-05"))).await;
    assert_eq!(scripts.log("named").matches(r#""protocolVersion":"2024-11-05""#).count(), 1);
}

#[tokio::test]
async fn an_invalid_answer_to_the_handshake_fails_the_start() {
    let scripts = Scripts::new();
    let without = |missing: &str| {
        let mut greeting = greeting_in("{/params/protocolVersion}");
        greeting.as_object_mut().unwrap().remove(missing);
        everyday(Script::everyday().greeting(&greeting))
    };
    for missing in ["protocolVersion", "capabilities"] {
        let (supervisor, _) = started(scripts.serve("wrong", without(missing))).await;
        let BackendState::Failed { reason, retry_in: Some(0 | 1) } = supervisor.status().remove(0).state else {
            panic!("a retry")
        };
        assert_eq!(reason, format!("the server answered `initialize` wrongly: `{missing}` is missing"));
    }
    let (_supervisor, server) = started(scripts.serve("nameless", without("serverInfo"))).await;
    let discovered = result(call(&server, gateway(), Method::Discover, &Value::Null)).await;
    let name = r#"{"name":"nameless","version":"unknown"}"#;
    assert!(discovered.contains(name), "{discovered}");
    let Outcome::Complete(said) = tool(&server, gateway(), &echo()).outcome().await else { panic!("a result") };
    assert_eq!(said.server(), Some(name));
}

#[tokio::test]
async fn a_server_that_exits_is_reported_with_its_last_output_and_affects_no_other() {
    let scripts = Scripts::new();
    let program = Program { last_words: "no key, no start".to_owned(), exits: Some(5), ..Program::default() };
    let bad = everyday(Script::everyday().on("initialize", json!([["die"]]))).run_as(program);
    let specs = vec![scripts.serve("bad", bad), scripts.spec("good")];
    let supervisor = start(specs);
    let servers = supervisor.servers();
    assert_eq!(text(tool(&servers[1].server, gateway(), &echo())).await, "hi");
    let error = failure(tool(&servers[0].server, gateway(), &echo())).await;
    let message = error.message().clone();
    let told = message.strip_prefix(
        "Server `bad` is not available: it does not start, and its operator can see why (`lockkeeper status`); ",
    );
    // at once, and whenever it comes
    assert!(matches!(told, Some("next try in 1 s" | "it is being tried again")), "{error}");
    let mut administrator = gateway();
    Arc::make_mut(&mut administrator.caller).rights.admin = true;
    let whole = failure(tool(&servers[0].server, administrator, &echo())).await;
    assert!(whole.message().contains("the process exited (exit status: 5); "), "{whole}");
    let status = supervisor.status().remove(0);
    assert!(matches!(status.state, BackendState::Failed { .. }), "{:?}", status.state);
    let output: Vec<String> = status.output.iter().map(ToString::to_string).collect();
    assert_eq!(output, ["stderr | no key, no start"]);
    assert_eq!(status.advice.as_deref(), Some(PROXY_ADVICE));
}

#[tokio::test]
async fn a_call_brings_the_next_start_of_a_failed_server_forward() {
    let mended = Arc::new(AtomicBool::new(false));
    let peer = Peer::start({
        let mended = Arc::clone(&mended);
        move |seen: &Seen| (seen.method() == "initialize" && !mended.load(Ordering::SeqCst)).then(|| status(503))
    })
    .await;
    let (supervisor, server) = started(peer.spec()).await;
    let tries = || peer.seen_of("initialize").len();
    let held = hold_time();
    let call = async || tool(&server, client("one", "{}"), &json!({ "name": "x" })).outcome().await;
    // a failure that is a moment old is told at once, and further ones are found out once a second at most
    for wanted in 1..=8 {
        let before = tries();
        let (one, two) = tokio::join!(call(), call());
        assert!(matches!((one, two), (Outcome::Failed(_), Outcome::Failed(_))));
        let made = tries() - before;
        let expected = match wanted {
            1 => 0..=0,
            // due by itself too, and perhaps just made
            2 => 0..=1,
            _ => 1..=1,
        };
        assert!(expected.contains(&made), "{made} for call {wanted}");
        assert!(matches!(call().await, Outcome::Failed(_)));
        assert_eq!(tries() - before, made, "a second one in the same second");
        pass(Duration::from_secs(1)).await;
    }
    let BackendState::Failed { retry_in: Some(left), .. } = supervisor.status()[0].state else { panic!("a retry") };
    assert!(left >= 30, "{left} s are left without a call");
    mended.store(true, Ordering::SeqCst);
    assert!(matches!(call().await, Outcome::Complete(_)), "no time passes");
    drop(held);
}

#[tokio::test]
async fn a_missing_command_is_reported_with_the_remedy() {
    let scripts = Scripts::new();
    let mut spec = scripts.spec("missing");
    let TransportSpec::Stdio(stdio) = &mut spec.transport else { panic!("a command") };
    stdio.command = "no-such-command".to_owned();
    let (supervisor, _) = started(spec).await;
    let BackendState::Failed { reason, .. } = supervisor.status().remove(0).state else { panic!("a failure") };
    insta::assert_snapshot!(reason, @"the command `no-such-command` was not found: install it, or give its full path in `command`");
}

#[tokio::test]
async fn a_start_times_out() {
    let scripts = Scripts::new();
    let mut spec = scripts.serve("slow", gated(&Gate::closed()));
    spec.start_timeout = Duration::from_millis(300);
    let (supervisor, _) = started(spec).await;
    let BackendState::Failed { reason, .. } = supervisor.status().remove(0).state else { panic!("a retry") };
    assert!(reason.contains("raise `start_timeout`"), "{reason}");
}

#[tokio::test]
async fn invalid_lines_on_standard_output_are_ignored() {
    let scripts = Scripts::new();
    let again = r#"{"jsonrpc": "2.0", "id": {/id}, "result": {"again": true}}"#;
    let steps = json!([
        ["write", "npm warn something\n\n{broken\n[]"],
        ["write", { "jsonrpc": "2.0", "id": 77777, "result": {} }],
        ["write", { "jsonrpc": "2.0", "id": "never", "error": { "code": 1, "message": "stray" } }],
        ["give", { "result": greeting_in("{/params/protocolVersion}") }],
        ["respond"],
        ["write", again],
    ]);
    let noisy = everyday(Script::everyday().on("initialize", steps));
    let (supervisor, server) = started(scripts.serve("noisy", noisy)).await;
    assert_eq!(text(tool(&server, gateway(), &echo())).await, "hi");
    let warnings = supervisor.status().remove(0).warnings;
    insta::assert_snapshot!(warnings.join("\n"), @"it prints text on its standard output, where only messages belong: the text is passed over");
}

#[tokio::test]
async fn text_on_standard_output_is_shown_while_a_server_starts_and_is_a_reason_when_it_does_not() {
    let scripts = Scripts::new();
    let steps = json!([["write", "Welcome\n{\"level\":\"info\"}"], ["hold"]]);
    let mut spec = scripts.serve("banner", everyday(Script::everyday().on("initialize", steps)));
    spec.start_timeout = Duration::from_secs(6);
    let supervisor = start(vec![spec]);
    let shown = until("the banner", || {
        let status = supervisor.status().remove(0);
        let output: Vec<String> = status.output.iter().map(ToString::to_string).collect();
        (output.len() > 1).then_some((status.state, output))
    });
    let (state, output) = shown.await;
    assert!(matches!(state, BackendState::Starting { .. }), "{state:?}");
    assert_eq!(output, ["stdout | Welcome", r#"stdout | {"level":"info"}"#]);
    supervisor.ready(Duration::from_secs(30)).await;
    let reason = supervisor.status().remove(0).state.reason().unwrap().to_owned();
    insta::assert_snapshot!(reason, @"it prints text on its standard output, where only messages belong; the server did not complete its handshake within 6 s; raise `start_timeout` if it needs longer");
}

#[tokio::test]
async fn completion_is_probed_if_the_servers_version_has_no_capability_for_it() {
    let unknown = json!({ "code": -32601, "message": "Method not found" });
    let wrong = json!({ "code": -32602, "message": "Unknown prompt" });
    for (version, declared, answer, completes) in [
        ("2024-11-05", json!({ "prompts": {} }), &wrong, true),
        ("2024-11-05", json!({ "prompts": {} }), &unknown, false),
        ("2024-11-05", json!({ "tools": {} }), &wrong, false),
        ("2025-03-26", json!({ "prompts": {} }), &wrong, false),
    ] {
        let (capabilities, answer) = (declared.clone(), answer.clone());
        let script = move |seen: &Seen| match seen.method() {
            "initialize" => {
                let info = json!({ "name": "scripted", "version": "7" });
                let result = json!({ "protocolVersion": version, "capabilities": capabilities, "serverInfo": info });
                Some(reply(&seen.result(&result)))
            }
            "completion/complete" => Some(reply(&json!({ "jsonrpc": "2.0", "id": seen.body["id"], "error": answer }))),
            _ => None,
        };
        let peer = Peer::start(script).await;
        let (_supervisor, server) = started(peer.spec()).await;
        let discovered = result(call(&server, gateway(), Method::Discover, &Value::Null)).await;
        let discovered: Value = serde_json::from_str(&discovered).unwrap();
        let shown = discovered["capabilities"].get("completions").is_some();
        assert_eq!(shown, completes, "{version} {declared}: {discovered}");
    }
}

/// A server whose handshake waits at a gate, and the gate.
fn waiting(scripts: &Scripts, name: &str) -> (BackendSpec, Gate) {
    let gate = Gate::closed();
    (BackendSpec { share: Share::All, ..scripts.serve(name, gated(&gate)) }, gate)
}

#[tokio::test]
async fn processes_start_a_few_at_a_time_and_those_that_a_client_waits_for_first() {
    let scripts = Scripts::new();
    let (first, gate_of_first) = waiting(&scripts, "first");
    let (wanted, gate_of_wanted) = waiting(&scripts, "wanted");
    let nobodys = scripts.spec("nobodys");
    let supervisor = start_in_turns(vec![first, nobodys, wanted], 1);
    scripts.logged("first", "initialize").await;
    let server = supervisor.servers().remove(2).server;
    let mut call = Box::pin(text(tool(&server, client("one", "{}"), &echo())));
    assert!(call.as_mut().now_or_never().is_none());
    assert_eq!((scripts.log("nobodys"), scripts.log("wanted")), (String::new(), String::new()));
    gate_of_first.open();
    scripts.logged("wanted", "initialize").await;
    assert_eq!(scripts.log("nobodys"), "", "nobody waits for it");
    gate_of_wanted.open();
    assert_eq!(call.await, "hi");
    assert!(supervisor.ready(SOON).await);
    assert!(supervisor.status().iter().all(|status| status.state == BackendState::Ready));
}

#[tokio::test]
async fn a_start_that_hangs_does_not_hold_up_the_others() {
    let scripts = Scripts::new();
    let (hanging, _gate) = waiting(&scripts, "hanging");
    let supervisor = start_in_turns(vec![hanging, scripts.spec("next")], 1);
    scripts.logged("hanging", "initialize").await;
    assert_eq!(scripts.log("next"), "");
    let held = hold_time();
    pass(Duration::from_secs(10)).await;
    drop(held);
    assert_eq!(text(tool(&supervisor.servers()[1].server, gateway(), &echo())).await, "hi");
    assert!(matches!(supervisor.status()[0].state, BackendState::Starting { .. }));
}

#[tokio::test]
async fn a_server_that_fails_again_and_again_answers_calls_at_once_until_one_works() {
    let scripts = Scripts::new();
    // the base connection works, and later processes say nothing
    let mended = Arc::new(AtomicBool::new(false));
    let is_mended = Arc::clone(&mended);
    let mut spec = scripts.serve(
        "busy",
        ChangingServer::new(move |start| {
            let script = Script::everyday();
            let works = start == 0 || is_mended.load(Ordering::SeqCst);
            everyday(if works { script } else { script.on("initialize", json!([["hold"]])) })
        }),
    );
    spec.start_timeout = Duration::from_secs(1);
    let (supervisor, server) = started(spec).await;
    let started = || scripts.log("busy").matches("started").count();
    let mut errors = Vec::new();
    let told = loop {
        let error = failure(tool(&server, client("one", "{}"), &echo())).await;
        if error.message().contains("next try") {
            break error;
        }
        errors.push(error);
    };
    assert!(errors.len() >= 3, "the first calls find out for themselves: {errors:?}");
    assert_eq!(told.code(), -32603);
    assert!(started() >= 4, "a process for each of them");
    // the time passes, and then one tries again
    let before = started();
    let again = failure(tool(&server, client("one", "{}"), &echo())).await;
    if again.message().contains("next try") {
        assert_eq!(started(), before, "no process is started for a call that is answered at once");
    }
    let warning = supervisor.status().remove(0).warnings.concat();
    assert!(warning.starts_with("no session could be opened for 1 of its clients: "), "{warning}");
    // another client finds out for itself
    let error = failure(tool(&server, client("two", "{}"), &echo())).await;
    assert!(!error.message().contains("next try"), "{error}");
    mended.store(true, Ordering::SeqCst);
    let deadline = tokio::time::Instant::now() + SOON;
    while let Outcome::Failed(error) = tool(&server, client("one", "{}"), &echo()).outcome().await {
        assert!(tokio::time::Instant::now() < deadline, "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // one call succeeded, and closed it
    assert_eq!(text(tool(&server, client("one", "{}"), &echo())).await, "hi");
}
