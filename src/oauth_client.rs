//! OAuth client of protected MCP servers (2025-11-25 and 2026-07-28, *Authorization*): finds the authorization server,
//! registers, logs a person in by the browser, keeps and refreshes the tokens. Knows nothing of MCP messages.
//!
//! [`TokenProvider`] answers the requests of a [`crate::model::Bearer`]. A login belongs to a server's URL; all processes
//! of a person share it by one file, and change it one at a time under a lock.

mod authorization;
mod callback;
mod challenge;
mod discovery;
mod endpoint;
mod http;
mod kept_secret;
mod login_file;
mod provider;
mod registration;
mod tokens;

pub use self::{
    authorization::{Attempt, LoginTarget, OpenBrowser},
    callback::LoopbackUri,
    endpoint::is_loopback,
    login_file::LoginFile,
    provider::TokenProvider,
    registration::ClientIdentity,
};

/// A login that did not succeed: what happened, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The authorization server cannot be reached, or fails; the tokens are kept.
    #[error("{0}")]
    Unavailable(String),
    /// The server's metadata, or an answer, breaks a rule of the specification.
    #[error("{0}")]
    Untrusted(String),
    /// The authorization server refused: an error code of RFC 6749, RFC 7591 or of an extension, with its description.
    #[error("the authorization server refused ({code}){}", description.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    Refused {
        /// `error`
        code: String,
        /// `error_description`
        description: Option<String>,
    },
    /// The file of the login cannot be read or written.
    #[error("{0}")]
    File(String),
}
