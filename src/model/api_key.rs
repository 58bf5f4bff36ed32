//! API keys as records. Knows nothing of their secret part.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{KeyId, Rights, UserId};
use crate::support::Timestamp;

/// Use of a key as a bearer token on `/mcp` by programs without a browser (`OA-118`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direct {
    /// It opens `/mcp`, `/sse` and the login page.
    Allowed,
    /// It opens only `/sse` and the login page.
    Refused,
}

/// A stored API key (`OA-126`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Its public part.
    pub id: KeyId,
    /// Name given by its owner.
    pub name: String,
    /// User.
    pub user: UserId,
    /// Rights.
    pub rights: Rights,
    /// True if it may stand in for a token.
    pub direct: Direct,
    /// Time of creation.
    pub created: Timestamp,
    /// Configured expiry; `None` if it does not expire.
    pub expires: Option<Timestamp>,
    /// Last use, exact to about a minute.
    pub last_used: Option<Timestamp>,
    /// Time of revocation.
    pub revoked: Option<Timestamp>,
    /// Rotation, if it was rotated.
    pub rotated: Option<Rotated>,
}

/// A rotation that was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotated {
    /// The new key, which has the grants.
    pub successor: KeyId,
    /// End of the old key.
    pub until: Timestamp,
}

/// Request for a new key.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// Name: 1 to 100 characters.
    pub name: String,
    /// User; `None` if the key is a user of its own.
    pub user: Option<UserId>,
    /// Rights.
    pub rights: Rights,
    /// True if it may stand in for a token.
    pub direct: Direct,
    /// Expiry.
    pub expires: Option<Timestamp>,
}

/// Request to rotate a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRotation {
    /// Time for which both keys are valid.
    pub overlap: Duration,
    /// User of the new key.
    pub user: RotatedUser,
    /// Expiry of the new key; `None` keeps that of the old one.
    pub expires: Option<Timestamp>,
}

/// User of a rotated key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RotatedUser {
    /// The user of the old key.
    Same,
    /// The new key itself: it leaves the user of the old one.
    Own,
    /// This user.
    Named(UserId),
}

// === impl ApiKey ===

impl ApiKey {
    /// True if the key is valid at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked.is_none() && self.ends().is_none_or(|end| now < end)
    }

    /// End of the key: its expiry, or the end of the overlap after a rotation.
    pub fn ends(&self) -> Option<Timestamp> {
        let overlap = self.rotated.as_ref().map(|rotated| rotated.until);
        self.expires.into_iter().chain(overlap).min()
    }

    /// Display name of its user: the chosen name, or the name of a key that is its own user.
    pub fn user_name(&self) -> &str {
        if self.user.is_of_key() { &self.name } else { self.user.as_str() }
    }
}
