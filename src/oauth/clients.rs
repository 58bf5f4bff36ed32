//! Registered clients for people: the command line. Knows nothing of how they register.

use std::sync::Arc;

use super::{core::Core, error::Error, revocation::Revocations};
use crate::model::{Client, ClientId};

/// The registered clients.
pub struct Clients {
    pub(super) core: Core,
    pub(super) revocations: Arc<Revocations>,
}

impl Clients {
    /// Every registered client, newest first.
    pub async fn list(&self) -> Result<Vec<Client>, Error> {
        Ok(self.core.storage.clients().list().await?)
    }

    /// One registered client.
    pub async fn find(&self, client: &ClientId) -> Result<Option<Client>, Error> {
        Ok(self.core.storage.clients().lookup(client).await?)
    }

    /// Every client that was revoked, the last revoked first.
    pub async fn list_revoked(&self) -> Result<Vec<Client>, Error> {
        Ok(self.core.storage.clients().list_revoked().await?)
    }

    /// Takes the revocation of a client back; its grants stay revoked. False where no revoked client has this id.
    pub async fn restore(&self, client: &ClientId) -> Result<bool, Error> {
        let done = self.core.storage.clients().restore(client, self.core.now()).await?;
        tracing::info!(target: "audit", %client, done, "client restored");
        Ok(done)
    }

    /// Revokes a client with its grants: an identical registration is refused until the client is restored. False where
    /// there is none.
    pub async fn revoke(&self, client: &ClientId) -> Result<bool, Error> {
        let done = self.core.storage.clients().revoke(client, self.core.now()).await?;
        tracing::info!(target: "audit", %client, done, "client revoked");
        self.revocations.sync().await?;
        Ok(done)
    }
}
