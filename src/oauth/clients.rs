//! Administration of registered clients, for the command line. Knows nothing of registration.

use std::sync::Arc;

use super::{dependencies::OAuthDeps, error::OAuthError, revocation::Revocations};
use crate::{
    audit::{AuditEvent, ClientEvent},
    model::{Client, ClientId},
};

/// The registered clients.
pub struct RegisteredClients {
    pub(super) deps: OAuthDeps,
    pub(super) revocations: Arc<Revocations>,
}

impl RegisteredClients {
    /// Every registered client, newest first.
    pub async fn list(&self) -> Result<Vec<Client>, OAuthError> {
        Ok(self.deps.storage.clients().list().await?)
    }

    /// One registered client.
    pub async fn find(&self, client: &ClientId) -> Result<Option<Client>, OAuthError> {
        Ok(self.deps.storage.clients().lookup(client).await?)
    }

    /// Revoked clients, the last revoked first.
    pub async fn list_revoked(&self) -> Result<Vec<Client>, OAuthError> {
        Ok(self.deps.storage.clients().list_revoked().await?)
    }

    /// Restores a revoked client; its grants stay revoked. Returns false if no revoked client has this id.
    pub async fn restore(&self, client: &ClientId) -> Result<bool, OAuthError> {
        let done = self.deps.storage.clients().restore(client, self.deps.now()).await?;
        if done {
            self.deps.audit.record(&AuditEvent::Client(ClientEvent::Restored(client.clone())));
        }
        Ok(done)
    }

    /// Revokes a client with its grants; an identical registration is refused until the client is restored. Returns
    /// false if there is no such client.
    pub async fn revoke(&self, client: &ClientId) -> Result<bool, OAuthError> {
        let done = self.deps.storage.clients().revoke(client, self.deps.now()).await?;
        if done {
            self.deps.audit.record(&AuditEvent::Client(ClientEvent::Revoked(client.clone())));
        }
        self.revocations.sync().await?;
        Ok(done)
    }
}
