//! Arguments that several commands share, and the configuration and data that they lead to.

pub(super) mod values;

use std::path::{Path, PathBuf};

use clap::Args;

use super::terminal::{failure::CommandFailure, process::ProcessContext};
use crate::{
    config::{self, CommandLineOptions, Config, DataPlaces, Environment, secret_argument, text_of},
    fetch::tls,
    model::NetworkSpec,
};

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

/// The gateway's data folder, database and master key.
pub fn data_places(process: &ProcessContext) -> Result<DataPlaces, CommandFailure> {
    Ok(config::data_places(&process.options.given(), &process.environment, &process.folder)?)
}

/// The gateway's data folder. The configuration file is not read if an option or variable names the folder.
pub fn data_folder(process: &ProcessContext) -> Result<PathBuf, CommandFailure> {
    Ok(config::data_folder(&process.options.given(), &process.environment, &process.folder)?)
}

/// Warnings about settings that are valid, but perhaps not intended.
pub fn warnings(config: &Config) -> Vec<String> {
    let arguments = config.backends.iter().filter_map(secret_argument);
    config
        .no_servers()
        .into_iter()
        .chain(config.proxy_warning())
        .chain(config.renamings())
        .chain(config.without_effect())
        .chain(arguments)
        .collect()
}

/// Loads the configuration and reports every error.
pub fn load(given: &CommandLineOptions, process: &ProcessContext) -> Result<Config, CommandFailure> {
    Ok(config::load(given, &process.environment, &process.folder)?)
}

/// Like [`load`], with another environment than the process's.
pub fn load_with(
    given: &CommandLineOptions,
    environment: &Environment,
    process: &ProcessContext,
) -> Result<Config, CommandFailure> {
    Ok(config::load(given, environment, &process.folder)?)
}

/// Network settings that also trust the certificate authorities in the file of `--ca-file`.
pub(super) fn network_with_ca_file(
    file: Option<&Path>,
    process: &ProcessContext,
) -> Result<NetworkSpec, CommandFailure> {
    let Some(file) = file else { return Ok(NetworkSpec::default()) };
    let wrong = |why: &dyn std::fmt::Display| {
        CommandFailure::usage(format!("{} cannot be used as `--ca-file`", file.display())).why(why)
    };
    let unread = |error| CommandFailure::failed(format!("{} cannot be read", file.display())).why(error);
    let pem = text_of(&process.folder.join(file)).map_err(unread)?;
    if !pem.contains("-----BEGIN CERTIFICATE-----") {
        return Err(wrong(&"it has no certificate in PEM"));
    }
    let network = NetworkSpec { authorities: Some(pem), ..NetworkSpec::default() };
    tls::client_config(&network).map_err(|error| wrong(&error))?;
    Ok(network)
}
