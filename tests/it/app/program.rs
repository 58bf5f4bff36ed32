//! The gateway as a process of its own.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::Path,
    process::{Command, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use reqwest::StatusCode;
use serde_json::json;
use tokio::task::{spawn_blocking, yield_now};

use super::{client, direct_key};
use crate::{
    kit::gateway::Program,
    support::{data_folder::DataFolder, in_time},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_whose_log_nobody_reads_answers_and_stops() {
    let folder = DataFolder::new();
    let mut program = Program::start_with(folder.path(), &["--log", "debug"], Stdio::piped());
    let stranger = client();
    let status = async |path: &str| stranger.get(format!("{}{path}", program.url)).send().await.unwrap().status();
    // more lines than the pipe holds
    for _ in 0..2_000 {
        assert_eq!(in_time("an answer", status("/nothing")).await, StatusCode::NOT_FOUND);
    }
    assert_eq!(in_time("an answer", status("/healthz")).await, StatusCode::OK);
    program.send(Signal::SIGTERM);
    let log = program.child.stderr.take().unwrap();
    let ended = spawn_blocking(move || program.child.wait().unwrap().success());
    assert!(in_time("the end", ended).await.unwrap());
    let lines = BufReader::new(log).lines().map_while(Result::ok).count();
    assert!(lines > 100, "what the pipe took is there: {lines} lines");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_changes_its_filter_and_its_format_while_the_gateway_runs() {
    const SERVERS: &str = "[servers.demo]\nbuiltin = \"demo\"\n";
    let folder = DataFolder::new();
    let (file, log) = (folder.path().join("lockkeeper.toml"), folder.path().join("log"));
    fs::write(&file, format!("[log]\nfilter = \"error\"\n{SERVERS}")).unwrap();
    let program = Program::start_with(folder.path(), &[], fs::File::create(&log).unwrap().into());
    // it serves, so it also follows its file
    client().get(format!("{}/healthz", program.url)).send().await.unwrap();
    assert_eq!(fs::read_to_string(&log).unwrap(), "");
    fs::write(&file, format!("[log]\nformat = \"json\"\n{SERVERS}")).unwrap();
    program.hang_up();
    let read_again = |line: &str| {
        serde_json::from_str::<serde_json::Value>(line).is_ok_and(|line| {
            line["message"] == "the configuration was read again" && line["changed"] == "log.filter log.format"
        })
    };
    while !fs::read_to_string(&log).unwrap().lines().any(read_again) {
        yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_forges_no_line_of_the_log() {
    const FORGED: &str = "x\r\n2026-01-01T00:00:00Z  INFO audit: forged\u{1b}[2K\u{9b}1A\u{2028}y";
    for form in ["text", "json"] {
        let folder = DataFolder::new();
        let log = folder.path().join("log");
        let file = fs::File::create(&log).unwrap();
        let program = Program::start_with(folder.path(), &["--log", "debug", "--log-format", form], file.into());
        let key = direct_key(&folder.path().join("data"));
        let about = json!({ "name": FORGED, "version": FORGED });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about });
        for (id, method, params) in [(1, "initialize", hello), (2, FORGED, json!({ "x": FORGED }))] {
            let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            let request = client().post(format!("{}/mcp", program.url)).bearer_auth(&key);
            let request = request.header("accept", "application/json, text/event-stream");
            request.header("content-type", "application/json").body(message.to_string()).send().await.unwrap();
        }
        program.send(Signal::SIGTERM);
        let mut program = program;
        spawn_blocking(move || program.child.wait().unwrap()).await.unwrap();
        let mut text = String::new();
        fs::File::open(&log).unwrap().read_to_string(&mut text).unwrap();
        assert!(text.contains("forged"), "{form}: the client's text is there");
        assert!(!text.contains(['\r', '\u{1b}', '\u{9b}', '\u{2028}']), "{form}: {text:?}");
        assert!(!text.lines().any(|line| line.starts_with("2026-01-01T00:00:00Z")), "{form}: {text}");
    }
}

/// Writes its process id, and lives on whatever becomes of its standard input.
const STUBBORN: &str = "trap '' TERM HUP; echo $$ >pid; while :; do sleep 0.1; done";

fn is_gone(pid: i32) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.is_empty() || state.contains(") Z ")
}

/// The process that the server of this folder became.
async fn started(folder: &Path) -> i32 {
    loop {
        if let Ok(pid) = fs::read_to_string(folder.join("pid")).unwrap_or_default().trim().parse() {
            return pid;
        }
        yield_now().await;
    }
}

async fn ends(pid: i32, by: Signal) {
    let end = async {
        while !is_gone(pid) {
            yield_now().await;
        }
    };
    in_time(&format!("the end of the server after {by}"), end).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_end_with_a_gateway_that_is_killed() {
    for signal in [Signal::SIGKILL, Signal::SIGQUIT, Signal::SIGABRT] {
        let folder = DataFolder::new();
        let section = format!("[servers.stubborn]\ncommand = \"sh\"\nargs = [\"-c\", {STUBBORN:?}]\ncwd = \".\"\n");
        fs::write(folder.path().join("lockkeeper.toml"), section).unwrap();
        let program = Program::start(folder.path());
        let pid = in_time("the server", started(folder.path())).await;
        assert!(!is_gone(pid));
        program.send(signal);
        ends(pid, signal).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_end_with_a_gateway_on_standard_input_that_is_killed() {
    for signal in [Signal::SIGKILL, Signal::SIGHUP] {
        let folder = DataFolder::new();
        let section = format!("[servers.stubborn]\ncommand = \"sh\"\nargs = [\"-c\", {STUBBORN:?}]\ncwd = \".\"\n");
        fs::write(folder.path().join("lockkeeper.toml"), section).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_lockkeeper"))
            .args(["stdio", "--data-dir", "data"])
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
        writeln!(child.stdin.as_mut().unwrap(), "{hello}").unwrap();
        let pid = in_time("the server", started(folder.path())).await;
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        ends(pid, signal).await;
        child.wait().unwrap();
    }
}
