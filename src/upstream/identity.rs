//! The gateway's identity at an authorization server (`UP-4`): the configured client, else its metadata document, else
//! a registration, which is kept. An identity is used only with its own issuer.

use zeroize::Zeroizing;

use super::{context::UpstreamContext, error::UpstreamError, metadata, servers::ProtectedServer};
use crate::{
    model::{BackendId, OAuthClientSpec},
    oauth_client::{
        ApplicationType, AuthorizationServer, ClientIdentity, ClientRegistration, OAuthHttp, RegisteredClient, identify,
    },
    vault::{VaultError, VaultOwner, VaultPlace},
};

/// The field of registrations in the vault.
const CLIENT: &str = "client";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientSource {
    /// It is configured, or has a metadata document.
    Given,
    /// It was registered for an earlier login; the authorization server may have forgotten it.
    Kept,
    /// It was just registered.
    Registered,
}

/// The client for a login at this server.
pub(super) async fn client(
    context: &UpstreamContext,
    backend: &BackendId,
    server: &ProtectedServer,
    authorization_server: &AuthorizationServer,
    scope: Option<&str>,
) -> Result<(RegisteredClient, ClientSource), UpstreamError> {
    let http = server.http(context)?;
    if let Some(known) = unregistered(context, backend, &server.client, authorization_server, &http).await? {
        return Ok((known, ClientSource::Given));
    }
    if let Some(kept) = kept(context, backend, &authorization_server.issuer).await? {
        return Ok((kept, ClientSource::Kept));
    }
    let redirect_uri = metadata::redirect_uri(&context.issuer, backend);
    let (name, application) = (metadata::client_name(&context.issuer), ApplicationType::Web);
    let description = ClientRegistration { name, redirect_uri, scope, application };
    let client = identify(&ClientIdentity::Registered, authorization_server, description, &http, context.now()).await?;
    let text = Zeroizing::new(serde_json::to_vec(&client).map_err(|_| VaultError::Form)?);
    let sealed = context.vault.seal(place(backend, &client.issuer), &text).await?;
    context.storage.upstream_clients().set(backend, &client.issuer, &sealed, context.now()).await?;
    tracing::info!(server = %backend, issuer = client.issuer, "registered at an authorization server");
    Ok((client, ClientSource::Registered))
}

/// The configured client, or the metadata document's, if any.
pub(super) async fn unregistered(
    context: &UpstreamContext,
    backend: &BackendId,
    spec: &OAuthClientSpec,
    authorization_server: &AuthorizationServer,
    http: &OAuthHttp,
) -> Result<Option<RegisteredClient>, UpstreamError> {
    let given = match &spec.client {
        Some(client) => Some((client.id.clone(), client.secret.clone())),
        None => metadata::client_id(&context.issuer, backend, authorization_server).map(|id| (id, None)),
    };
    let Some((id, secret)) = given else { return Ok(None) };
    let identity = ClientIdentity::given(&id, secret, &spec.settings)?;
    let redirect_uri = metadata::redirect_uri(&context.issuer, backend);
    let (name, application) = (metadata::client_name(&context.issuer), ApplicationType::Web);
    let description = ClientRegistration { name, redirect_uri, scope: None, application };
    Ok(Some(identify(&identity, authorization_server, description, http, context.now()).await?))
}

pub(super) fn configured(spec: &OAuthClientSpec) -> Result<Option<ClientIdentity>, UpstreamError> {
    let Some(client) = &spec.client else { return Ok(None) };
    Ok(Some(ClientIdentity::given(&client.id, client.secret.clone(), &spec.settings)?))
}

/// Forgets a registration that its authorization server no longer knows. The next login registers again, at most a few
/// times an hour.
pub(super) async fn forget(context: &UpstreamContext, backend: &BackendId, issuer: &str) -> Result<(), UpstreamError> {
    if let Err(wait) = context.registrations.take(issuer.to_owned(), context.now()) {
        tracing::warn!(server = %backend, issuer, wait = wait.as_secs(), "an authorization server keeps forgetting the gateway's registration");
        return Ok(());
    }
    Ok(context.storage.upstream_clients().delete(backend, issuer).await?)
}

async fn kept(
    context: &UpstreamContext,
    backend: &BackendId,
    issuer: &str,
) -> Result<Option<RegisteredClient>, UpstreamError> {
    let Some(sealed) = context.storage.upstream_clients().lookup(backend, issuer).await? else { return Ok(None) };
    let text = context.vault.open(place(backend, issuer), &sealed).await?;
    let client: RegisteredClient = serde_json::from_slice(&text).map_err(|_| VaultError::Form)?;
    // the gateway's public URL may have changed
    let is_ours = client.issuer == issuer && client.redirect_uri == metadata::redirect_uri(&context.issuer, backend);
    Ok((is_ours && !client.is_over(context.now())).then_some(client))
}

fn place<'a>(backend: &'a BackendId, issuer: &'a str) -> VaultPlace<'a> {
    VaultPlace { owner: VaultOwner::Gateway, backend: Some(backend), issuer, field: CLIENT }
}
