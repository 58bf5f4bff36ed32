//! Grants and clients for people: the account page and the command line. Knows nothing of tokens' form.

use super::{Error, OAuth, RedirectTarget, redirect_uri::RedirectUri};
use crate::model::{Client, ClientId, Grant, GrantId, UserId};

/// A grant with what people know its client by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantView {
    /// The grant.
    pub grant: Grant,
    /// What the client calls itself.
    pub client_name: String,
    /// Where the client was answered.
    pub redirect: RedirectTarget,
}

impl OAuth {
    /// The live grants of a user, newest first.
    pub async fn grants_of(&self, user: &UserId) -> Result<Vec<GrantView>, Error> {
        let rows = self.0.storage.list_grants(Some(user), self.0.clock.now()).await?;
        Ok(rows.into_iter().map(GrantView::new).collect())
    }

    /// The live grants of everybody, newest first.
    pub async fn list_grants(&self) -> Result<Vec<GrantView>, Error> {
        let rows = self.0.storage.list_grants(None, self.0.clock.now()).await?;
        Ok(rows.into_iter().map(GrantView::new).collect())
    }

    /// Revokes a grant of this user: its tokens and streams end within a second. False where there is no such live one.
    pub async fn revoke_grant(&self, user: &UserId, grant: &GrantId) -> Result<bool, Error> {
        let found = self.0.storage.lookup_grant(grant).await?;
        if found.is_none_or(|grant| grant.user != *user) {
            return Ok(false);
        }
        tracing::info!(target: "audit", %user, %grant, "grant revoked");
        self.end_grant(grant).await
    }

    /// Revokes every grant of a user and says how many there were.
    pub async fn revoke_all(&self, user: &UserId) -> Result<u64, Error> {
        let count = self.0.storage.revoke_grants_of(user, self.0.clock.now()).await?;
        tracing::info!(target: "audit", %user, count, "every grant revoked");
        self.sync().await?;
        Ok(count)
    }

    /// Every registered client, newest first.
    pub async fn list_clients(&self) -> Result<Vec<Client>, Error> {
        Ok(self.0.storage.list_clients().await?)
    }

    /// One registered client.
    pub async fn client(&self, client: &ClientId) -> Result<Option<Client>, Error> {
        Ok(self.0.storage.lookup_client(client).await?)
    }

    /// Revokes a client with its grants. False where there is none.
    pub async fn revoke_client(&self, client: &ClientId) -> Result<bool, Error> {
        let done = self.0.storage.revoke_client(client, self.0.clock.now()).await?;
        tracing::info!(target: "audit", %client, done, "client revoked");
        self.sync().await?;
        Ok(done)
    }
}

// === impl GrantView ===

impl GrantView {
    fn new((grant, client_name): (Grant, String)) -> Self {
        let redirect = RedirectUri::stored(&grant.redirect_uri).target().clone();
        Self { grant, client_name, redirect }
    }
}
