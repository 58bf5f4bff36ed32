//! The tables of all documented keys, from which the rows of the page, the schema and the example are written.

use super::{HttpConfig, LogConfig, clients, replica, stdio::StdioConfig};
use crate::model::{
    AuthPolicy, LimitsConfig,
    config_key::{ConfigKey, KeyRow},
};

/// The keys of one table of the file, as the documentation shows them.
#[derive(Debug)]
pub struct DocumentedKeys {
    /// The table, as headings name it: `[limits]`.
    pub heading: &'static str,
    /// Its keys, in order.
    pub rows: Vec<KeyRow>,
}

/// The tables whose schema and rows of the page are written from the declarations of their keys.
pub fn tables() -> Vec<DocumentedKeys> {
    vec![
        DocumentedKeys { heading: "[replica]", rows: replica::KEYS.to_vec() },
        declared("[limits]", LimitsConfig::KEYS),
        declared("[auth]", AuthPolicy::KEYS),
        declared("[http]", HttpConfig::KEYS),
        declared("[stdio]", StdioConfig::KEYS),
        declared("[log]", LogConfig::KEYS),
        DocumentedKeys { heading: "[clients.<name>]", rows: clients::KEYS.to_vec() },
    ]
}

fn declared<S>(heading: &'static str, keys: &[ConfigKey<S>]) -> DocumentedKeys {
    DocumentedKeys { heading, rows: keys.iter().flat_map(ConfigKey::rows).collect() }
}
