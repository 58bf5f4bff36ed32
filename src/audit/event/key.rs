//! API keys, accounts, and the gateway's own keys. Know nothing of what they open.

use std::net::IpAddr;

use crate::{
    audit::line::AuditLine,
    model::{KeyId, UserId},
};

/// An event of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyEvent {
    /// An API key or account was created.
    Created {
        /// Its id.
        key: KeyId,
        /// Its user.
        user: UserId,
        /// The kind: `key`, or that of an account.
        kind: &'static str,
    },
    /// An API key took the place of another.
    Rotated {
        /// The old one.
        key: KeyId,
        /// The new one.
        successor: KeyId,
        /// Its user.
        user: UserId,
    },
    /// An API key or account was revoked.
    Revoked(KeyId),
    /// Somebody who is logged in with the key entered the code of a device that does not wait.
    DeviceCodeRefused {
        /// Its id.
        key: KeyId,
        /// Its user.
        user: UserId,
        /// The address of the browser.
        from: IpAddr,
    },
    /// A valid API key, or what rests on it, came from outside of the networks of the key.
    Elsewhere {
        /// Its id.
        key: KeyId,
        /// The client's address.
        from: IpAddr,
    },
    /// The rights or the end of an API key or account changed.
    RightsChanged {
        /// Its id.
        key: KeyId,
        /// Author of the change.
        by: String,
    },
    /// A signing key was created.
    SigningCreated(String),
    /// A signing key was withdrawn.
    SigningWithdrawn(String),
    /// The master key was replaced.
    MasterRotated,
}

// === impl KeyEvent ===

impl KeyEvent {
    pub(super) fn line(&self) -> AuditLine {
        use AuditLine as L;
        match self {
            Self::Created { key, user, kind } => L::new("key_created", "API key or account created")
                .with("user", user)
                .with("key", key)
                .with("kind", kind),
            Self::Rotated { key, successor, user } => L::new("key_rotated", "API key rotated")
                .with("user", user)
                .with("key", key)
                .with("successor", successor),
            Self::Revoked(key) => L::new("key_revoked", "API key revoked").with("key", key),
            Self::DeviceCodeRefused { key, user, from } => L::alarming("device_code_refused", "device code refused")
                .with("user", user)
                .with("key", key)
                .with("ip", from),
            Self::Elsewhere { key, from } => {
                L::alarming("key_elsewhere", "address outside of the networks of an API key")
                    .with("key", key)
                    .with("ip", from)
            }
            Self::RightsChanged { key, by } => {
                L::new("rights_changed", "rights changed").with("key", key).with("by", by)
            }
            Self::SigningCreated(kid) => L::new("signing_key_created", "signing key created").with("key", kid),
            Self::SigningWithdrawn(kid) => L::new("signing_key_withdrawn", "signing key withdrawn").with("key", kid),
            Self::MasterRotated => L::new("master_key_rotated", "master key rotated"),
        }
    }
}
