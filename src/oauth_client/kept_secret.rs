//! Secrets in the record of a login.

use serde::{Deserialize, Serialize};

use crate::support::Secret;

/// A secret that is written in plain text, into a record that only its owner can read.
#[derive(Debug, Clone, Deserialize)]
pub struct KeptSecret(pub(super) Secret);

// === impl KeptSecret ===

impl KeptSecret {
    pub fn new(text: &str) -> Self {
        Self(Secret::new(text))
    }

    pub const fn secret(&self) -> &Secret {
        &self.0
    }

    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

impl Serialize for KeptSecret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.expose())
    }
}
