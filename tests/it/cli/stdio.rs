//! `lockkeeper stdio` as clients use it: they start it, speak at once, and end it by closing its input, by a signal, or by
//! force.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use lockkeeper::mcp::{Era, Revision};
use nix::{sys::signal, unistd::Pid};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::kit::{
    carriers::Program as Behaviour,
    programs::ProgramServer,
    scripted::{Script, ScriptedServer},
};

/// A server with the tools `echo` and `hang`, without a handshake if it is modern.
fn server(version: Revision) -> ProgramServer {
    let script = if version.era() == Era::Modern { Script::default() } else { Script::named("s") };
    let script =
        script.lists(&["echo", "hang"]).hidden("echo", json!([["text", "echoed"]])).any_tool(json!([["hold"]]));
    let at_start = "echo 'a word to standard error' >&2".to_owned();
    let program = Behaviour { at_start, ..Behaviour::default() };
    ProgramServer::in_background(ScriptedServer::scripted(version, script).run_as(program))
}

fn legacy() -> ProgramServer {
    server(Revision::NEWEST_LEGACY)
}

/// The program with its pipes. Dropping it kills it.
struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
}

impl Program {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_lockkeeper"))
            .arg("stdio")
            .args(arguments)
            .current_dir(folder)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LOCKKEEPER_DATA_DIR", folder.join("data"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        Self { child, input, output }
    }

    /// With the program of a server.
    fn with_server(folder: &Path, server: &ProgramServer) -> Self {
        fs::write(folder.join("server.sh"), server.script()).unwrap();
        Self::start(folder, &["--", "sh", "server.sh"])
    }

    fn tell(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// The answer to this request; other messages are skipped, and every line must be a message.
    fn answer(&mut self, id: u64) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.output.as_mut().unwrap().read_line(&mut line).unwrap() > 0, "the output ended");
            let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}"));
            if message["id"] == id {
                return message;
            }
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "calls read better so")]
    fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.tell(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        self.answer(id)
    }

    fn open(&mut self) -> Value {
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } });
        let answer = self.ask(0, "initialize", params);
        self.tell(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        answer
    }

    /// The exit code, what else came on standard output, and standard error.
    fn end(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.output.as_mut().unwrap().read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (self.child.wait().unwrap().code(), out, err)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until every process of the server is gone.
fn is_gone(server: &ProgramServer) {
    let processes = server.journal().processes();
    assert!(!processes.is_empty(), "it was not started");
    let start = Instant::now();
    while processes.iter().any(|process| signal::kill(Pid::from_raw(*process), None).is_ok()) {
        assert!(start.elapsed() < Duration::from_mins(1), "the server runs on");
        std::thread::yield_now();
    }
}

/// Waits until the server is called.
fn is_called(server: &ProgramServer) {
    let start = Instant::now();
    while server.journal().count("tools/call") == 0 {
        assert!(start.elapsed() < Duration::from_mins(1), "it is not called");
        std::thread::yield_now();
    }
}

#[test]
fn the_server_is_started_once_as_the_client_says_who_it_is() {
    let (folder, server) = (tempfile::tempdir().unwrap(), legacy());
    let mut program = Program::with_server(folder.path(), &server);
    assert!(server.journal().processes().is_empty(), "nobody has said who the client is");
    program.open();
    program.ask(1, "tools/list", json!({}));
    for id in 2..4 {
        let called = program.ask(id, "tools/call", json!({ "name": "echo" }));
        assert_eq!(called["result"]["content"][0]["text"], "echoed");
    }
    assert_eq!(server.journal().processes().len(), 1);
    let greeting = server.journal().text();
    assert!(greeting.contains(r#""clientInfo":{"name":"c","version":"1"}"#), "{greeting}");
}

#[test]
fn a_client_calls_tools_and_closing_the_input_ends_program_and_server() {
    let (folder, server) = (tempfile::tempdir().unwrap(), legacy());
    let mut program = Program::with_server(folder.path(), &server);
    assert_eq!(program.open()["result"]["serverInfo"]["name"], "s");
    let tools = program.ask(1, "tools/list", json!({}));
    assert_eq!(tools["result"]["tools"][0]["name"], "echo", "one server keeps its names");
    let called = program.ask(2, "tools/call", json!({ "name": "echo" }));
    assert_eq!(called["result"]["content"][0]["text"], "echoed");
    program.input = None;
    let (code, out, err) = program.end();
    assert_eq!((code, out.as_str()), (Some(0), ""));
    assert!(err.contains("serving one client"), "logs: {err}");
    is_gone(&server);
    let mut files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["data", "server.sh"], "the gateway writes into its folder alone");
}

#[test]
fn a_server_that_is_remembered_is_not_asked_for_its_era_again() {
    let folder = tempfile::tempdir().unwrap();
    let modern = server(Revision::V2026_07_28);
    for is_asked in [true, false] {
        let mut program = Program::with_server(folder.path(), &modern);
        program.open();
        assert_eq!(program.ask(1, "tools/call", json!({ "name": "echo" }))["result"]["content"][0]["text"], "echoed");
        program.input = None;
        assert_eq!(program.end().0, Some(0));
        let asked = modern.journal().take();
        assert!(asked.contains("tools/call"), "{asked}");
        assert_eq!(asked.contains("\"initialize\""), is_asked, "{asked}");
    }
    // without a folder it serves as well
    fs::remove_dir_all(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data"), "no folder").unwrap();
    let legacy = legacy();
    let mut program = Program::with_server(folder.path(), &legacy);
    program.open();
    assert_eq!(program.ask(1, "tools/call", json!({ "name": "echo" }))["result"]["content"][0]["text"], "echoed");
}

#[test]
fn a_modern_client_needs_no_handshake() {
    let (folder, server) = (tempfile::tempdir().unwrap(), legacy());
    let mut program = Program::with_server(folder.path(), &server);
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {} });
    let called = program.ask(1, "tools/call", json!({ "name": "echo", "_meta": meta }));
    assert_eq!(called["result"]["content"][0]["text"], "echoed", "{called}");
    assert_eq!(called["result"]["resultType"], "complete");
}

#[test]
fn input_that_is_written_and_closed_at_once_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::start(folder.path(), &[]);
    let params =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } });
    program.tell(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }));
    program.tell(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    program.tell(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }));
    program.input = None;
    let tools = program.answer(1);
    let names: Vec<&str> =
        tools["result"]["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(names.contains(&"demo__echo"), "without configuration there is the demonstration: {names:?}");
    assert_eq!(program.end().0, Some(0));
}

