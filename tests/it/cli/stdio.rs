//! `lockkeeper stdio` as clients use it: they start it, speak at once, and end it by closing its input, by a signal, or by
//! force.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use nix::{sys::signal, unistd::Pid};
use serde_json::{Value, json};
use tokio::time::Instant;

/// A server that writes its process id into a file, and the methods of its requests into another. With the argument
/// `modern` it has no handshake.
const SERVER: &str = r#"
import json, os, sys
modern = sys.argv[1:] == ["modern"]
open("pid", "w").write(str(os.getpid()))
print("a word to standard error", file=sys.stderr, flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if message.get("id") is None:
        continue
    method, params = message["method"], message.get("params") or {}
    open("methods", "a").write(method + "\n")
    if method == "server/discover" and modern:
        result = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}
    elif method == "initialize" and not modern:
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}, {"name": "hang", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call" and params["name"] == "echo":
        result = {"content": [{"type": "text", "text": "echoed"}]}
    elif method == "tools/call":
        open("called", "w").close()
        continue
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": method}}), flush=True)
        continue
    kind = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if modern else {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {**kind, **result}}), flush=True)
"#;

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

    /// With the scripted server.
    fn with_server(folder: &Path) -> Self {
        fs::write(folder.join("server.py"), SERVER).unwrap();
        Self::start(folder, &["--", "python3", "server.py"])
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

/// Waits until the process of the scripted server is gone.
fn server_is_gone(folder: &Path) {
    let pid = Pid::from_raw(fs::read_to_string(folder.join("pid")).unwrap().parse().unwrap());
    let start = Instant::now();
    while signal::kill(pid, None).is_ok() {
        assert!(start.elapsed() < Duration::from_mins(1), "the server runs on");
        std::thread::yield_now();
    }
}

/// Waits for a file that the scripted server creates.
fn appears(file: &Path) {
    let start = Instant::now();
    while !file.exists() {
        assert!(start.elapsed() < Duration::from_mins(1), "{} does not appear", file.display());
        std::thread::yield_now();
    }
}

#[test]
fn a_client_calls_tools_and_closing_the_input_ends_program_and_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::with_server(folder.path());
    assert_eq!(program.open()["result"]["serverInfo"]["name"], "s");
    let tools = program.ask(1, "tools/list", json!({}));
    assert_eq!(tools["result"]["tools"][0]["name"], "echo", "one server keeps its names");
    let called = program.ask(2, "tools/call", json!({ "name": "echo" }));
    assert_eq!(called["result"]["content"][0]["text"], "echoed");
    program.input = None;
    let (code, out, err) = program.end();
    assert_eq!((code, out.as_str()), (Some(0), ""));
    assert!(err.contains("serving one client"), "logs: {err}");
    server_is_gone(folder.path());
    let mut files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["data", "methods", "pid", "server.py"], "the gateway writes into its folder alone");
}

#[test]
fn a_server_that_is_remembered_is_not_asked_for_its_era_again() {
    let folder = tempfile::tempdir().unwrap();
    let methods = folder.path().join("methods");
    fs::write(folder.path().join("server.py"), SERVER).unwrap();
    for is_asked in [true, false] {
        let mut program = Program::start(folder.path(), &["--", "python3", "server.py", "modern"]);
        program.open();
        assert_eq!(program.ask(1, "tools/call", json!({ "name": "echo" }))["result"]["content"][0]["text"], "echoed");
        program.input = None;
        assert_eq!(program.end().0, Some(0));
        let asked = fs::read_to_string(&methods).unwrap();
        assert_eq!(asked.lines().any(|method| method == "initialize"), is_asked, "{asked}");
        fs::remove_file(&methods).unwrap();
    }
    // without a folder it serves as well
    fs::remove_dir_all(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data"), "no folder").unwrap();
    let mut program = Program::with_server(folder.path());
    program.open();
    assert_eq!(program.ask(1, "tools/call", json!({ "name": "echo" }))["result"]["content"][0]["text"], "echoed");
}

#[test]
fn a_modern_client_needs_no_handshake() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::with_server(folder.path());
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
        let folder = tempfile::tempdir().unwrap();
        let mut program = Program::with_server(folder.path());
        program.open();
        program.tell(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "hang" } }));
        appears(&folder.path().join("called"));
        signal::kill(Pid::from_raw(program.child.id().cast_signed()), signal).unwrap();
        let input = program.input.take();
        assert_eq!(program.end().0, Some(0), "{signal}");
        drop(input);
        server_is_gone(folder.path());
    }
}

#[test]
fn killing_it_ends_its_servers() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::with_server(folder.path());
    program.open();
    program.child.kill().unwrap();
    program.child.wait().unwrap();
    server_is_gone(folder.path());
}

#[test]
fn a_client_that_closes_the_output_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::with_server(folder.path());
    program.open();
    drop(program.output.take());
    program.tell(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }));
    assert_eq!(program.child.wait().unwrap().code(), Some(0));
    server_is_gone(folder.path());
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
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "public_url = \"https://mcp.example.com\"\n[stdio]\nrequire_login = true\nupgrade = \"{upgrade}\"\n\
            [servers.s]\ncommand = \"python3\"\nargs = [\"server.py\"]\n"
        );
        fs::write(folder.path().join("lockkeeper.toml"), text).unwrap();
        fs::write(folder.path().join("server.py"), SERVER).unwrap();
        let mut program = Program::start(folder.path(), &[]);
        let expected = json!({ "endpoint": endpoint, "transport": upgrade });
        let opened = program.open();
        assert_eq!((&opened["result"]["capabilities"], &opened["result"]["upgrade"]), (&json!({}), &expected));
        assert_eq!(program.ask(1, "tools/list", json!({}))["error"]["data"]["upgrade"], expected);
        program.input = None;
        assert_eq!(program.end().0, Some(0));
        assert!(!folder.path().join("pid").exists(), "no server was started");
    }
}
