//! The gateway as a process of its own.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// A gateway as a process. Dropping it kills it.
pub(super) struct Program {
    child: Child,
    pub(super) url: String,
}

// === impl Program ===

impl Program {
    /// Starts it in this folder, with its data in `data`, and waits until it listens.
    pub(super) fn start(folder: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_lockkeeper"))
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"])
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !said.contains("/mcp") {
            assert!(output.read_line(&mut said).unwrap() > 0, "it ended: {said}");
        }
        let url = said.split_whitespace().find_map(|word| word.strip_suffix("/mcp")).unwrap().to_owned();
        Self { child, url }
    }

    pub(super) fn hang_up(&self) {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGHUP).unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
