//! The configuration from the command line, and from the values a command reads in its place.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf};

use super::{log::LogFormat, unnamed_files::UnnamedFiles};
use crate::support::Secret;

/// Options of the command line. A field is `None` if the option is absent.
#[derive(Debug, Clone, Default)]
pub struct CommandLineOptions {
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--listen`.
    pub listen: Option<String>,
    /// The address of the listening socket that the service manager passed, which takes the place of any other.
    pub inherited: Option<SocketAddr>,
    /// `--data-dir`.
    pub data_dir: Option<PathBuf>,
    /// `--domain`.
    pub domains: Vec<String>,
    /// `--public-url`.
    pub public_url: Option<String>,
    /// `--log`.
    pub log: Option<String>,
    /// `--log-format`.
    pub log_format: Option<LogFormat>,
    /// A single server.
    pub single: Option<SingleServer>,
    /// The text of the configuration file, instead of what is stored there.
    pub draft: Option<String>,
    /// What a person has answered for `${input:…}`, by name.
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
