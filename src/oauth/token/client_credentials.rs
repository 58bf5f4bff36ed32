//! The client credentials grant (RFC 6749 4.4; `OA-144`): tokens for a client's service account. There is no refresh
//! token: the client asks again.

use std::{sync::Arc, time::Duration};

use super::issuer::{Issued, Issuer};
use crate::{
    audit::{GrantEvent, GrantParties},
    model::{Client, ClientIp, Grant, GrantId, KeyAccount, Registrant, Scopes, TokenDelivery},
    oauth::{
        accounts::api_keys::{AccountEntry, Keys},
        error::ErrorResponse,
        form::Params,
        rate_limits::RateLimit,
        secrets::opaque,
    },
    storage::StorageError,
};

/// The client credentials grant.
pub(super) struct ClientCredentialsGrant {
    issuer: Arc<Issuer>,
    keys: Arc<Keys>,
    limits: RateLimit,
}

impl ClientCredentialsGrant {
    /// One client may ask 60 times at once, then once a second.
    pub(super) fn new(issuer: Arc<Issuer>) -> Self {
        let keys = Arc::clone(&issuer.keys);
        let limits = issuer.deps.limits.limit("client credentials", 60, Duration::from_secs(1));
        Self { issuer, keys, limits }
    }

    /// Issues an access token to an authenticated client, within the rights of its service account. A live grant is
    /// reused.
    pub(super) async fn issue(&self, client: &Client, form: &Params, from: ClientIp) -> Result<Issued, ErrorResponse> {
        if !matches!(client.registrant, Registrant::Operator(_)) || client.auth.is_public() {
            return Err(ErrorResponse::UnauthorizedClient);
        }
        let (deps, now) = (&self.issuer.deps, self.issuer.deps.now());
        self.limits.take(&client.id, now).map_err(ErrorResponse::Limited)?;
        let account = KeyAccount::Service { client: client.id.clone() };
        let AccountEntry::Open(holder) = self.keys.enter(&account).await? else {
            return Err(ErrorResponse::UnauthorizedClient);
        };
        if !holder.networks.allow(from.0) {
            self.keys.record_elsewhere(&holder.key, from.0);
            return Err(ErrorResponse::UnauthorizedClient);
        }
        let settings = &deps.settings;
        let named = settings.endpoint_of(form.all("resource")).map_err(|_| ErrorResponse::InvalidTarget)?;
        let asked = form.get("scope")?.or(client.scope.as_deref()).unwrap_or_default();
        let asked = Scopes::parse(asked).map_err(|_| ErrorResponse::InvalidScope)?;
        let (endpoint, scopes) = settings.resolve(named.as_ref(), &asked).ok_or(ErrorResponse::InvalidTarget)?;
        if !settings.backends.verdict(holder.subject(), &endpoint.target, None).is_open() {
            return Err(ErrorResponse::InvalidTarget);
        }
        let end = now + settings.policy.get().refresh_absolute;
        let end = self.keys.ends(&holder.key).await?.map_or(end, |key_end| key_end.min(end));
        let grant = Grant {
            id: GrantId::new(opaque::base62(&*deps.random, 22)),
            scopes: holder.subject().grantable(&scopes),
            user: holder.user,
            key: holder.key,
            client: client.id.clone(),
            endpoint,
            delivery: TokenDelivery::Service,
            created: now,
            expires: end,
            last_used: None,
            revoked: None,
        };
        let until = (now + settings.policy.get().access_token_lifetime).min(end);
        let grant = match deps.storage.grants().reuse_or_add(&grant, until).await {
            Err(StorageError::Ended) => return Err(ErrorResponse::UnauthorizedClient),
            grant => grant?,
        };
        let generation = opaque::base62(&*deps.random, 16);
        deps.audit.record(GrantEvent::ServiceToken(GrantParties::of(&grant)));
        Ok(self.issuer.issue(&grant, grant.scopes.clone(), &generation, now)?)
    }
}