#[test]
fn a_signal_ends_it_during_a_call_while_the_input_is_open() {
    for signal in [signal::Signal::SIGTERM, signal::Signal::SIGINT] {
        let (folder, server) = (tempfile::tempdir().unwrap(), legacy());
        let mut program = Program::with_server(folder.path(), &server);
        program.open();
        program.tell(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "hang" } }));
        is_called(&server);
        signal::kill(Pid::from_raw(program.child.id().cast_signed()), signal).unwrap();
        let input = program.input.take();
        assert_eq!(program.end().0, Some(0), "{signal}");
        drop(input);
        is_gone(&server);
    }
}

#[test]
fn killing_it_ends_its_servers() {
    let (folder, server) = (tempfile::tempdir().unwrap(), legacy());
    let mut program = Program::with_server(folder.path(), &server);
    program.open();
    program.child.kill().unwrap();
    program.child.wait().unwrap();
    is_gone(&server);
}

#[test]
fn a_client_that_closes_the_output_ends_it() {
    let (folder, server) = (tempfile::tempdir().unwrap(), legacy());
    let mut program = Program::with_server(folder.path(), &server);
    program.open();
    drop(program.output.take());
    program.tell(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }));
    assert_eq!(program.child.wait().unwrap().code(), Some(0));
    is_gone(&server);
}

#[test]
fn a_wrong_configuration_is_told_on_standard_error_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lockkeeper.toml"), "lissten = 1\n").unwrap();
    let (code, out, err) = Program::start(folder.path(), &[]).end();
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.contains("did you mean `listen`?"), "{err}");
}

#[test]
fn with_required_login_the_client_is_sent_elsewhere_and_no_server_is_started() {
    for (upgrade, endpoint) in
        [("http+sse", "https://mcp.example.com/sse"), ("streamable-http", "https://mcp.example.com/mcp")]
    {
        let (folder, server) = (tempfile::tempdir().unwrap(), legacy());
        let text = format!(
            "public_url = \"https://mcp.example.com\"\n[stdio]\nrequire_login = true\nupgrade = \"{upgrade}\"\n\
            [servers.s]\n{}",
            server.lines()
        );
        fs::write(folder.path().join("lockkeeper.toml"), text).unwrap();
        let mut program = Program::start(folder.path(), &[]);
        let expected = json!({ "endpoint": endpoint, "transport": upgrade });
        let opened = program.open();
        assert_eq!((&opened["result"]["capabilities"], &opened["result"]["upgrade"]), (&json!({}), &expected));
        assert_eq!(program.ask(1, "tools/list", json!({}))["error"]["data"]["upgrade"], expected);
        program.input = None;
        assert_eq!(program.end().0, Some(0));
        assert_eq!(server.journal().text(), "", "no server was started");
    }
}
