//! Token introspection (RFC 7662; `OA-130`).
//!
//! A client gets information only about its own tokens, and a client without a secret about none, because its id does
//! not prove who is asking.

use std::sync::Arc;

use serde_json::{Value, json};

use super::access_token::Claims;
use crate::{
    model::{Client, Grant, GrantId},
    oauth::{
        accounts::api_keys::Keys,
        clients::client_auth::{ClientAuthenticator, ClientRequest, SoughtClient},
        dependencies::OAuthDeps,
        error::{ErrorResponse, OAuthError, Scheme},
        logged_reason::ClientProblem,
        secrets::{opaque, signing::SigningKeys},
    },
    support::{Digest, Timestamp},
};

pub(in crate::oauth) struct IntrospectionEndpoint {
    pub(in crate::oauth) deps: OAuthDeps,
    pub(in crate::oauth) clients: Arc<ClientAuthenticator>,
    pub(in crate::oauth) keys: Arc<Keys>,
    pub(in crate::oauth) signing: Arc<SigningKeys>,
}

impl IntrospectionEndpoint {
    /// The state of the presented token. If the token is unknown, has ended or belongs to another client, the answer
    /// says only that it is not active (RFC 7662 2.2).
    pub(in crate::oauth) async fn introspect(&self, request: ClientRequest<'_>) -> Result<Value, ErrorResponse> {
        let client = self.clients.authenticate(request, SoughtClient::Consented).await?;
        let form = request.form;
        if client.auth.is_public() {
            return Err(ErrorResponse::InvalidClient(Scheme::Form, ClientProblem::Public(client.id)));
        }
        let token = form.get("token")?.ok_or_else(|| ErrorResponse::missing("token"))?;
        let now = self.deps.now();
        let state = if opaque::is_refresh(token) {
            self.refresh_token(&client, token, now).await?
        } else {
            self.access_token(&client, token, now).await?
        };
        Ok(state.unwrap_or_else(|| json!({ "active": false })))
    }

    async fn access_token(&self, client: &Client, token: &str, now: Timestamp) -> Result<Option<Value>, OAuthError> {
        let Some(claims) = Claims::verify(token, &self.signing.current(), &self.deps.settings.issuer, now) else {
            return Ok(None);
        };
        let Some(grant) = self.live_grant(client, &GrantId::new(claims.gid.as_str()), now).await? else {
            return Ok(None);
        };
        if self.deps.storage.revocations().is_token_revoked(&claims.jti, claims.generation()).await? {
            return Ok(None);
        }
        let Claims { iss, aud, iat, exp, jti, scope, auth_time, .. } = claims;
        Ok(Some(json!({
            "active": true, "token_type": "Bearer", "iss": iss, "sub": grant.user, "aud": aud, "client_id": client.id,
            "scope": scope, "iat": iat, "exp": exp, "jti": jti, "auth_time": auth_time,
        })))
    }

    async fn refresh_token(&self, client: &Client, token: &str, now: Timestamp) -> Result<Option<Value>, OAuthError> {
        let row = self.deps.storage.refresh_tokens().lookup(&Digest::sha256(token)).await?;
        let Some(row) = row.filter(|row| row.rotated.is_none() && row.withdrawn.is_none() && now < row.expires) else {
            return Ok(None);
        };
        let Some(grant) = self.live_grant(client, &row.grant, now).await? else { return Ok(None) };
        let settings = &self.deps.settings;
        Ok(Some(json!({
            "active": true, "iss": settings.issuer, "sub": grant.user, "aud": settings.resource(&grant.endpoint),
            "client_id": client.id, "scope": grant.scopes.to_string(), "exp": row.expires.as_seconds(),
            "auth_time": grant.created.as_seconds(),
        })))
    }

    /// The grant, if it belongs to this client, and neither the grant nor the key behind it has ended.
    async fn live_grant(&self, client: &Client, id: &GrantId, now: Timestamp) -> Result<Option<Grant>, OAuthError> {
        let grant = self.deps.storage.grants().lookup(id).await?;
        let Some(grant) = grant.filter(|grant| grant.client == client.id && grant.is_live(now)) else {
            return Ok(None);
        };
        Ok(self.keys.is_live(&grant.key).await?.then_some(grant))
    }
}
