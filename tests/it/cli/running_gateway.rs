//! Commands find the gateway that runs on this machine, from whatever folder.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink},
    path::{Path, PathBuf},
    process::{Child, Output, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use tempfile::TempDir;

use super::command;

const DEMO: &str = "[servers.demo]\nbuiltin = \"demo\"\n";

/// A machine with a user's runtime folder.
struct Machine(TempDir);

/// A gateway as a process. Dropping it kills it.
struct Gateway(Child);

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("run")).unwrap();
        fs::set_permissions(folder.path().join("run"), fs::Permissions::from_mode(0o700)).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A folder with this configuration file.
    fn folder(&self, name: &str, file: Option<&str>) -> PathBuf {
        let folder = self.path(name);
        fs::create_dir_all(&folder).unwrap();
        if let Some(text) = file {
            fs::write(folder.join("lockkeeper.toml"), text).unwrap();
        }
        folder
    }

    fn command(&self, folder: &Path, arguments: &[&str]) -> std::process::Command {
        let (home, run) = (self.path("home"), self.path("run"));
        let mut command = command(folder, arguments, &[]);
        command.env("HOME", home).env("XDG_RUNTIME_DIR", run);
        command
    }

    fn run(&self, folder: &Path, arguments: &[&str]) -> Output {
        self.command(folder, arguments).output().unwrap()
    }

    /// The exit code, and everything that was said.
    fn said(&self, folder: &Path, arguments: &[&str]) -> (i32, String) {
        let output = self.run(folder, arguments);
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8(text).unwrap())
    }

    fn start(&self, folder: &Path, arguments: &[&str]) -> Gateway {
        let serve = [&["serve", "--listen", "127.0.0.1:0"], arguments].concat();
        let mut child = self.command(folder, &serve).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !said.contains("is listening") {
            assert!(output.read_line(&mut said).unwrap() > 0, "it ended: {said}");
        }
        Gateway(child)
    }

    fn records(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("run/lockkeeper")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// The names of the keys in a data folder.
    fn keys(&self, data: &Path) -> Vec<String> {
        let output = self.run(self.0.path(), &["keys", "list", "--json", "--data-dir", data.to_str().unwrap()]);
        let keys: Value = serde_json::from_slice(&output.stdout).unwrap();
        keys["keys"].as_array().unwrap().iter().map(|key| key["name"].as_str().unwrap().to_owned()).collect()
    }
}

