//! API keys as records. Knows nothing of their secret part.

use std::time::Duration;

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
    /// What takes its place, where it was rotated.
    pub rotated: Option<Rotated>,
}

/// How a key was rotated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotated {
    /// The key that takes its place, and that has its grants.
    pub successor: KeyId,
    /// Until when the old key may be used beside the new one.
    pub until: Timestamp,
}

/// What is asked for when a key is made.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// What its owner calls it: 1 to 100 characters.
    pub name: String,
    /// Whose it is to be; `None` where it is to be a user of its own.
    pub user: Option<UserId>,
    /// What it may do.
    pub rights: Rights,
    /// Whether it may stand in for a token.
    pub direct: Direct,
    /// When it ends by itself.
    pub expires: Option<Timestamp>,
}

/// How a key is to be rotated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRotation {
    /// How long the old key may be used beside the new one.
    pub overlap: Duration,
    /// Whose the new key is to be.
    pub user: RotatedUser,
    /// When the new key ends by itself; `None` where the end of the old one stays.
    pub expires: Option<Timestamp>,
}

/// Whose the new key is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RotatedUser {
    /// Whose the old one is.
    Same,
    /// Its own: it parts from those that share its user.
    Own,
    /// This user's.
    Named(UserId),
}

// === impl ApiKey ===

impl ApiKey {
    /// Whether it opens anything at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked.is_none() && self.ends().is_none_or(|end| now < end)
    }

    /// When it ends by itself: by its time, or because another took its place.
    pub fn ends(&self) -> Option<Timestamp> {
        let overlap = self.rotated.as_ref().map(|rotated| rotated.until);
        self.expires.into_iter().chain(overlap).min()
    }

    /// What people know its user by: the name that was chosen for the user, or that of the key that is its own user.
    pub fn user_name(&self) -> &str {
        if self.user.is_of_key() { &self.name } else { self.user.as_str() }
    }
}
