//! Arguments of several commands. Knows nothing of the commands.

use std::path::PathBuf;

use clap::Args;

use super::{failure::CommandFailure, process::ProcessContext};
use crate::{
    config::{self, CommandLineOptions, Config, ConfigSource, Environment, LogFormat},
    model::TransportSpec,
};

/// Configuration file, and options that override it.
#[derive(Debug, Clone, Default, Args)]
pub struct ConfigArgs {
    /// The configuration: lockkeeper.toml, or JSON in the `mcpServers` or `servers` form
    ///
    /// Default: `lockkeeper.toml` in the working directory, if it exists.
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The folder of the database
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Log filter: a level, or directives such as `info,lockkeeper::backend=debug`
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
    /// Log format
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub log_format: Option<LogFormat>,
}

/// Location of the data, for commands that need no other configuration.
#[derive(Debug, Clone, Default, Args)]
pub struct DataArgs {
    /// The configuration, for its `data_dir`
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The folder of the gateway's data
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

/// A single server.
#[derive(Debug, Clone, Default, Args)]
pub struct SingleServerArgs {
    /// Serves only the server at this URL, without name prefixes
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    pub url: Option<String>,
    /// Serves only this program, without name prefixes
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Output format.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct FormatArgs {
    /// Prints JSON
    #[arg(long)]
    pub json: bool,
}

// === impl ConfigArgs ===

impl ConfigArgs {
    /// Options of the command line; the others stay open.
    pub fn given(&self) -> CommandLineOptions {
        let (config, data_dir) = (self.config.clone(), self.data_dir.clone());
        CommandLineOptions {
            config,
            data_dir,
            log: self.log.clone(),
            log_format: self.log_format,
            ..CommandLineOptions::default()
        }
    }
}

// === impl SingleServerArgs ===

impl SingleServerArgs {
    /// The server, if one is given.
    pub fn given(&self) -> Option<config::SingleServer> {
        match (&self.url, self.command.is_empty()) {
            (Some(url), _) => Some(config::SingleServer::Url(url.clone())),
            (None, false) => Some(config::SingleServer::Command(self.command.clone())),
            (None, true) => None,
        }
    }
}

// === impl DataArgs ===

impl DataArgs {
    /// The folder of the gateway's data.
    pub fn folder(&self, process: &ProcessContext) -> Result<PathBuf, CommandFailure> {
        let given = CommandLineOptions {
            config: self.config.clone(),
            data_dir: self.data_dir.clone(),
            ..CommandLineOptions::default()
        };
        Ok(config::data_dir(&given, &process.environment, &process.folder)?)
    }
}

/// Advice about settings that are valid, and perhaps not meant.
pub fn warnings(config: &Config) -> Vec<String> {
    let demonstration = match (&config.source, &config.backends[..]) {
        (ConfigSource::Named(file) | ConfigSource::Adjacent(file), [only])
            if matches!(only.transport, TransportSpec::Demo) =>
        {
            Some(format!("{} has no servers: only the built-in demonstration is served", file.display()))
        }
        _ => None,
    };
    demonstration.into_iter().chain(config.proxy_warning()).collect()
}

/// Loads the configuration and reports every error.
pub fn load(given: &CommandLineOptions, process: &ProcessContext) -> Result<Config, CommandFailure> {
    Ok(config::load(given, &process.environment, &process.folder)?)
}

/// As [`load`], with another environment than that of the process.
pub fn load_with(
    given: &CommandLineOptions,
    environment: &Environment,
    process: &ProcessContext,
) -> Result<Config, CommandFailure> {
    Ok(config::load(given, environment, &process.folder)?)
}
