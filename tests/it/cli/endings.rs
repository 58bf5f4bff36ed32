//! Commands that end something: the question on a terminal, and the documents.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use super::{lockkeeper, shown};

/// Runs a program on a terminal, and answers the question for a yes with the first word. Prints what the terminal showed.
const TERMINAL: &str = r#"
import os, pty, sys
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[2], sys.argv[2:])
shown, answer = b"", sys.argv[1].encode() + b"\n"
while True:
    try:
        data = os.read(terminal, 4096)
    except OSError:
        break
    if not data:
        break
    shown += data
    if answer and b"[y/N]" in shown:
        os.write(terminal, answer)
        answer = b""
sys.stdout.write(shown.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#;

/// The exit code of a command on a terminal, and what that showed.
pub(super) fn on_terminal(folder: &Path, answer: &str, words: &[&str]) -> (i32, String) {
    fs::write(folder.join("terminal.py"), TERMINAL).unwrap();
    let mut command = Command::new("python3");
    command.args(["terminal.py", answer, env!("CARGO_BIN_EXE_lockkeeper")]).args(words).current_dir(folder);
    command.env_clear().env("HOME", folder).env("XDG_RUNTIME_DIR", folder.join(".run")).env("TERM", "dumb");
    let output = command.env("PATH", "/usr/local/bin:/usr/bin:/bin").output().unwrap();
    (output.status.code().unwrap_or(-1), String::from_utf8(output.stdout).unwrap())
}

fn json(folder: &Path, words: &[&str]) -> Value {
    let words = [words, &["--json", "--data-dir", "data"]].concat();
    let output = lockkeeper(folder, &words, &[]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", shown(folder, &output)))
}

#[test]
fn a_person_on_a_terminal_is_asked_before_something_ends_and_a_script_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for name in ["laptop", "phone", "desk"] {
        json(folder, &["keys", "create", name]);
    }
    let revoke = |key: &'static str| ["keys", "revoke", key, "--data-dir", "data"];
    let (code, said) = on_terminal(folder, "n", &revoke("laptop"));
    assert!(code == 1 && said.contains("Revoke the key ") && said.contains(" (laptop), with every app"), "{said}");
    assert!(said.contains("nothing was changed") && said.contains("it was not confirmed"), "{said}");
    let (code, said) = on_terminal(folder, "y", &revoke("laptop"));
    assert!(code == 0 && said.contains("is revoked"), "{said}");
    let (code, said) = on_terminal(folder, "", &[&revoke("phone")[..], &["--yes"]].concat());
    assert!(code == 0 && !said.contains("[y/N]"), "{said}");
    assert_eq!(json(folder, &["keys", "revoke", "desk"])["state"], "revoked");
    let (code, said) = on_terminal(folder, "y", &revoke("laptop"));
    assert!(code == 1 && !said.contains("[y/N]"), "there is nothing to end: {said}");
}

#[test]
fn what_ends_or_changes_is_told_with_its_state() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let key = json(folder, &["keys", "create", "laptop"]);
    json(folder, &["keys", "create", "phone", "--user", "ann"]);
    let users = json(folder, &["users", "list"]);
    let of_key = users["users"].as_array().unwrap().iter().find(|user| user["key_name"] == "laptop").unwrap();
    let listed = lockkeeper(folder, &["users", "list", "--data-dir", "data"], &[]);
    assert!(String::from_utf8(listed.stdout).unwrap().contains(" (laptop)"));
    // by the name of the key, and by that of the user
    let disabled = json(folder, &["users", "disable", "laptop"]);
    assert_eq!((&disabled["id"], &disabled["state"]), (&of_key["id"], &"disabled".into()));
    assert_eq!(json(folder, &["users", "enable", "ann"])["state"], "enabled");
    assert_eq!(json(folder, &["users", "delete", "ann"])["state"], "deleted");
    let revoked = json(folder, &["keys", "revoke", "laptop"]);
    assert_eq!((&revoked["id"], &revoked["name"]), (&key["id"], &"laptop".into()));
    let grants = json(folder, &["grants", "revoke", "--client", "nobody"]);
    assert_eq!((&grants["state"], &grants["count"]), (&"revoked".into(), &0.into()));
    let signing = json(folder, &["signing-keys", "rotate", "--now"]);
    assert_eq!(json(folder, &["signing-keys", "retire", signing["id"].as_str().unwrap()])["state"], "retired");
    let token = json(folder, &["clients", "initial-access-tokens", "create", "build"]);
    let revoke = ["clients", "initial-access-tokens", "revoke", token["id"].as_str().unwrap()];
    assert_eq!(json(folder, &revoke)["state"], "revoked");
    let invitation = json(folder, &["invite", "bob"]);
    assert_eq!(json(folder, &["invitations", "revoke", invitation["id"].as_str().unwrap()])["state"], "revoked");
    fs::write(folder.join("lockkeeper.toml"), "[servers.demo]\nbuiltin = \"demo\"\n").unwrap();
    let removed = json(folder, &["remove", "demo"]);
    assert_eq!((&removed["id"], &removed["state"]), (&"demo".into(), &"removed".into()));
}
