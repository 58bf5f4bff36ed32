//! The tables `[clients.<name>]`: settings for single clients.

use std::collections::BTreeSet;

use super::{keys, section::Section};
use crate::model::config_key::key_rows;

/// The values of `profile`, and whether they are strict.
const PROFILES: [(&str, bool); 2] = [("faithful", false), ("strict", true)];

key_rows! {
    /// The keys of each table.
    pub(super) const KEYS {
        /// With `"strict"`, the client gets no members that its protocol version does not define.
        profile: Choice(&keys::words(&PROFILES)), Example("\"faithful\"", "\"strict\"");
    }
}

/// Settings for single clients, by the `clientInfo.name` of their `initialize`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientsConfig {
    /// `profile = "strict"`: clients that only get members defined by their version. Others get every member, since no
    /// schema of the protocol closes an object.
    pub strict: BTreeSet<String>,
}

impl ClientsConfig {
    /// Reads the tables and reports errors.
    pub(super) fn read(section: Section<'_>) -> Self {
        let mut clients = Self::default();
        for (name, mut section) in section.tables() {
            if section.choice("profile", &PROFILES) == Some(true) {
                clients.strict.insert(name.to_owned());
            }
            section.finish();
        }
        clients
    }
}
