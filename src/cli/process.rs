//! Process context of a command. Knows no command.

use std::path::PathBuf;

use super::{global_args::GlobalArgs, output::Output};
use crate::config::Environment;

/// The relation of a command to a gateway.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CommandPurpose {
    /// It has nothing to do with a gateway that runs, or is one.
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
    /// This program, with its path.
    pub program: PathBuf,
    /// Options of every command.
    pub options: GlobalArgs,
    /// What the command is for.
    pub purpose: CommandPurpose,
    /// The person has said where the data is, or the environment has.
    pub is_data_dir_named: bool,
    /// Output.
    pub output: Output,
}

// === impl ProcessContext ===

impl ProcessContext {
    /// This process.
    pub fn system() -> Self {
        let environment = Environment::system().with_launcher(launcher());
        let output = Output::system(&environment);
        let folder = std::env::current_dir().unwrap_or_default();
        let program = std::env::current_exe().unwrap_or_else(|_| "lockkeeper".into());
        let (options, purpose) = (GlobalArgs::default(), CommandPurpose::default());
        Self { environment, folder, program, options, purpose, is_data_dir_named: false, output }
    }
}

/// This program as the launcher of programs, also after its file was replaced; `None` where the kernel cannot end them with it.
fn launcher() -> Option<PathBuf> {
    let itself = PathBuf::from("/proc/self/exe");
    (cfg!(target_os = "linux") && itself.exists()).then_some(itself)
}
