//! What the operator's commands show of a gateway that runs, and change in it.

use std::{
    fs::{self, Permissions},
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
};

use nix::{sys::signal::kill, unistd::Pid};
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{Gateway, client, direct_key, made_key};
use crate::{
    backend::scripted_servers::everyday,
    kit::{
        gateway::{Program, run},
        person::Person,
        programs::ProgramServer,
        scripted::{Gate, Script},
    },
    support::data_folder::DataFolder,
};

/// A server that lists the tool `about` too.
pub(super) fn server() -> ProgramServer {
    ProgramServer::start(everyday(Script::everyday().lists(&["about"])))
}

/// The section of a server, and the demonstration.
fn with_demo(server: &ProgramServer) -> String {
    format!("[servers.git]\nera = \"legacy\"\n{}[servers.demo]\nbuiltin = \"demo\"\n", server.lines())
}

/// The same with a server that prints a line at each start.
pub(super) fn with_printing(folder: &Path, server: &ProgramServer) -> String {
    let program = folder.join("program.sh");
    write_program(&program, &format!("echo begins >&2\n{}", server.script()));
    let program = program.display();
    format!("[servers.git]\nera = \"legacy\"\ncommand = \"{program}\"\n[servers.demo]\nbuiltin = \"demo\"\n")
}

fn write_program(path: &Path, script: &str) {
    fs::write(path, format!("#!/bin/sh\n{script}")).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

/// Runs a command in another thread.
async fn ran<T: Send + 'static>(folder: &Path, words: &[&str], run: fn(&Path, &[&str]) -> T) -> T {
    let (folder, words) = (folder.to_owned(), words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    let run = move || run(&folder, &words.iter().map(String::as_str).collect::<Vec<_>>());
    tokio::task::spawn_blocking(run).await.unwrap()
}

/// What a command prints.
async fn printed(folder: &Path, words: &[&str]) -> String {
    ran(folder, words, run).await
}

/// The exit code of a command, and all that it says.
async fn said(folder: &Path, words: &[&str]) -> (i32, String) {
    ran(folder, words, |folder, words| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
        let output = command.args(words).arg("--data-dir").arg(folder).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8(text).unwrap())
    })
    .await
}

async fn document(folder: &Path, words: &[&str]) -> Value {
    serde_json::from_str(&printed(folder, words).await).unwrap()
}

