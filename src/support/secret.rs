//! A string that must not be seen. Knows nothing of what it opens.

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Deserializer};

use super::Digest;

/// A secret string: wiped when dropped, never shown by `Debug`, without `Display` and `Serialize`.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Takes `text` into keeping.
    pub fn new(text: impl Into<String>) -> Self {
        Self(SecretString::from(text.into()))
    }

    /// The secret itself. Call it only where it is sent or compared.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// The SHA-256 of the secret: what a store may hold of it.
    pub fn digest(&self) -> Digest {
        Digest::sha256(self.expose())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing_of_it() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(…)");
    }
}
