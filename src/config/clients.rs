//! The tables `[clients.<name>]`: settings for single clients. Knows nothing of protocol versions.

use std::collections::BTreeSet;

use super::section::Section;
use crate::model::config_key::{KeyDefault, KeyForm, KeyRow};

/// The keys of each table.
pub(super) const KEYS: &[KeyRow] = &[KeyRow {
    name: "profile",
    form: KeyForm::Choice(&["faithful", "strict"]),
    default: KeyDefault::Value("\"faithful\""),
    docs: &["With `\"strict\"` the client gets no member that its protocol version does not define."],
}];

/// Settings for single clients, by the `clientInfo.name` of their `initialize`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientsConfig {
    /// `profile = "strict"`: clients that get no member which their version does not define. Others get every member:
    /// no schema of the protocol closes an object.
    pub strict: BTreeSet<String>,
}

impl ClientsConfig {
    /// Reads the tables and reports errors.
    pub(super) fn read(section: Section<'_>) -> Self {
        let mut clients = Self::default();
        for (name, mut section) in section.tables() {
            if section.choice("profile", &[("faithful", false), ("strict", true)]) == Some(true) {
                clients.strict.insert(name.to_owned());
            }
            section.finish();
        }
        clients
    }
}
