//! The configuration: read once, checked whole, every error reported with its place. Knows nothing of running parts.
//!
//! A file (`lockkeeper.toml`, or JSON in the `mcpServers` or `servers` form) becomes a tree of values with their places
//! ([`mod@tree`]); each section reads its table from there and notes what is wrong ([`Problems`]); what is said on the
//! command line or in `LOCKKEEPER_*` variables goes before the file. Secrets are never printed: no message quotes a
//! value that may hold one.
//!
//! To add an option: a field and its line in the file of its section, and a line each in `lockkeeper.example.toml`,
//! `lockkeeper.schema.json` and `docs/configuration.md`.

pub mod auth;
pub mod backend;
pub mod clients;
mod configuration;
pub mod environment;
pub mod expand;
pub mod files;
pub mod from_json;
pub mod from_toml;
pub mod http;
pub mod limits;
pub mod load;
pub mod log;
pub mod problem;
pub mod public_url;
pub mod section;
pub mod tree;
pub mod units;

pub use self::{
    clients::Clients,
    configuration::{Config, DEFAULT_LISTEN, Source},
    environment::Environment,
    http::Http,
    limits::Limits,
    load::{Given, Single, data_dir, load},
    log::{Log, LogFormat},
    problem::{Place, Problem, Problems},
    public_url::PublicUrl,
};
