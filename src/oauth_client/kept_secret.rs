//! Secrets in the record of a login. Knows nothing of where it is kept.

use serde::{Deserialize, Serialize};

use crate::support::Secret;

/// A secret that is written as it is, into a record that only its owner reads.
#[derive(Debug, Clone, Deserialize)]
pub struct KeptSecret(pub(super) Secret);

// === impl KeptSecret ===

impl KeptSecret {
    /// Keeps `text`.
    pub fn new(text: &str) -> Self {
        Self(Secret::new(text))
    }

    /// The secret.
    pub const fn secret(&self) -> &Secret {
        &self.0
    }

    /// The secret itself.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

impl Serialize for KeptSecret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.expose())
    }
}