impl Gateway {
    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// Ends it in order.
    fn stop(mut self) {
        kill(Pid::from_raw(self.0.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_command_in_another_folder_changes_the_gateway_that_runs() {
    let machine = Machine::new();
    let (own, other) = (machine.folder("own", Some(DEMO)), machine.folder("other", None));
    let gateway = machine.start(&own, &["--data-dir", "data"]);

    let (code, said) = machine.said(&other, &["add", "docs", "http://127.0.0.1:1/mcp", "--no-check"]);
    let file = own.join("lockkeeper.toml");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains(&format!("file: {}", file.display())), "{said}");
    assert!(said.contains("the running gateway picks it up"), "{said}");
    assert!(fs::read_to_string(&file).unwrap().contains("[servers.docs]"));

    let (code, said) = machine.said(&other, &["keys", "create", "laptop"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains(&format!("data: {}", own.join("data").display())), "{said}");
    assert_eq!(machine.keys(&own.join("data")), ["laptop"]);

    let (code, said) = machine.said(&other, &["status"]);
    assert_eq!(code, 0, "{said}");
    for shown in [&format!("process {}, up ", gateway.pid()), text(&file), text(&own.join("data"))] {
        assert!(said.contains(shown), "{said}");
    }
    let (_, said) = machine.said(&other, &["list"]);
    assert!(said.contains("docs") && said.contains(text(&file)), "{said}");
    let (code, said) = machine.said(&other, &["remove", "docs"]);
    assert!(code == 0 && said.contains("the running gateway ends it"), "{said}");
    assert!(fs::read_dir(&other).unwrap().next().is_none() && !machine.path("home").exists());
    gateway.stop();
    assert_eq!(machine.records(), Vec::<PathBuf>::new());
}

#[test]
fn a_change_is_refused_where_the_file_of_the_folder_is_another() {
    let machine = Machine::new();
    let (own, other) = (machine.folder("own", Some(DEMO)), machine.folder("other", Some(DEMO)));
    let _gateway = machine.start(&own, &["--data-dir", "data"]);
    let (file, adjacent) = (own.join("lockkeeper.toml"), other.join("lockkeeper.toml"));
    for arguments in [
        &["add", "docs", "http://127.0.0.1:1/mcp", "--no-check"][..],
        &["remove", "demo"],
        &["keys", "create", "laptop"],
        &["invite", "ann"],
    ] {
        let (code, said) = machine.said(&other, arguments);
        assert!(code == 2 && said.contains(text(&file)) && said.contains(text(&adjacent)), "{code} {said}");
    }
    assert_eq!(
        (fs::read_to_string(&file).unwrap(), fs::read_to_string(&adjacent).unwrap()),
        (DEMO.into(), DEMO.into())
    );
    let (code, said) = machine.said(&other, &["status"]);
    assert!(code == 0 && said.contains("and not the lockkeeper.toml in this folder"), "{said}");
    // either is meant if it is named
    for named in [&adjacent, &file] {
        let add = ["add", "docs", "http://127.0.0.1:1/mcp", "--no-check", "--config", text(named)];
        let (code, said) = machine.said(&other, &add);
        assert_eq!((code, said.contains("picks it up")), (0, *named == file), "{said}");
    }
    // and what runs on a folder is meant if that is named
    let (code, said) = machine.said(&other, &["keys", "create", "laptop", "--data-dir", text(&own.join("data"))]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn of_several_gateways_the_one_of_this_folder_is_meant() {
    let machine = Machine::new();
    let folders = ["one", "two"].map(|name| machine.folder(name, Some(DEMO)));
    let gateways = folders.each_ref().map(|folder| machine.start(folder, &["--data-dir", "data"]));
    for folder in &folders {
        let (code, said) = machine.said(folder, &["keys", "create", "laptop"]);
        assert!(code == 0 && said.contains(text(&folder.join("data"))), "{said}");
        assert_eq!(machine.keys(&folder.join("data")), ["laptop"]);
    }
    let nowhere = machine.folder("nowhere", None);
    for arguments in [&["keys", "create", "x"][..], &["status"], &["add", "x", "http://127.0.0.1:1/mcp"]] {
        let (code, said) = machine.said(&nowhere, arguments);
        assert!(code == 2 && said.contains("several gateways run"), "{said}");
        assert!(gateways.iter().all(|gateway| said.contains(&format!("process {} ", gateway.pid()))), "{said}");
    }
    let (code, said) = machine.said(&nowhere, &["status", "--config", text(&folders[1].join("lockkeeper.toml"))]);
    assert!(code == 0 && said.contains(&format!("process {}, ", gateways[1].pid())), "{said}");
}

#[test]
fn the_record_of_a_gateway_that_was_killed_is_not_believed() {
    let machine = Machine::new();
    let (own, other) = (machine.folder("own", Some(DEMO)), machine.folder("other", None));
    drop(machine.start(&own, &["--data-dir", "data"]));
    let left = machine.records();
    assert_eq!((left.len(), fs::metadata(&left[0]).unwrap().mode() & 0o777), (1, 0o600));
    let (code, said) = machine.said(&other, &["status"]);
    assert!(code == 1 && said.contains("no running gateway found"), "{said}");

    // another gateway on the folder, of another file, is not taken for it
    let killed = fs::read(&left[0]).unwrap();
    let third = machine.folder("third", Some(DEMO));
    let gateway = machine.start(&third, &["--data-dir", text(&own.join("data"))]);
    assert_eq!(machine.records(), left);
    fs::write(&left[0], killed).unwrap();
    let (code, said) = machine.said(&other, &["status"]);
    assert!(code == 1 && said.contains("no running gateway found"), "{said}");
    gateway.stop();

    // the next one on any folder removes what another has left
    drop(machine.start(&own, &["--data-dir", "data"]));
    let gateway = machine.start(&third, &["--data-dir", "data"]);
    assert_eq!(machine.records().len(), 1);
    // its folder is removed meanwhile
    fs::remove_dir_all(third.join("data")).unwrap();
    let (code, said) = machine.said(&other, &["status"]);
    assert!(code == 1 && said.contains("no running gateway found"), "{said}");
    drop(gateway);
}

#[test]
fn a_record_that_others_could_have_written_is_not_believed() {
    let machine = Machine::new();
    let (own, other) = (machine.folder("own", Some(DEMO)), machine.folder("other", None));
    let _gateway = machine.start(&own, &["--data-dir", "data"]);
    let (folder, record) = (machine.path("run/lockkeeper"), machine.records().remove(0));
    let is_found = || machine.run(&other, &["status"]).status.code() == Some(0);
    let mode = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    assert!(is_found());
    for (path, wrong, right) in [(&record, 0o620, 0o600), (&folder, 0o770, 0o700), (&machine.path("run"), 0o777, 0o700)]
    {
        mode(path, wrong);
        assert!(!is_found(), "{}", path.display());
        mode(path, right);
        assert!(is_found());
    }
    let moved = machine.path("moved.json");
    fs::rename(&record, &moved).unwrap();
    symlink(&moved, &record).unwrap();
    assert!(!is_found());
    fs::remove_file(&record).unwrap();
    fs::rename(&moved, &record).unwrap();
    let elsewhere = machine.path("elsewhere");
    fs::rename(&folder, &elsewhere).unwrap();
    symlink(&elsewhere, &folder).unwrap();
    assert!(!is_found());
}

#[test]
fn the_gateway_of_another_user_is_named_and_not_followed() {
    if !fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0) {
        return;
    }
    let machine = Machine::new();
    let (own, other) = (machine.folder("own", Some(DEMO)), machine.folder("other", None));
    let _gateway = machine.start(&own, &["--data-dir", "data"]);
    let (folder, record) = (machine.path("run/lockkeeper"), machine.records().remove(0));
    chown(&record, Some(65534), None).unwrap();
    assert_eq!(machine.run(&other, &["status"]).status.code(), Some(1));
    chown(&folder, Some(65534), None).unwrap();
    for arguments in [&["keys", "create", "laptop"][..], &["status"]] {
        let (code, said) = machine.said(&other, arguments);
        assert!(code == 1 && said.contains("a gateway runs as the user ") && said.contains("sudo -u "), "{said}");
        assert!(said.contains(text(&folder)) && !said.contains(text(&own)), "{said}");
    }
    assert!(machine.keys(&own.join("data")).is_empty());
}

#[test]
fn the_database_is_that_of_the_gateway() {
    let machine = Machine::new();
    let other = machine.folder("other", None);
    let file = format!("database = \"sqlite:elsewhere.sqlite3\"\n{DEMO}");
    let own = machine.folder("own", Some(&file));
    let data = own.join("data");
    let create = |arguments: &[&str]| {
        machine.said(&other, &[&["keys", "create", "laptop", "--data-dir", text(&data)], arguments].concat())
    };
    let gateway = machine.start(&own, &["--data-dir", "data"]);
    let (code, said) = create(&[]);
    assert!(code == 0 && said.contains("data: ") && said.contains("elsewhere.sqlite3"), "{said}");
    assert!(!data.join("lockkeeper.sqlite3").exists());
    // another file with another database
    let wrong = machine.folder("wrong", Some(DEMO));
    let (code, said) = create(&["--config", text(&wrong.join("lockkeeper.toml"))]);
    assert!(code == 2 && said.contains("uses sqlite:") && said.contains("--config"), "{said}");
    gateway.stop();
    // nobody tells which file it was, and none is made
    let (code, said) = create(&[]);
    assert!(code == 2 && said.contains("the gateway that ran there last"), "{said}");
    assert!(said.contains(&format!("--config {}", own.join("lockkeeper.toml").display())), "{said}");
    assert!(!data.join("lockkeeper.sqlite3").exists());
    assert_eq!(create(&["--config", text(&own.join("lockkeeper.toml"))]).0, 0);
}

#[test]
fn a_gateway_without_a_file_has_its_data_changed_and_no_file_written() {
    let machine = Machine::new();
    let (own, other) = (machine.folder("own", None), machine.folder("other", None));
    let single = ["--data-dir", "data", "--url", "http://127.0.0.1:1/mcp"];
    let gateway = machine.start(&own, &single);
    let (code, said) = machine.said(&other, &["keys", "create", "laptop"]);
    assert_eq!(code, 0, "{said}");
    let (code, said) = machine.said(&other, &["add", "docs", "http://127.0.0.1:1/mcp", "--no-check"]);
    assert!(code == 2 && said.contains("reads no configuration file"), "{said}");
    gateway.stop();
    // a demonstration takes over the file that it would read
    let _gateway = machine.start(&own, &["--data-dir", "data"]);
    let (code, said) = machine.said(&other, &["add", "docs", "http://127.0.0.1:1/mcp", "--no-check"]);
    assert!(code == 0 && said.contains("picks it up") && own.join("lockkeeper.toml").exists(), "{said}");
}

#[test]
fn nothing_is_created_unless_the_folder_is_named() {
    let machine = Machine::new();
    let (own, other) = (machine.folder("own", Some(DEMO)), machine.folder("other", None));
    for folder in [&own, &other] {
        for arguments in [&["keys", "create", "laptop"][..], &["invite", "ann"], &["clients", "create", "ci"]] {
            let (code, said) = machine.said(folder, arguments);
            assert!(code == 1 && said.contains("there is no gateway data in"), "{code} {said}");
        }
    }
    assert!(!machine.path("home").exists());
    let (code, said) = machine.said(&other, &["keys", "create", "laptop", "--data-dir", "data"]);
    assert!(code == 0 && said.contains(&format!("new data: {}", other.join("data").display())), "{said}");
    // these never do
    let (code, said) = machine.said(&own, &["clients", "create", "ci", "--data-dir", "data"]);
    assert!(code == 1 && !own.join("data").exists(), "{said}");
}

#[test]
fn files_that_are_not_named_are_found_in_order_and_a_folder_is_refused() {
    let machine = Machine::new();
    let folder = machine.folder("here", None);
    let usual = machine.folder("home/.config/lockkeeper", Some("[servers.usual]\nbuiltin = \"demo\"\n"));
    let listed = || machine.said(&folder, &["list"]);
    let (code, said) = listed();
    assert!(code == 0 && said.contains("usual") && said.contains(text(&usual)), "{said}");
    fs::write(folder.join("lockkeeper.toml"), "[servers.here]\nbuiltin = \"demo\"\n").unwrap();
    assert!(listed().1.contains("here"));
    // Docker makes it where a file to mount is missing
    fs::remove_file(folder.join("lockkeeper.toml")).unwrap();
    fs::create_dir(folder.join("lockkeeper.toml")).unwrap();
    for arguments in [&["list"][..], &["check"], &["serve", "--listen", "127.0.0.1:0"], &["add", "x", "--", "sh"]] {
        let (code, said) = machine.said(&folder, arguments);
        assert!(code == 2 && said.contains("lockkeeper.toml") && said.contains("folder"), "{code} {said}");
    }
}

#[test]
fn a_master_key_that_is_gone_is_not_replaced() {
    let machine = Machine::new();
    let folder = machine.folder("here", None);
    let key = folder.join("data/master.key");
    assert_eq!(machine.said(&folder, &["keys", "create", "laptop", "--data-dir", "data"]).0, 0);
    fs::remove_file(&key).unwrap();
    for arguments in [
        &["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--log", "error"][..],
        &["keys", "create", "phone", "--data-dir", "data"],
        &["master-key", "rotate", "--data-dir", "data"],
    ] {
        let (code, said) = machine.said(&folder, arguments);
        assert!(said.contains("the master key is missing") && said.contains(text(&key)), "{code} {said}");
        assert!(code != 0 && !key.exists());
    }
    fs::create_dir(&key).unwrap();
    let (code, said) =
        machine.said(&folder, &["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--log", "error"]);
    assert!(code == 2 && said.contains("is a folder") && said.contains(text(&key)), "{code} {said}");
}
