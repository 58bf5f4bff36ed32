//! Secret strings.

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Deserializer};

use super::Digest;

/// A secret string: wiped on drop, hidden by `Debug`, without `Display` and `Serialize`.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(SecretString::from(text.into()))
    }

    /// The secret itself. Call it only to send or compare it.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// The SHA-256 of the secret, which may be stored.
    pub fn digest(&self) -> Digest {
        Digest::sha256(self.expose())
    }
}

/// Compares digests, so that its duration reveals nothing about the texts.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.digest() == other.digest()
    }
}

impl Eq for Secret {}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
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
    fn debug_output_hides_the_secret() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(…)");
    }
}
