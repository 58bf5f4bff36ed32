//! Secrets in the file of a login. Knows nothing of the file.

use serde::{Deserialize, Serialize};

use crate::support::Secret;

/// A secret that is written as it is, into a file that only its owner reads.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct KeptSecret(pub(super) Secret);

// === impl KeptSecret ===

impl KeptSecret {
    /// Keeps `text`.
    pub(super) fn new(text: &str) -> Self {
        Self(Secret::new(text))
    }

    /// The secret itself.
    pub(super) fn expose(&self) -> &str {
        self.0.expose()
    }
}

impl Serialize for KeptSecret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.expose())
    }
}
