//! Token revocation (RFC 7009; `OA-129`).

use std::sync::Arc;

use super::{access_token::Claims, revocation::Revocations};
use crate::{
    audit::{GrantEvent, GrantParties, Revoker},
    model::{Client, ClientId, GrantId, UserId},
    oauth::{
        clients::client_auth::{ClientAuthenticator, ClientRequest, SoughtClient},
        dependencies::OAuthDeps,
        error::ErrorResponse,
        secrets::{opaque, signing::SigningKeys},
    },
    storage::Revocation,
    support::{Digest, Timestamp},
};

pub(in crate::oauth) struct RevocationEndpoint {
    pub(in crate::oauth) deps: OAuthDeps,
    pub(in crate::oauth) clients: Arc<ClientAuthenticator>,
    pub(in crate::oauth) signing: Arc<SigningKeys>,
    pub(in crate::oauth) revocations: Arc<Revocations>,
}

impl RevocationEndpoint {
    /// Revokes the presented token: a refresh token together with its grant, an access token by itself. An unknown
    /// token, or one of another client, is ignored without an error.
    pub(in crate::oauth) async fn revoke(&self, request: ClientRequest<'_>) -> Result<(), ErrorResponse> {
        let client = self.clients.authenticate(request, SoughtClient::Consented).await?;
        let token = request.form.get("token")?.ok_or_else(|| ErrorResponse::missing("token"))?;
        if opaque::is_refresh(token) {
            self.revoke_refresh(&client, token).await
        } else {
            self.revoke_access(&client, token).await
        }
    }

    async fn revoke_refresh(&self, client: &Client, token: &str) -> Result<(), ErrorResponse> {
        let Some(row) = self.deps.storage.refresh_tokens().lookup(&Digest::sha256(token)).await? else { return Ok(()) };
        let grant = self.deps.storage.grants().lookup(&row.grant).await?;
        if let Some(grant) = grant.filter(|grant| grant.client == client.id) {
            self.revocations.end_grant(&grant.id).await?;
            let by = Revoker::Client(client.id.clone());
            self.deps.audit.record(GrantEvent::Revoked { grant: grant.id, user: Some(grant.user), by });
        }
        Ok(())
    }

    async fn revoke_access(&self, client: &Client, token: &str) -> Result<(), ErrorResponse> {
        let now = self.deps.now();
        let keys = self.signing.current();
        let Some(claims) = Claims::verify(token, &keys, &self.deps.settings.issuer, now) else { return Ok(()) };
        if ClientId::new(claims.client_id.as_str()) != client.id {
            return Ok(());
        }
        self.deps.storage.revocations().revoke_token(&claims.jti, Timestamp::from_seconds(claims.exp), now).await?;
        let (grant, user) = (GrantId::new(claims.gid), UserId::new(claims.sub));
        self.deps.audit.record(GrantEvent::TokenRevoked(GrantParties { grant, user, client: client.id.clone() }));
        self.revocations.index().revoke(&Revocation::Token(claims.jti));
        Ok(())
    }
}
