//! Values that the file of another program leaves open, asked for on a terminal.

use std::{fs, process::Command};

use lockkeeper::mcp::Revision;
use serde_json::json;

use super::lockkeeper;
use crate::kit::{
    programs::ProgramServer,
    scripted::{Script, ScriptedServer},
};

/// The file of an editor, with a server that tells its environment.
const FILE: &str = r#"{
  "inputs": [
    { "id": "key", "type": "promptString", "description": "The key", "password": true },
    { "id": "level", "type": "pickString", "description": "Level", "options": ["low", "high"], "default": "low" },
    { "id": "unused", "type": "promptString", "description": "Nobody needs this" }
  ],
  "servers": {
    "one": { "command": "sh", "args": ["server.sh", "${input:key}"], "env": { "KEY": "${input:key}", "LEVEL": "${input:level}" } }
  }
}"#;

/// Runs a program on a terminal, and answers each question. Prints what the terminal showed.
const TERMINAL: &str = r#"
import os, pty, sys
answers = [(b"The key: ", b"s3cret\n"), (b"Level [low] (low, high): ", b"other\n"), (b"must be one of low, high", b"high\n")]
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
shown = b""
while True:
    try:
        data = os.read(terminal, 4096)
    except OSError:
        break
    if not data:
        break
    shown += data
    while answers and answers[0][0] in shown:
        os.write(terminal, answers.pop(0)[1])
sys.stdout.write(shown.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#;

#[test]
fn a_person_is_asked_for_each_value_that_is_needed_once() {
    let folder = tempfile::tempdir().unwrap();
    let told = "told {/process/environment/KEY} {/process/environment/LEVEL} {/process/arguments/0}";
    let script = Script::named("s").hidden("say", json!([["text", told]]));
    let server = ProgramServer::in_background(ScriptedServer::scripted(Revision::NEWEST_LEGACY, script));
    for (name, text) in [("mcp.json", FILE), ("server.sh", &*server.script()), ("terminal.py", TERMINAL)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let output = Command::new("python3")
        .args(["terminal.py", env!("CARGO_BIN_EXE_lockkeeper")])
        .args(["tools", "call", "one__say", "--config", "mcp.json"])
        .current_dir(folder.path())
        .env_clear()
        .env("HOME", folder.path())
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .output()
        .unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && shown.contains("told s3cret high s3cret"), "{shown}");
    assert!(shown.matches("The key").count() == 1 && !shown.contains("Nobody"), "{shown}");
}

#[test]
fn without_a_terminal_the_missing_value_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mcp.json"), FILE).unwrap();
    let output = lockkeeper(folder.path(), &["list", "--config", "mcp.json"], &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("`${input:key}` needs a person to answer"), "{said}");
}
