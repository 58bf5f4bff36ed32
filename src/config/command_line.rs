//! The configuration from the command line, and from the values a command reads in its place.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf};

use super::{log::LogFormat, unnamed_files::UnnamedFiles};
use crate::support::Secret;

/// Options of the command line. A field is `None` if the option is absent.
#[derive(Debug, Clone, Default)]
pub struct CommandLineOptions {
    pub config: Option<PathBuf>,
    pub listen: Option<String>,
    /// The address of the listening socket passed by the service manager, which replaces any other.
    pub inherited: Option<SocketAddr>,
    pub data_dir: Option<PathBuf>,
    pub domains: Vec<String>,
    pub public_url: Option<String>,
    pub log: Option<String>,
    pub log_format: Option<LogFormat>,
    /// A single server.
    pub single: Option<SingleServer>,
    /// The text of the configuration file, in place of the stored one.
    pub draft: Option<String>,
    /// A person's answers for `${input:…}`, by name.
    pub inputs: BTreeMap<String, Secret>,
    /// The files that are read without being named.
    pub unnamed: UnnamedFiles,
}

/// A single server from the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SingleServer {
    /// Command after `--`; not empty.
    Command(Vec<String>),
    Url(String),
}
