//! The surroundings of a command. Knows no command.

use std::path::PathBuf;

use super::output::Output;
use crate::config::Environment;

/// The surroundings of a command: given, so that tests give their own.
#[derive(Debug)]
pub struct Process {
    /// The environment variables.
    pub environment: Environment,
    /// The working directory.
    pub folder: PathBuf,
    /// Where it prints.
    pub output: Output,
}

// === impl Process ===

impl Process {
    /// This process.
    pub fn system() -> Self {
        let environment = Environment::system();
        let output = Output::system(&environment);
        Self { environment, folder: std::env::current_dir().unwrap_or_default(), output }
    }
}
