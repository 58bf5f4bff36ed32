//! Token revocation (RFC 7009; `OA-129`). Knows nothing of routes.

use http::HeaderMap;

use super::{OAuth, access_token::Claims, error::Failure, form::Params, opaque};
use crate::{
    model::{Client, ClientId, GrantId},
    storage::Revocation,
    support::{Digest, Timestamp},
};

impl OAuth {
    /// Revokes what the client presents: a refresh token with its whole grant, an access token by itself. What is
    /// unknown or another's is let be, and not told.
    pub(super) async fn revoke(&self, headers: &HeaderMap, form: &Params) -> Result<(), Failure> {
        let client = self.authenticate_client(headers, form).await?;
        let token = form.get("token")?.ok_or_else(|| Failure::missing("token"))?;
        if opaque::is_refresh(token) {
            self.revoke_refresh(&client, token).await
        } else {
            self.revoke_access(&client, token).await
        }
    }

    async fn revoke_refresh(&self, client: &Client, token: &str) -> Result<(), Failure> {
        let Some(row) = self.0.storage.lookup_refresh_token(&Digest::sha256(token)).await? else { return Ok(()) };
        let grant = self.0.storage.lookup_grant(&row.grant).await?;
        if let Some(grant) = grant.filter(|grant| grant.client == client.id) {
            self.end_grant(&grant.id).await?;
            tracing::info!(target: "audit", client = %client.id, user = %grant.user, grant = %grant.id, "grant revoked by its client");
        }
        Ok(())
    }

    async fn revoke_access(&self, client: &Client, token: &str) -> Result<(), Failure> {
        let now = self.0.clock.now();
        let Some(claims) = Claims::verify(token, &self.0.signing, &self.settings().issuer, now) else { return Ok(()) };
        if ClientId::new(claims.client_id.as_str()) != client.id {
            return Ok(());
        }
        self.0.storage.revoke_token(&claims.jti, Timestamp::from_seconds(claims.exp), now).await?;
        tracing::info!(target: "audit", client = %client.id, user = claims.sub, grant = claims.gid, "access token revoked by its client");
        self.0.index.revoke(&Revocation::Token(claims.jti));
        Ok(())
    }

    /// Revokes a grant, in the store and at once in this process. False where there is no such live one.
    pub(super) async fn end_grant(&self, grant: &GrantId) -> Result<bool, super::Error> {
        let done = self.0.storage.revoke_grant(grant, self.0.clock.now()).await?;
        self.0.index.revoke(&Revocation::Grant(grant.clone()));
        Ok(done)
    }
}
