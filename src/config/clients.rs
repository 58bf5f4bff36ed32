//! The tables `[clients.<name>]`: how single clients want to be spoken to. Knows nothing of what their versions lack.

use std::collections::BTreeSet;

use super::section::Section;

/// How single clients want to be spoken to, by the `clientInfo.name` of their `initialize`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clients {
    /// `profile = "strict"`: those that get no member which their version does not define. The others get every member:
    /// no schema of the protocol closes an object.
    pub strict: BTreeSet<String>,
}

impl Clients {
    /// Reads the tables; what is wrong is noted there.
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
