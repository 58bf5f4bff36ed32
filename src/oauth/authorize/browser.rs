//! Browsers and ids of authorization requests.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::support::{Digest, Timestamp};

/// A browser: a digest that transactions are bound to (`OA-68`). Before the login it is the digest of a random value
/// that is not stored, after it of a value in the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Browser(pub Digest);

/// Id of a pending authorization request: 256 random bits, in base64url.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TransactionId(pub(super) String);

/// The login that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoginPrompt {
    /// A live session is enough.
    IfNeeded,
    /// A live session is enough if its login is at most this many seconds old (`max_age`).
    Within(u64),
    /// The client asked for a fresh login.
    Fresh,
}

// === impl LoginPrompt ===

impl LoginPrompt {
    /// True if a session with a login at this time is enough. Pass `None` if the time is unknown.
    pub fn accepts(self, login: Option<Timestamp>, now: Timestamp) -> bool {
        match self {
            Self::IfNeeded => true,
            Self::Within(seconds) => login.is_some_and(|login| now.since(login) <= Duration::from_secs(seconds)),
            Self::Fresh => false,
        }
    }
}

// === impl TransactionId ===

impl TransactionId {
    /// Length of an id, in bytes.
    pub(super) const LENGTH: usize = 43;

    /// Parses an id from a form or URL; `None` if it is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        (text.len() == Self::LENGTH && text.chars().all(fits)).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn digest(&self) -> Digest {
        Digest::sha256(&self.0)
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransactionId({}…)", self.0.get(..4).unwrap_or_default())
    }
}
