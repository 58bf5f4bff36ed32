//! Tokens issued for a grant: access tokens and their refresh tokens, for any grant type.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    model::{Client, ClientIp, Grant, GrantId, Scopes},
    oauth::{
        accounts::api_keys::Keys,
        credentials::access_token::Claims,
        dependencies::OAuthDeps,
        error::{ErrorResponse, OAuthError},
        form::Params,
        logged_reason::GrantProblem,
        secrets::{opaque, signing::SigningKeys},
    },
    storage::NewRefreshToken,
    support::{Secret, Timestamp},
};

/// Issued tokens: an access token, and a refresh token if the client may have one.
#[derive(Debug)]
pub(super) struct Issued {
    pub(super) access: Secret,
    pub(super) expires_in: i64,
    pub(super) scopes: Scopes,
    pub(super) refresh: Option<Secret>,
}

pub(super) struct Issuer {
    pub(super) deps: OAuthDeps,
    pub(super) keys: Arc<Keys>,
    pub(super) signing: Arc<SigningKeys>,
}

// === impl Issuer ===

impl Issuer {
    /// The grant, if this client may get tokens for it at this address: neither the grant nor the key behind it is
    /// revoked.
    pub(super) async fn live_grant(
        &self,
        id: &GrantId,
        client: &Client,
        from: ClientIp,
    ) -> Result<Grant, ErrorResponse> {
        let refused = |problem: GrantProblem| Err(ErrorResponse::InvalidGrant(problem));
        let Some(grant) = self.deps.storage.grants().lookup(id).await? else {
            return refused(GrantProblem::UnknownGrant(id.clone()));
        };
        // the code or token of another client reveals and changes nothing (N-90)
        if grant.client != client.id {
            return refused(GrantProblem::ForeignClient { grant: grant.id, presented_by: client.id.clone() });
        }
        if grant.revoked.is_some() {
            return refused(GrantProblem::GrantRevoked(grant.id));
        }
        if !grant.is_live(self.deps.now()) {
            return refused(GrantProblem::GrantExpired(grant.id));
        }
        match self.keys.holder(&grant.key).await? {
            None => refused(GrantProblem::KeyEnded(grant.id)),
            Some(holder) if !holder.networks.allow(from.0) => refused(GrantProblem::Elsewhere(grant.id)),
            Some(_) => Ok(grant),
        }
    }

    /// Checks `resource`: if present, it must name the endpoint of the grant (`OA-86`).
    pub(super) fn check_resource(&self, form: &Params, grant: &Grant) -> Result<(), ErrorResponse> {
        match self.deps.settings.endpoint_of(form.all("resource")) {
            Ok(None) => Ok(()),
            Ok(Some(endpoint)) if endpoint == grant.endpoint => Ok(()),
            _ => Err(ErrorResponse::InvalidTarget),
        }
    }

    /// Creates a refresh token, and its row for the store.
    pub(super) fn mint_refresh(&self, grant: &Grant, now: Timestamp) -> (Secret, NewRefreshToken) {
        let token = opaque::mint_refresh(&*self.deps.random);
        let row = NewRefreshToken {
            digest: token.digest(),
            generation: opaque::base62(&*self.deps.random, 16),
            expires: (now + self.deps.settings.policy.get().refresh_idle).min(grant.expires),
        };
        (token, row)
    }

    /// Issues an access token with the generation of its refresh token (`OA-98`).
    pub(super) fn issue(
        &self,
        grant: &Grant,
        scopes: Scopes,
        generation: &str,
        now: Timestamp,
    ) -> Result<Issued, OAuthError> {
        let settings = &self.deps.settings;
        let expires = (now + settings.policy.get().access_token_lifetime).min(grant.expires);
        let claims = Claims {
            iss: settings.issuer.clone(),
            sub: grant.user.to_string(),
            aud: settings.resource(&grant.endpoint),
            client_id: grant.client.to_string(),
            iat: now.as_seconds(),
            exp: expires.as_seconds(),
            jti: format!("{generation}.{}", opaque::base62(&*self.deps.random, 16)),
            scope: scopes.to_string(),
            gid: grant.id.to_string(),
            auth_time: grant.created.as_seconds(),
            nbf: None,
        };
        let expires_in = claims.exp - claims.iat;
        Ok(Issued { access: claims.sign(&self.signing.current(), now)?, expires_in, scopes, refresh: None })
    }
}

/// Scopes of the token: the grant's, or the requested ones within the grant, which the response then names. Names that
/// are not scopes here, such as `offline_access`, are ignored (`OA-94`).
pub(super) fn narrowed(form: &Params, grant: &Grant) -> Result<Scopes, ErrorResponse> {
    let Some(asked) = form.get("scope")? else { return Ok(grant.scopes.clone()) };
    let scopes = Scopes::parse(asked).map_err(|_| ErrorResponse::InvalidScope)?;
    if scopes.is_empty() {
        return Ok(grant.scopes.clone());
    }
    let left: Scopes = scopes.iter().filter(|scope| grant.scopes.contains(scope)).cloned().collect();
    if left.is_empty() { Err(ErrorResponse::InvalidScope) } else { Ok(left) }
}

// === impl Issued ===

impl Issued {
    /// Response of RFC 6749 5.1; `scope` is always present, and nothing is null (`OA-87`).
    pub(super) fn into_json(self) -> Value {
        let mut answer = json!({
            "access_token": self.access.expose(),
            "token_type": "Bearer",
            "expires_in": self.expires_in,
            "scope": self.scopes.to_string(),
        });
        if let Some(refresh) = self.refresh {
            answer["refresh_token"] = json!(refresh.expose());
        }
        answer
    }
}
