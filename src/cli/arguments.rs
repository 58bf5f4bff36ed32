//! The arguments that several commands take. Knows nothing of what they do with them.

use std::path::PathBuf;

use clap::Args;

use super::{failure::Failure, process::Process};
use crate::config::{self, Config, Given, LogFormat};

/// Where the configuration is, and what counts before it.
#[derive(Debug, Clone, Default, Args)]
pub struct Configuration {
    /// The configuration: lockkeeper.toml, or JSON in the `mcpServers` or `servers` form
    ///
    /// Where it is not given, `lockkeeper.toml` in the working directory is used if it is there.
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The folder of the database
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// What is logged: a level, or directives such as `info,lockkeeper::backend=debug`
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
    /// How it is logged
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub log_format: Option<LogFormat>,
}

/// Where the data is: for commands that need nothing else of the configuration.
#[derive(Debug, Clone, Default, Args)]
pub struct Data {
    /// The configuration, for its `data_dir`
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The folder of the gateway's data
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

/// One server alone.
#[derive(Debug, Clone, Default, Args)]
pub struct Single {
    /// This Streamable HTTP server alone, its names as they are
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    pub url: Option<String>,
    /// This program alone, its names as they are
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// How a result is printed.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Form {
    /// Prints JSON
    #[arg(long)]
    pub json: bool,
}

// === impl Configuration ===

impl Configuration {
    /// What is said here; the rest is left open.
    pub fn given(&self) -> Given {
        let (config, data_dir) = (self.config.clone(), self.data_dir.clone());
        Given { config, data_dir, log: self.log.clone(), log_format: self.log_format, ..Given::default() }
    }
}

// === impl Single ===

impl Single {
    /// The server, where one is given.
    pub fn given(&self) -> Option<config::Single> {
        match (&self.url, self.command.is_empty()) {
            (Some(url), _) => Some(config::Single::Url(url.clone())),
            (None, false) => Some(config::Single::Command(self.command.clone())),
            (None, true) => None,
        }
    }
}

// === impl Data ===

impl Data {
    /// The folder of the gateway's data.
    pub fn folder(&self, process: &Process) -> Result<PathBuf, Failure> {
        let given = Given { config: self.config.clone(), data_dir: self.data_dir.clone(), ..Given::default() };
        Ok(config::data_dir(&given, &process.environment, &process.folder)?)
    }
}

/// Loads the configuration, every mistake told.
pub fn load(given: &Given, process: &Process) -> Result<Config, Failure> {
    Ok(config::load(given, &process.environment, &process.folder)?)
}
