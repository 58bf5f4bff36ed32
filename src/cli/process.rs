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
}

/// The path of this program as the launcher of servers, valid even after the file was replaced; `None` where the kernel
/// cannot end the servers with it.
fn launcher() -> Option<PathBuf> {
    let itself = PathBuf::from("/proc/self/exe");
    (cfg!(target_os = "linux") && itself.exists()).then_some(itself)
}
