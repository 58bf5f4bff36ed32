//! The context of a command: its process, and its relation to a running gateway.

use std::path::PathBuf;

use super::{global_args::GlobalArgs, output::Output};
use crate::config::Environment;

/// The relation of a command to a gateway.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CommandPurpose {
    /// It needs no running gateway, or is one itself.
    #[default]
    Unrelated,
    Asks,
    ChangesData,
    /// It changes the configuration file.
    ChangesFile,
}

/// Process context of a command, injected so that tests can replace it.
#[derive(Debug)]
pub struct ProcessContext {
    /// The environment variables.
    pub environment: Environment,
    /// The working directory.
    pub folder: PathBuf,
    /// The path of this program.
    pub program: PathBuf,
    /// Options of every command.
    pub options: GlobalArgs,
    /// The command's relation to the running gateway.
    pub purpose: CommandPurpose,
    /// True if an option or the environment names the data folder.
    pub is_data_dir_named: bool,
    /// Output.
    pub output: Output,
}

// === impl ProcessContext ===

impl ProcessContext {
    /// The context of this process.
    pub fn system() -> Self {
        let environment = Environment::system().with_launcher(launcher());
        let output = Output::system(&environment);
        let folder = std::env::current_dir().unwrap_or_default();
        let program = std::env::current_exe().unwrap_or_else(|_| "lockkeeper".into());
        let (options, purpose) = (GlobalArgs::default(), CommandPurpose::default());
        Self { environment, folder, program, options, purpose, is_data_dir_named: false, output }
    }

    /// The name of the operating system's user who runs the command, for the audit trail; under `sudo` also the name of
    /// the user who called it.
    pub(in crate::cli) fn operator(&self) -> String {
        let own = user_name(&self.environment);
        match self.environment.get("SUDO_USER").filter(|by| !by.is_empty() && *by != own) {
            Some(by) => format!("{own} (sudo by {by})"),
            None => own,
        }
    }
}

#[cfg(unix)]
fn user_name(_environment: &Environment) -> String {
    let id = nix::unistd::getuid();
    let known = nix::unistd::User::from_uid(id).ok().flatten();
    known.map_or_else(|| format!("uid {id}"), |user| user.name)
}

#[cfg(not(unix))]
fn user_name(environment: &Environment) -> String {
    environment.get("USERNAME").unwrap_or("unknown").to_owned()
}

/// The path of this program as the launcher of servers, valid even after the file was replaced; `None` where the kernel
/// cannot end the servers with it.
fn launcher() -> Option<PathBuf> {
    let itself = PathBuf::from("/proc/self/exe");
    (cfg!(target_os = "linux") && itself.exists()).then_some(itself)
}
