//! API keys as records. Knows nothing of their secret part.

use serde::{Deserialize, Serialize};

use super::{KeyId, Rights, UserId};
use crate::support::Timestamp;

/// Whether a key may be sent as a bearer token on `/mcp` by programs that have no browser (`OA-118`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direct {
    /// It opens `/mcp`, `/sse` and the login page.
    Allowed,
    /// It opens `/sse` and the login page alone.
    Refused,
}

/// One API key as the store knows it (`OA-126`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Its public part.
    pub id: KeyId,
    /// What its owner calls it.
    pub name: String,
    /// Whose it is.
    pub user: UserId,
    /// What it may do.
    pub rights: Rights,
    /// Whether it may stand in for a token.
    pub direct: Direct,
    /// When it was made.
    pub created: Timestamp,
    /// When it ends by itself; `None` where it does not.
    pub expires: Option<Timestamp>,
    /// When it was last presented, exact to about a minute.
    pub last_used: Option<Timestamp>,
    /// When it was revoked.
    pub revoked: Option<Timestamp>,
}

/// What is asked for when a key is made.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// What its owner calls it: 1 to 100 characters.
    pub name: String,
    /// Whose it is to be.
    pub user: UserId,
    /// What it may do.
    pub rights: Rights,
    /// Whether it may stand in for a token.
    pub direct: Direct,
    /// When it ends by itself.
    pub expires: Option<Timestamp>,
}

impl ApiKey {
    /// Whether it opens anything at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked.is_none() && self.expires.is_none_or(|expires| now < expires)
    }
}
