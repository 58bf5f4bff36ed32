//! Credentials and requests that are refused. The reasons are here alone. Know nothing of answers.

use std::net::IpAddr;

use crate::{
    audit::line::AuditLine,
    model::{GrantId, KeyId},
};

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalEvent {
    /// A wrong API key, on a page or as a credential.
    Key {
        /// The client's address.
        from: IpAddr,
    },
    /// A valid API key where it opens nothing.
    KeyMisplaced {
        /// The key.
        key: Option<KeyId>,
        /// Its rights.
        reason: &'static str,
    },
    /// An access token that opens nothing.
    Token {
        /// Its grant, if it was signed here.
        grant: Option<GrantId>,
        /// The reason, which the client is not told.
        reason: String,
    },
    /// A request of a client.
    Request {
        /// The error code that the client gets.
        error: &'static str,
        /// The reason.
        reason: String,
    },
}

// === impl RefusalEvent ===

impl RefusalEvent {
    pub(super) fn line(&self) -> AuditLine {
        use AuditLine as L;
        match self {
            Self::Key { from } => L::alarming("key_refused", "API key refused").with("ip", from),
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