pub(super) async fn start(folder: &Path, configuration: &str) -> Gateway {
    fs::write(folder.join("lockkeeper.toml"), configuration).unwrap();
    let gateway = Gateway::start(folder).await;
    while gateway.get("/readyz", None).await.status() != StatusCode::OK {
        tokio::task::yield_now().await;
    }
    gateway
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_has_processes_and_memory_of_each_server_and_since_when_one_fails() {
    let (folder, server) = (DataFolder::new(), server());
    let folder = folder.path();
    let text = with_demo(&server) + "[servers.gone]\ncommand = \"/no/such\"\n";
    let gateway = start(folder, &text).await;
    let status = document(folder, &["status", "--json"]).await;
    let of = |id: &str| status["servers"].as_array().unwrap().iter().find(|server| server["id"] == id).unwrap();
    let git = of("git");
    assert!(git["processes"].as_u64() >= Some(1) && git["memory_bytes"].as_u64() > Some(100_000), "{git}");
    assert_eq!(git.get("failing_since"), None);
    let gone = of("gone");
    assert_eq!((&gone["state"], &gone["processes"]), (&"failed".into(), &0.into()), "{gone}");
    assert!(gone["failing_since"].as_str().unwrap().ends_with('Z'), "{gone}");
    assert_eq!(of("demo").get("processes"), None, "it is no program");

    let shown = printed(folder, &["status"]).await;
    let heading = shown.lines().find(|line| line.starts_with("SERVER")).unwrap();
    assert_eq!(heading.split_whitespace().nth(1), Some("STATE"));
    assert!(shown.contains("gone: failing since 20") && shown.contains(", next try in"), "{shown}");
    assert!(shown.lines().find(|line| line.starts_with("git ")).unwrap().ends_with(" MiB"), "{shown}");
    assert!(printed(folder, &["status", "--verbose"]).await.contains("TRANSPORT"));
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_says_where_a_server_contradicts_read_only_tools_and_no_right_changes() {
    let tool = |name: &str, reads: bool| json!({ "name": name, "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": reads } });
    let script = Script::everyday().listed(tool("wipe\u{1b}[2J", false)).listed(tool("look", true));
    let (folder, server) = (DataFolder::new(), ProgramServer::start(everyday(script)));
    let folder = folder.path();
    let listed = "read_only_tools = [\"wipe\\u001b[2J\", \"look\"]\n";
    let gateway = start(folder, &format!("[servers.git]\nera = \"legacy\"\n{}{listed}", server.lines())).await;
    let shown = printed(folder, &["status"]).await;
    let sentence =
        "git: the server does not say that these only read, but `read_only_tools` lists them: wipe?[2J. Keys";
    assert!(shown.contains(sentence), "{shown}");
    let reader = Person::new(&gateway.url, &made_key(folder, &["--direct", "--server", "git:read"]));
    assert_eq!(reader.client("2025-11-25", json!({})).tools().await.len(), 2, "the operator decides");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_started_anew_fails_its_calls_with_the_reason_and_serves_the_next() {
    let (folder, gate) = (DataFolder::new(), Gate::closed());
    let folder = folder.path();
    let script = Script::everyday().lists(&["about", "slow"]).hidden("slow", json!([["gate"]]));
    let server = ProgramServer::start(everyday(script).behind(&gate));
    let gateway = start(folder, &with_printing(folder, &server)).await;
    let mut caller = Person::new(&gateway.url, &direct_key(folder)).client("2025-11-25", json!({}));
    let restart = async {
        server.journal().until(|text| text.contains("\"slow\"")).await;
        printed(folder, &["restart", "git"]).await
    };
    let (answer, restarted) = tokio::join!(caller.call("git__slow"), restart);
    assert!(answer.contains("the operator has the server started anew"), "{answer}");
    assert!(answer.contains("\"mayHaveRun\":true"), "{answer}");
    assert_eq!(restarted, "restarted `git`: ready\n");
    let processes = server.journal().processes();
    assert!(processes.len() >= 2, "{processes:?}");
    assert!(kill(Pid::from_raw(processes[0]), None).is_err(), "the first one is gone");
    assert!(caller.call("git__about").await.contains("pid"));

    // what its processes printed is kept
    let lines = printed(folder, &["logs", "git"]).await;
    assert!(lines.lines().all(|line| line.starts_with("20")), "{lines}");
    assert!(lines.matches("stderr | begins").count() >= 2, "{lines}");
    assert_eq!(printed(folder, &["logs", "git", "--lines", "1"]).await.lines().count(), 1);

    for (words, code, expected) in [
        (&["restart", "nope"][..], 1, "there is no server `nope`"),
        (&["logs", "nope"], 1, "there is no server `nope`"),
        (&["restart", "demo"], 1, "the built-in server, which has no process"),
        (&["sessions", "end", "nope"], 1, "no session has an id that begins with `nope`"),
        (&["log", "banana"], 2, "a filter is a level"),
        (&["log", "debug", "--for", "25h"], 2, "1s to 24h"),
    ] {
        let (exit, text) = said(folder, words).await;
        assert!(exit == code && text.contains(expected), "{words:?} {exit} {text}");
    }
    gateway.stop().await;
    let trail = printed(folder, &["audit", "--json"]).await;
    for event in ["server_restarted", "output_read"] {
        let line = trail.lines().find(|line| line.contains(event)).unwrap();
        assert!(line.contains("\"server\":\"git\"") && line.contains("\"by\":\"operator "), "{line}");
    }
    assert_eq!(trail.matches("server_restarted").count(), 1, "what was refused is no event");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_start_is_tried_at_once_when_it_is_started_anew() {
    let (folder, server) = (DataFolder::new(), server());
    let folder = folder.path();
    let program = folder.join("program.sh");
    let gateway = start(folder, &format!("[servers.git]\nera = \"legacy\"\ncommand = {program:?}\n")).await;
    let of = async || document(folder, &["status", "--json"]).await["servers"][0].clone();
    assert_eq!(of().await["state"], "failed");
    // the next try by itself is minutes away
    write_program(&program, &server.script());
    assert_eq!(printed(folder, &["restart", "git"]).await, "restarted `git`: ready\n");
    assert_eq!(of().await.get("failing_since"), None);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_follows_the_lines_of_a_server_gets_those_of_its_next_process() {
    let (folder, server) = (DataFolder::new(), server());
    let folder = folder.path();
    let gateway = start(folder, &with_printing(folder, &server)).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command.args(["logs", "git", "--follow", "--json", "--data-dir"]).arg(folder).stdout(Stdio::piped());
    let mut follower = command.spawn().unwrap();
    let output = follower.stdout.take().unwrap();
    let mut lines = BufReader::new(output).lines();
    for _ in 0..2 {
        let is_begin = |line: &String| serde_json::from_str::<Value>(line).unwrap()["text"] == "begins";
        let next = move || (lines.by_ref().map(Result::unwrap).find(is_begin).is_some(), lines);
        let (has_begun, rest) = tokio::task::spawn_blocking(next).await.unwrap();
        assert!(has_begun);
        lines = rest;
        printed(folder, &["restart", "git"]).await;
    }
    follower.kill().unwrap();
    follower.wait().unwrap();
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_ends_one_session_and_no_other() {
    let folder = DataFolder::new();
    let folder = folder.path();
    let gateway = start(folder, "[servers.demo]\nbuiltin = \"demo\"\n").await;
    let key = direct_key(folder);
    let person = Person::new(&gateway.url, &key);
    let (mut ended, mut other) = (person.client("2025-11-25", json!({})), person.client("2025-11-25", json!({})));
    assert!(!ended.tools().await.is_empty() && !other.tools().await.is_empty());
    let sessions = document(folder, &["sessions", "list", "--json"]).await;
    let ids: Vec<&str> =
        sessions["sessions"].as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap()).collect();
    let [first, second] = ids[..] else { panic!("{ids:?}") };
    let said = printed(folder, &["sessions", "end", first]).await;
    assert!(said.starts_with(&format!("ended the session {first} of ")), "{said}");
    let left = document(folder, &["sessions", "list", "--json"]).await;
    assert_eq!(left["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(left["sessions"][0]["id"], second);
    assert!(!other.tools().await.is_empty());
    gateway.stop().await;
    assert!(printed(folder, &["audit", "--event", "session_ended"]).await.contains(&format!("name={first}")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_control_file_opens_what_an_operator_does() {
    let (folder, server) = (DataFolder::new(), server());
    let folder = folder.path();
    let gateway = start(folder, &with_demo(&server)).await;
    let admin = made_key(folder, &["--direct", "--admin"]);
    for path in ["servers/git/restart", "sessions/x/end", "log?filter=debug&seconds=60"] {
        let request = client().post(format!("{}/api/{path}", gateway.url));
        for request in [request.try_clone().unwrap(), request.bearer_auth(&admin)] {
            assert_eq!(request.send().await.unwrap().status(), StatusCode::FORBIDDEN, "{path}");
        }
    }
    for bearer in [None, Some(admin.as_str())] {
        assert_eq!(gateway.get("/api/servers/git/output", bearer).await.status(), StatusCode::FORBIDDEN);
    }
    assert_eq!(gateway.get("/api/status", Some(&admin)).await.status(), StatusCode::OK);
    gateway.stop().await;
}

#[test]
fn the_log_is_changed_for_a_while_and_back() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lockkeeper.toml"), "[servers.demo]\nbuiltin = \"demo\"\n").unwrap();
    let mut program = Program::start_with(folder.path(), &[], Stdio::piped());
    let mut log = BufReader::new(program.child.stderr.take().unwrap()).lines();
    let data = folder.path().join("data");
    assert_eq!(run(&data, &["log", "debug", "--for", "1h"]), "the log filter is `debug` for 3600 s\n");
    assert!(log.any(|line| line.unwrap().contains("debug for 3600 s")), "it is in the audit trail");
    // shows nothing of what follows
    assert_eq!(run(&data, &["log", "error", "--for", "1h"]), "the log filter is `error` for 3600 s\n");
    assert_eq!(run(&data, &["log", "configured"]), "the log is as configured\n");
    let next = log.find(|line| line.as_ref().unwrap().contains("INFO")).unwrap().unwrap();
    assert!(next.contains("as configured"), "{next}");
}
