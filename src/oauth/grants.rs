//! Grants and clients for people: the account page and the command line. Knows nothing of tokens' form.

use super::{Error, KeyHolder, OAuth, RedirectTarget, redirect_uri::RedirectUri};
use crate::{
    model::{Client, ClientId, Grant, GrantId, Rights, UserId},
    storage::ListedGrant,
};

/// A grant with what people know its client by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantView {
    /// The grant.
    pub grant: Grant,
    /// What the client calls itself.
    pub client_name: String,
    /// The name of the key that the grant came from.
    pub key_name: String,
    /// What its tokens may do.
    pub rights: Rights,
    /// Where the client was answered.
    pub redirect: RedirectTarget,
}

impl OAuth {
    /// The live grants of a user, newest first.
    pub async fn grants_of(&self, user: &UserId) -> Result<Vec<GrantView>, Error> {
        let listed = self.0.storage.list_grants(Some(user), self.0.clock.now()).await?;
        Ok(listed.into_iter().map(GrantView::new).collect())
    }

    /// The live grants of everybody, newest first.
    pub async fn list_grants(&self) -> Result<Vec<GrantView>, Error> {
        let listed = self.0.storage.list_grants(None, self.0.clock.now()).await?;
        Ok(listed.into_iter().map(GrantView::new).collect())
    }

    /// The live grants of the holder's user that allow no more than the holder's key does, newest first.
    pub async fn grants_within(&self, holder: &KeyHolder) -> Result<Vec<GrantView>, Error> {
        let mut grants = self.grants_of(&holder.user).await?;
        grants.retain(|view| view.rights.is_within(&holder.rights));
        Ok(grants)
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

    /// Revokes a grant of the holder's user that allows no more than the holder's key does. False where there is no such
    /// live one.
    pub async fn revoke_grant_within(&self, holder: &KeyHolder, grant: &GrantId) -> Result<bool, Error> {
        let found = self.0.storage.lookup_grant(grant).await?.filter(|grant| grant.user == holder.user);
        let Some(found) = found else { return Ok(false) };
        let key = self.0.storage.lookup_key(&found.key).await?;
        if !key.is_some_and(|(key, _)| found.rights(&key.rights).is_within(&holder.rights)) {
            return Ok(false);
        }
        tracing::info!(target: "audit", user = %holder.user, key = %holder.key, %grant, "grant revoked");
        self.end_grant(grant).await
    }

    /// Revokes every grant of a user and says how many there were.
    pub async fn revoke_all(&self, user: &UserId) -> Result<u64, Error> {
        let count = self.0.storage.revoke_grants_of(user, |_, _| true, self.0.clock.now()).await?;
        tracing::info!(target: "audit", %user, count, "every grant revoked");
        self.sync().await?;
        Ok(count)
    }

    /// Revokes every grant of the holder's user that allows no more than the holder's key does, and says how many there
    /// were.
    pub async fn revoke_all_within(&self, holder: &KeyHolder) -> Result<u64, Error> {
        let within = |grant: &Grant, key: &Rights| grant.rights(key).is_within(&holder.rights);
        let count = self.0.storage.revoke_grants_of(&holder.user, within, self.0.clock.now()).await?;
        tracing::info!(target: "audit", user = %holder.user, key = %holder.key, count, "every grant within the key's rights revoked");
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

    /// Every client that was revoked, the last revoked first.
    pub async fn list_revoked_clients(&self) -> Result<Vec<Client>, Error> {
        Ok(self.0.storage.list_revoked_clients().await?)
    }

    /// Takes the revocation of a client back; its grants stay revoked. False where no revoked client has this id.
    pub async fn restore_client(&self, client: &ClientId) -> Result<bool, Error> {
        let done = self.0.storage.restore_client(client, self.0.clock.now()).await?;
        tracing::info!(target: "audit", %client, done, "client restored");
        Ok(done)
    }

    /// Revokes a client with its grants: an identical registration is refused until the client is restored. False where
    /// there is none.
    pub async fn revoke_client(&self, client: &ClientId) -> Result<bool, Error> {
        let done = self.0.storage.revoke_client(client, self.0.clock.now()).await?;
        tracing::info!(target: "audit", %client, done, "client revoked");
        self.sync().await?;
        Ok(done)
    }
}

// === impl GrantView ===

impl GrantView {
    fn new(listed: ListedGrant) -> Self {
        let ListedGrant { grant, client_name, key_name, key_rights } = listed;
        let redirect = RedirectUri::stored(&grant.redirect_uri).target().clone();
        Self { rights: grant.rights(&key_rights), grant, client_name, key_name, redirect }
    }
}
