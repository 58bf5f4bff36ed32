//! A trial of what a launcher can give up on this machine. It is a process of its own, since nothing of it can be
//! undone.

use std::{
    path::Path,
    process::{Command, ExitCode},
};

use serde::{Deserialize, Serialize};

/// The argument in place of a subcommand.
pub(super) const MARK: &str = "\u{1}try";

/// Means available to a launcher on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchTrial {
    /// The version of Landlock; 0 without it.
    pub landlock: u8,
    /// Why no namespace can be made; `None` if it can.
    pub no_namespace: Option<String>,
}

/// Makes `launcher` try it, and waits: some milliseconds.
pub fn try_out(launcher: &Path) -> LaunchTrial {
    let answer = Command::new(launcher).arg(MARK).env_clear().output();
    let answer = answer.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok());
    answer.unwrap_or_else(|| LaunchTrial {
        landlock: 0,
        no_namespace: Some("the launcher of programs does not answer".to_owned()),
    })
}

/// Tries it in this process, and prints the result.
#[cfg(target_os = "linux")]
pub(super) fn run() -> ExitCode {
    use std::io::Write as _;

    use super::{domain, hiding, rights};

    let _ = rights::drop_capabilities_for_namespace();
    let _ = nix::sys::prctl::set_dumpable(true);
    let no_namespace = hiding::hide(&hiding::trial()).err();
    let trial = LaunchTrial { landlock: domain::version(), no_namespace };
    let text = serde_json::to_string(&trial).unwrap_or_default();
    let told = writeln!(std::io::stdout(), "{text}");
    if told.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn run() -> ExitCode {
    ExitCode::FAILURE
}
