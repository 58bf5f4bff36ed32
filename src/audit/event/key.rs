//! API keys, accounts, and the gateway's own keys.

use std::net::IpAddr;

use crate::{
    audit::line::AuditLine,
    model::{ApiKey, KeyId, Rights, UserId},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyEvent {
    Created(Box<ApiKey>),
    Rotated {
        key: KeyId,
        successor: KeyId,
        user: UserId,
    },
    Revoked {
        key: KeyId,
        user: UserId,
    },
    /// A person logged in with the key entered the code of a device that is not waiting.
    DeviceCodeRefused {
        key: KeyId,
        user: UserId,
        from: IpAddr,
    },
    /// A valid API key, or something based on it, was used from outside the key's networks.
    Elsewhere {
        key: KeyId,
        from: IpAddr,
    },
    /// The rights or the end of an API key or account changed.
    RightsChanged {
        key: KeyId,
        user: UserId,
        /// The rights that it has now.
        rights: Rights,
        /// The author of the change.
        by: String,
    },
    SigningCreated(String),
    SigningWithdrawn(String),
    MasterRotated,
}

// === impl KeyEvent ===

impl KeyEvent {
    pub(super) fn line(&self) -> AuditLine {
        use AuditLine as L;
        match self {
            Self::Created(created) => {
                let ApiKey { id, user, name, rights, kind, .. } = &**created;
                L::new("key_created", "API key or account created")
                    .with("user", user)
                    .with("key", id)
                    .with("name", name)
                    .with("rights", &rights.words().join(", "))
                    .with("kind", kind.word())
            }
            Self::Rotated { key, successor, user } => L::new("key_rotated", "API key rotated")
                .with("user", user)
                .with("key", key)
                .with("successor", successor),
            Self::Revoked { key, user } => L::new("key_revoked", "API key revoked").with("user", user).with("key", key),
            Self::DeviceCodeRefused { key, user, from } => L::alarming("device_code_refused", "device code refused")
                .with("user", user)
                .with("key", key)
                .with("ip", from),
            Self::Elsewhere { key, from } => {
                L::alarming("key_elsewhere", "address outside of the networks of an API key")
                    .with("key", key)
                    .with("ip", from)
            }
            Self::RightsChanged { key, user, rights, by } => L::new("rights_changed", "rights changed")
                .with("user", user)
                .with("key", key)
                .with("rights", &rights.words().join(", "))
                .with("by", by),
            Self::SigningCreated(kid) => L::new("signing_key_created", "signing key created").with("key", kid),
            Self::SigningWithdrawn(kid) => L::new("signing_key_withdrawn", "signing key withdrawn").with("key", kid),
            Self::MasterRotated => L::new("master_key_rotated", "master key rotated"),
        }
    }
}
