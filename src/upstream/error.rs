//! Errors of the gateway as a client of protected servers.

use crate::{oauth_client::LoginError, storage::StorageError, vault::VaultError};

#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A secret could not be sealed or opened.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// The login failed at the server or at its authorization server.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// The assertion of the gateway's identity cannot be signed.
    #[error("the assertion for the authorization server cannot be signed")]
    Assertion,
}

impl UpstreamError {
    /// True if the authorization server does not know the gateway as a client, or its secret.
    pub fn is_of_client(&self) -> bool {
        matches!(self, Self::Login(error) if error.is_of_client())
    }
}
