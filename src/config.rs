//! The configuration: read once, checked as a whole, every error reported with its place.
//!
//! A file (`lockkeeper.toml`, or that of another program) becomes a tree of values with their places ([`mod@tree`]);
//! each section reads its table from there and reports errors ([`ConfigProblems`]). The command line and `LOCKKEEPER_*`
//! variables override the file. Secrets are never printed: no message quotes a value that may contain one.
//!
//! To add a scalar key: an entry of [`config_keys`](crate::model::config_key) in the file of its values. A key that
//! needs a reader of its own has its row next to that reader (`key_rows`). A test writes both into
//! `lockkeeper.example.toml`, `lockkeeper.schema.json` and `docs/configuration.md` (`UPDATE=1`).

pub mod auth;
pub mod backend;
mod client_entry;
mod client_file;
pub mod clients;
mod command_line;
mod configuration;
mod database;
mod dialect;
mod disclosure;
mod env_file;
pub mod environment;
pub mod expand;
mod file_format;
mod file_options;
pub mod files;
mod former_names;
pub mod from_json;
pub mod from_toml;
pub mod from_yaml;
mod groups;
mod header;
pub mod http;
mod imported_file;
pub mod inputs;
pub mod key_tables;
mod keys;
mod limits;
pub mod load;
pub mod log;
mod login;
mod network;
pub mod problem;
pub mod programs;
pub mod public_url;
pub mod replica;
pub mod section;
mod server_auth;
pub mod stdio;
mod text_file;
pub mod tls;
mod tool_rules;
mod transport;
pub mod tree;
pub mod units;
mod unnamed_files;

pub use self::{
    clients::ClientsConfig,
    command_line::{CommandLineOptions, SingleServer},
    configuration::{Config, ConfigSource, DEFAULT_LISTEN},
    database::{DatabasePlace, DatabaseUrl, MasterKeyPlace},
    environment::Environment,
    former_names::former_name,
    http::HttpConfig,
    imported_file::{ImportedFile, ImportedInput, ImportedKey, ImportedServer},
    inputs::{InputKind, OpenInput},
    load::{DataPlaces, data_folder, data_places, is_of_another_program, load, open_inputs, source},
    log::{LogConfig, LogFormat},
    login::parse_issuer,
    problem::{ConfigPlace, ConfigProblem, ConfigProblems},
    programs::secret_argument,
    public_url::PublicUrl,
    text_file::text_of,
    unnamed_files::UnnamedFiles,
};
