//! The token endpoint (RFC 6749 3.2; `OA-80` to `OA-97`): one file per grant type.

mod client_credentials;
mod code;
mod device;
mod identity_assertion;
mod issuer;
mod refresh;

use std::sync::Arc;

use serde_json::Value;

use self::{
    client_credentials::ClientCredentialsGrant, code::CodeGrant, device::DeviceGrant,
    identity_assertion::IdentityAssertionGrant, issuer::Issuer, refresh::RefreshGrant,
};
use super::{
    accounts::api_keys::Keys,
    clients::client_auth::{ClientAuthenticator, ClientRequest, SoughtClient},
    credentials::{revocation::Revocations, usage::UsageRecorder},
    error::ErrorResponse,
    oauth_settings::OAuthSettings,
    secrets::signing::SigningKeys,
};
use crate::model::GrantType;

pub(super) struct TokenEndpoint {
    clients: Arc<ClientAuthenticator>,
    settings: Arc<OAuthSettings>,
    code: CodeGrant,
    refresh: RefreshGrant,
    client_credentials: ClientCredentialsGrant,
    device: DeviceGrant,
    identity_assertion: IdentityAssertionGrant,
}

impl TokenEndpoint {
    pub(super) fn new(
        clients: Arc<ClientAuthenticator>,
        keys: Arc<Keys>,
        signing: Arc<SigningKeys>,
        revocations: Arc<Revocations>,
        uses: Arc<UsageRecorder>,
    ) -> Self {
        let deps = keys.deps.clone();
        let settings = Arc::clone(&deps.settings);
        let issuer = Arc::new(Issuer { deps, keys, signing });
        Self {
            clients,
            settings,
            code: CodeGrant { issuer: Arc::clone(&issuer), revocations: Arc::clone(&revocations) },
            client_credentials: ClientCredentialsGrant::new(Arc::clone(&issuer)),
            device: DeviceGrant::new(Arc::clone(&issuer)),
            identity_assertion: IdentityAssertionGrant::new(Arc::clone(&issuer)),
            refresh: RefreshGrant::new(issuer, revocations, uses),
        }
    }

    /// Handles a token request; returns the JSON of RFC 6749 5.1.
    pub(super) async fn token(&self, request: ClientRequest<'_>) -> Result<Value, ErrorResponse> {
        let ClientRequest { form, from, .. } = request;
        // a device polls before its first consent
        let is_device = form.get("grant_type").is_ok_and(|name| name == Some(GrantType::DeviceCode.name()));
        let sought = if is_device { SoughtClient::Device } else { SoughtClient::Consented };
        let client = self.clients.authenticate(request, sought).await?;
        let name = form.get("grant_type")?.ok_or_else(|| ErrorResponse::missing("grant_type"))?;
        let grant_type = GrantType::parse(name).filter(|known| self.settings.grant_types().any(|it| it == *known));
        let grant_type = grant_type.ok_or(ErrorResponse::UnsupportedGrantType)?;
        if !client.grant_types.contains(&grant_type) {
            return Err(ErrorResponse::UnauthorizedClient);
        }
        let issued = match grant_type {
            GrantType::AuthorizationCode => self.code.redeem(&client, form, from).await?,
            GrantType::RefreshToken => self.refresh.refresh(&client, form, from).await?,
            GrantType::ClientCredentials => self.client_credentials.issue(&client, form, from).await?,
            GrantType::DeviceCode => self.device.poll(&client, form, from).await?,
            GrantType::JwtBearer => self.identity_assertion.exchange(&client, form, from).await?,
        };
        metrics::counter!("lockkeeper_tokens_issued_total", "grant_type" => grant_type.to_string()).increment(1);
        Ok(issued.into_json())
    }
}
