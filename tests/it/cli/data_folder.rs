//! One gateway at a time on a data folder.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use insta::assert_snapshot;

use super::{lockkeeper, shown};

const SERVE: [&str; 5] = ["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"];

/// A gateway as a process. Dropping it kills it.
struct Gateway(Child);

impl Gateway {
    /// Starts it, and waits until it listens.
    fn start(folder: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_lockkeeper"))
            .args(SERVE)
            .current_dir(folder)
            .env_clear()
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !said.contains("is listening") {
            assert!(output.read_line(&mut said).unwrap() > 0, "it ended: {said}");
        }
        Self(child)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_second_gateway_on_a_data_folder_says_so_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let first = Gateway::start(folder.path());
    let second = lockkeeper(folder.path(), &[&SERVE[..], &["--log", "error"]].concat(), &[]);
    let process = first.0.id().to_string();
    assert_snapshot!(shown(folder.path(), &second).replace(&process, "NUMBER"), @r"
    1
    --- out
    --- err
    error: the gateway cannot run
      another gateway uses the data folder FOLDER/data (process NUMBER)
    help: stop the other one, or give this one a folder of its own: `--data-dir DIR`
    ");
    let keys = lockkeeper(folder.path(), &["keys", "list", "--data-dir", "data"], &[]);
    assert_eq!(keys.status.code(), Some(0), "commands read it meanwhile");
    // a kill frees it
    drop(first);
    Gateway::start(folder.path());
}
