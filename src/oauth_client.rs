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
mod error;
mod http;
mod kept_secret;
mod login_file;
mod provider;
mod registration;
mod tokens;

pub use self::{
    authorization::{Attempt, LoginTarget, OpenBrowser},
    callback::LoopbackUri,
    endpoint::{at_root, is_loopback, well_known},
    error::LoginError,
    login_file::LoginFile,
    provider::TokenProvider,
    registration::ClientIdentity,
};
