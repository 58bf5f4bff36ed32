//! API keys as records: the basis of a grant, a browser session and a verified credential.
//!
//! A record is an API key, which has a secret, or a [`KeyAccount`], whose holder someone else verifies. Rights, user,
//! expiry, revocation, usage, lists and pages are the same for all.
//!
//! To add a kind of account, add a variant of [`KeyAccount`], and its line in [`KeyAccount::columns`],
//! [`KeyAccount::from_columns`] and [`KeyKind::word`]. The code that verifies the holder creates the account with
//! [`Keys::add_account`](crate::oauth::Keys::add_account), lets the holder in with
//! [`Keys::enter`](crate::oauth::Keys::enter), and changes the holder's rights with
//! [`Keys::set_rights`](crate::oauth::Keys::set_rights). A browser session takes the `KeyHolder` that `enter` returns.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{AllowedBackends, AllowedNetworks, ClientId, KeyId, Rights, UserId};
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

/// How the holder of a key logs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyKind {
    /// By the key's secret: an API key.
    Secret(Direct),
    /// A login verified elsewhere: no credential can be presented for it.
    Account(KeyAccount),
}

/// An account without a secret, by the party that verifies its holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyAccount {
    /// A person at an OpenID provider (`UP-13`).
    Provider {
        /// Issuer of the provider (`iss`).
        issuer: String,
        /// The person there (`sub`).
        subject: String,
    },
    /// The service account of a client, which authenticates at the token endpoint (`OA-144`).
    Service { client: ClientId },
}

/// A stored API key (`OA-126`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Its public part.
    pub id: KeyId,
    /// Name given by its owner.
    pub name: String,
    pub user: UserId,
    pub rights: Rights,
    /// How its holder logs in.
    pub kind: KeyKind,
    /// Time of creation.
    pub created: Timestamp,
    /// Configured expiry; `None` if it does not expire.
    pub expires: Option<Timestamp>,
    /// Networks where it, and anything based on it, may be used.
    pub networks: AllowedNetworks,
    /// Last use, exact to about a minute.
    pub last_used: Option<Timestamp>,
    /// Time of revocation.
    pub revoked: Option<Timestamp>,
    /// Time when the operator disabled its user.
    pub disabled: Option<Timestamp>,
    /// Its rotation, if any.
    pub rotated: Option<Rotated>,
    /// The source of its rights.
    pub history: KeyHistory,
}

/// The source of a key's rights, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyHistory {
    /// Giver, such as `operator ann` or `an invitation of bob`; earlier versions did not note the giver.
    pub given_by: Option<String>,
    /// Time of their last change.
    pub changed: Option<Timestamp>,
    /// Author of that change.
    pub changed_by: Option<String>,
}

/// Request to change a key in place. Fields that are `None` stay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyChange {
    /// Servers and groups.
    pub backends: Option<AllowedBackends>,
    /// Administration.
    pub admin: Option<bool>,
    /// Expiry.
    pub expires: Option<KeyEnd>,
}

/// End of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyEnd {
    /// It does not expire.
    Never,
    At(Timestamp),
}

/// A finished rotation.
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
    /// User; `None` if the key is its own user.
    pub user: Option<UserId>,
    /// Rights.
    pub rights: Rights,
    /// True if it may be used in place of a token.
    pub direct: Direct,
    pub expires: Option<Timestamp>,
    /// Networks where it may be used.
    pub networks: AllowedNetworks,
}

/// Request for a new account.
#[derive(Debug, Clone)]
pub struct NewAccount {
    pub account: KeyAccount,
    /// Name for people: 1 to 100 characters.
    pub name: String,
    /// User; `None` if the account is its own user.
    pub user: Option<UserId>,
    pub rights: Rights,
    pub expires: Option<Timestamp>,
    /// Networks where it may be used.
    pub networks: AllowedNetworks,
}

/// Request to rotate a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRotation {
    /// Overlap, with both keys valid.
    pub overlap: Duration,
    /// User of the new key.
    pub user: RotatedUser,
    /// Expiry of the new key; `None` keeps the old key's.
    pub expires: Option<Timestamp>,
}

/// User of a rotated key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RotatedUser {
    /// The user of the old key.
    Same,
    /// The new key itself: it leaves the old key's user.
    Own,
    Named(UserId),
}

// === impl KeyKind ===

impl KeyKind {
    /// Use of the key as a bearer token.
    pub const fn direct(&self) -> Direct {
        match self {
            Self::Secret(direct) => *direct,
            Self::Account(_) => Direct::Refused,
        }
    }

    /// The word for it in lists.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Secret(_) => "key",
            Self::Account(KeyAccount::Provider { .. }) => "login",
            Self::Account(KeyAccount::Service { .. }) => "service",
        }
    }
}

// === impl KeyAccount ===

impl KeyAccount {
    /// Kind, issuer and subject, as stored.
    pub fn columns(&self) -> [&str; 3] {
        match self {
            Self::Provider { issuer, subject } => ["provider", issuer, subject],
            Self::Service { client } => ["service", "", client.as_str()],
        }
    }

    /// Reads [`KeyAccount::columns`]; `None` if the kind is unknown.
    pub fn from_columns(kind: &str, issuer: String, subject: String) -> Option<Self> {
        match kind {
            "provider" => Some(Self::Provider { issuer, subject }),
            "service" => Some(Self::Service { client: ClientId::new(subject) }),
            _ => None,
        }
    }
}

// === impl ApiKey ===

impl ApiKey {
    /// True if the key is valid at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked.is_none() && self.disabled.is_none() && self.ends().is_none_or(|end| now < end)
    }

    /// Why the key is not valid at `now`; `None` if it is.
    pub fn ended(&self, now: Timestamp) -> Option<&'static str> {
        match (self.disabled, self.revoked) {
            (Some(_), _) => Some("the user is disabled"),
            (None, Some(_)) => Some("the key was revoked"),
            (None, None) if self.is_live(now) => None,
            (None, None) => Some("the key has expired, or was rotated"),
        }
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
