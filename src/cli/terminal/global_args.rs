//! Options of every command, given before or after its name.

use std::{collections::BTreeMap, path::PathBuf};

use clap::Args;

use crate::{
    config::{CommandLineOptions, LogFormat, UnnamedFiles, log},
    support::Secret,
};

/// Configuration file, and options that override it: before or after every command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// The configuration: lockkeeper.toml, or the file in which another program lists its servers; default:
    /// the running gateway's, for commands that ask or change one; else the first of `./lockkeeper.toml`,
    /// `~/.config/lockkeeper/lockkeeper.toml` and `/etc/lockkeeper/lockkeeper.toml`
    #[arg(long, short, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// The folder of the data; default: the running gateway's, else what the file says, else the user's data folder
    #[arg(long, value_name = "DIR", global = true)]
    pub data_dir: Option<PathBuf>,
    /// Log filter: a level, or directives such as `info,lockkeeper::backend=debug`
    #[arg(long, value_name = "FILTER", value_parser = log::filter, global = true)]
    pub log: Option<String>,
    /// Log format: `text` for people, or `json` with one object per line
    #[arg(long, value_name = "FORMAT", value_enum, hide_possible_values = true, global = true)]
    pub log_format: Option<LogFormat>,
    /// The person's answers for `${input:…}`, by name.
    #[arg(skip)]
    pub inputs: BTreeMap<String, Secret>,
    /// The files that are read without being named.
    #[arg(skip)]
    pub unnamed: UnnamedFiles,
}

// === impl GlobalArgs ===

impl GlobalArgs {
    /// These options as part of the command line's; the others keep their defaults.
    pub fn given(&self) -> CommandLineOptions {
        let (config, data_dir) = (self.config.clone(), self.data_dir.clone());
        CommandLineOptions {
            config,
            data_dir,
            log: self.log.clone(),
            log_format: self.log_format,
            inputs: self.inputs.clone(),
            unnamed: self.unnamed,
            ..CommandLineOptions::default()
        }
    }

    /// The options that lead to the data, as a person types them, each with a leading space.
    pub fn as_text(&self) -> String {
        let option = |name: &str, path: &Option<PathBuf>| {
            path.as_ref().map(|path| format!(" --{name} {}", path.display())).unwrap_or_default()
        };
        option("config", &self.config) + &option("data-dir", &self.data_dir)
    }
}
