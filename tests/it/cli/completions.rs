//! Completions for shells: the scripts, and what the program answers them.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use super::{Output, command, lockkeeper, shown};
use crate::kit::gateway::Program;

/// What completes the last of these words after `lockkeeper`, as the script of bash asks.
fn completed(folder: &Path, words: &[&str]) -> Vec<String> {
    let at = words.len().to_string();
    let asked = [&["--", "lockkeeper"], words].concat();
    let variables = [("LOCKKEEPER_COMPLETE", "bash"), ("_CLAP_COMPLETE_INDEX", &at), ("_CLAP_IFS", "\n")];
    let output = lockkeeper(folder, &asked, &variables);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", shown(folder, &output));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// All files below a folder.
fn files(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let each = entries.flat_map(|path| {
        let below = if path.is_dir() { files(&path) } else { BTreeSet::new() };
        below.into_iter().chain([path.display().to_string()])
    });
    each.collect()
}

fn ran(folder: &Path, words: &[&str]) -> Output {
    let output = lockkeeper(folder, words, &[]);
    assert!(output.status.success(), "{}", shown(folder, &output));
    output
}

/// A folder with servers, a group, keys and a user. The file has a variable that is not set.
fn filled() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for name in ["laptop", "a phone", "$(touch ran)"] {
        ran(path, &["keys", "create", name, "--data-dir", "data"]);
    }
    ran(path, &["keys", "create", "desk", "--user", "ann", "--data-dir", "data"]);
    let text = "data_dir = \"data\"\n[servers.docs]\nurl = \"${UNSET_URL}\"\n[servers.git]\nbuiltin = \"demo\"\n\
                [groups.work]\nservers = [\"git\"]\n";
    fs::write(path.join("lockkeeper.toml"), text).unwrap();
    folder
}

#[test]
fn names_are_completed_where_a_command_takes_them() {
    let folder = filled();
    let path = folder.path();
    let before = files(path);
    for words in [["remove", ""], ["restart", ""], ["logs", ""]] {
        assert_eq!(completed(path, &words), ["docs", "git"], "{words:?}");
    }
    assert_eq!(completed(path, &["restart", "g"]), ["git"]);
    assert_eq!(completed(path, &["keys", "create", "x", "--server", "g"]), ["git"]);
    assert_eq!(completed(path, &["invite", "--group", ""]), ["work"]);
    assert_eq!(completed(path, &["client", "cursor", "--server", "w"]), ["work"]);
    for words in [&["users", "disable", ""][..], &["grants", "list", "--user", ""], &["audit", "--user", ""]] {
        let names = completed(path, words);
        assert!(names.iter().any(|name| name == "ann") && names.iter().any(|name| name == "laptop"), "{names:?}");
    }
    assert_eq!(completed(path, &["keys", "create", "x", "--user", ""]), ["ann"]);
    let keys = completed(path, &["keys", "revoke", ""]);
    let ids = keys.iter().filter(|key| key.len() == 10 && key.chars().all(|c| c.is_ascii_alphanumeric()));
    assert!(keys.iter().any(|key| key == "laptop") && ids.count() == 4, "{keys:?}");
    assert!(!keys.iter().any(|key| key.contains(' ') || key.contains('$')), "a shell would run it: {keys:?}");
    assert!(completed(path, &["client", ""]).iter().any(|client| client == "lm-studio"));
    assert_eq!(completed(path, &["signing-keys", "ro"]), ["rotate"]);
    assert_eq!(files(path), before, "nothing is written");

    // named on the line
    let elsewhere = tempfile::tempdir().unwrap();
    let file = path.join("lockkeeper.toml");
    let words = ["--config", file.to_str().unwrap(), "restart", "g"];
    assert_eq!(completed(elsewhere.path(), &words), ["git"]);
}

#[test]
fn completion_is_silent_and_makes_nothing_where_nothing_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let asks = || {
        for words in [["keys", "revoke", ""].as_slice(), &["restart", "x"], &["users", "disable", ""]] {
            let named: Vec<String> = completed(path, words).into_iter().filter(|one| !one.starts_with('-')).collect();
            assert_eq!(named, Vec::<String>::new(), "{words:?}");
        }
    };
    asks();
    assert_eq!(files(path), BTreeSet::new());
    fs::create_dir(path.join("lockkeeper.toml")).unwrap();
    asks();
    fs::remove_dir(path.join("lockkeeper.toml")).unwrap();
    fs::create_dir(path.join("data")).unwrap();
    fs::write(path.join("data/lockkeeper.sqlite3"), "no database").unwrap();
    fs::write(path.join("lockkeeper.toml"), "data_dir = \"data\"\n[servers").unwrap();
    asks();
    assert_eq!(files(path).len(), 3);
}

#[test]
fn the_names_of_a_gateway_that_runs_are_read_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("lockkeeper.toml"), "[servers.git]\nbuiltin = \"demo\"\n").unwrap();
    let _program = Program::start(path);
    let data = path.join("data");
    let data = data.to_str().unwrap();
    ran(path, &["keys", "create", "laptop", "--data-dir", data]);
    // on a busy machine the database takes longer than a person waits, who then presses Tab again
    let is_named = || completed(path, &["keys", "revoke", "--data-dir", data, "l"]).contains(&"laptop".to_owned());
    assert!((0..5).any(|_| is_named()));
}

#[test]
fn the_script_of_bash_asks_the_program() {
    let folder = filled();
    let path = folder.path();
    let script = String::from_utf8(ran(path, &["completions", "bash"]).stdout).unwrap();
    fs::write(path.join("lockkeeper.bash"), script).unwrap();
    let press = "source ./lockkeeper.bash; COMP_WORDS=(lockkeeper restart g); COMP_CWORD=2; \
                 _clap_complete_lockkeeper lockkeeper g restart; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let program = Path::new(env!("CARGO_BIN_EXE_lockkeeper")).parent().unwrap().display().to_string();
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", press]).current_dir(path).env_clear().env("HOME", path);
    bash.env("XDG_RUNTIME_DIR", path.join(".run")).env("PATH", format!("{program}:/usr/local/bin:/usr/bin:/bin"));
    let output = bash.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "git\n", "{}", shown(path, &output));
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let script = String::from_utf8(ran(path, &["completions", shell]).stdout).unwrap();
        assert!(script.contains("LOCKKEEPER_COMPLETE"), "{script}");
    }
    assert_eq!(command(path, &["completions", "tcsh"], &[]).output().unwrap().status.code(), Some(2));
}
