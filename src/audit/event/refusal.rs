//! Refused credentials and requests. Only the audit trail has the reasons.

use std::net::IpAddr;

use crate::{
    audit::line::AuditLine,
    model::{GrantId, KeyId, UserId},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalEvent {
    /// A wrong API key, on a page or as a credential.
    Key { from: IpAddr },
    /// An API key that was right and has ended.
    EndedKey { key: KeyId, user: UserId, from: IpAddr, reason: &'static str },
    /// A valid API key in a place where it opens nothing.
    KeyMisplaced {
        key: Option<KeyId>,
        /// The reason: what the key is for.
        reason: &'static str,
    },
    /// An access token that opens nothing.
    Token {
        /// Its grant, if the token was signed here.
        grant: Option<GrantId>,
        /// The reason, which is not revealed to the client.
        reason: String,
    },
    /// The request of an OAuth client.
    Request {
        /// The error code sent to the client.
        error: &'static str,
        reason: String,
    },
}

// === impl RefusalEvent ===

impl RefusalEvent {
    pub(super) fn line(&self) -> AuditLine {
        use AuditLine as L;
        match self {
            Self::Key { from } => L::alarming("key_refused", "API key refused").with("ip", from),
            Self::EndedKey { key, user, from, reason } => L::alarming("key_refused", "API key refused")
                .with("user", user)
                .with("key", key)
                .with("ip", from)
                .with("reason", reason)
                .of_stranger(),
            Self::KeyMisplaced { key, reason } => {
                L::new("key_misplaced", "API key refused").maybe("key", key.as_ref()).with("reason", reason)
            }
            Self::Token { grant, reason } => {
                L::new("token_refused", "access token refused").maybe("grant", grant.as_ref()).with("reason", reason)
            }
            Self::Request { error, reason } => {
                L::new("request_refused", "OAuth request refused").with("error", error).with("reason", reason)
            }
        }
    }
}
