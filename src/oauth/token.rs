//! The token endpoint (RFC 6749 3.2; `OA-80` to `OA-97`): one file a grant type. Knows nothing of routes.

mod code;
mod refresh;

use http::HeaderMap;
use serde_json::{Value, json};

pub(super) use self::refresh::limits as refresh_limits;
use super::{Error, OAuth, access_token::Claims, error::Failure, form::Params, opaque, problem::GrantProblem};
use crate::{
    model::{Client, Grant, GrantId, GrantType, Scopes},
    storage::NewRefreshToken,
    support::{Secret, Timestamp},
};

/// What is issued: an access token, and the refresh token beside it where the client may have one.
#[derive(Debug)]
struct Issued {
    access: Secret,
    expires_in: i64,
    scopes: Scopes,
    refresh: Option<Secret>,
}

impl OAuth {
    /// Answers a token request: the JSON of RFC 6749 5.1.
    pub(super) async fn token(&self, headers: &HeaderMap, form: &Params) -> Result<Value, Failure> {
        let client = self.authenticate_client(headers, form).await?;
        let name = form.get("grant_type")?.ok_or_else(|| Failure::missing("grant_type"))?;
        let grant_type = GrantType::parse(name).ok_or(Failure::UnsupportedGrantType)?;
        if !client.grant_types.contains(&grant_type) {
            return Err(Failure::UnauthorizedClient);
        }
        let issued = match grant_type {
            GrantType::AuthorizationCode => self.redeem(&client, form).await?,
            GrantType::RefreshToken => self.refresh(&client, form).await?,
        };
        metrics::counter!("lockkeeper_tokens_issued_total", "grant_type" => grant_type.to_string()).increment(1);
        Ok(issued.into_json())
    }

    /// The grant, where tokens may still be issued on it for this client: neither it nor its key is revoked.
    async fn live_grant(&self, id: &GrantId, client: &Client) -> Result<Grant, Failure> {
        let refused = |problem: GrantProblem| Err(Failure::InvalidGrant(problem));
        let Some(grant) = self.0.storage.lookup_grant(id).await? else {
            return refused(GrantProblem::UnknownGrant(id.clone()));
        };
        // a foreign code or token tells nothing and changes nothing (N-90)
        if grant.client != client.id {
            return refused(GrantProblem::ForeignClient { grant: grant.id, presented_by: client.id.clone() });
        }
        if grant.revoked.is_some() {
            return refused(GrantProblem::GrantRevoked(grant.id));
        }
        if !grant.is_live(self.0.clock.now()) {
            return refused(GrantProblem::GrantExpired(grant.id));
        }
        if !self.key_is_live(&grant.key).await? {
            return refused(GrantProblem::KeyEnded(grant.id));
        }
        Ok(grant)
    }

    /// `resource` may be left out; otherwise it names the endpoint of the grant (`OA-86`).
    fn check_resource(&self, form: &Params, grant: &Grant) -> Result<(), Failure> {
        match self.settings().endpoint_of(form.all("resource")) {
            Ok(None) => Ok(()),
            Ok(Some(endpoint)) if endpoint == grant.endpoint => Ok(()),
            _ => Err(Failure::InvalidTarget),
        }
    }

    /// A new refresh token of a grant, and what the store holds of it.
    fn mint_refresh(&self, grant: &Grant, now: Timestamp) -> (Secret, NewRefreshToken) {
        let token = opaque::mint_refresh(&*self.0.random);
        let row = NewRefreshToken {
            digest: token.digest(),
            generation: opaque::base62(&*self.0.random, 16),
            expires: (now + self.settings().policy.refresh_idle).min(grant.expires),
        };
        (token, row)
    }

    /// A new access token beside the refresh token of this generation (`OA-98`).
    fn issue(&self, grant: &Grant, scopes: Scopes, generation: &str, now: Timestamp) -> Result<Issued, Error> {
        let settings = self.settings();
        let expires = (now + settings.policy.access_token_lifetime).min(grant.expires);
        let claims = Claims {
            iss: settings.issuer.clone(),
            sub: grant.user.to_string(),
            aud: settings.resource(&grant.endpoint),
            client_id: grant.client.to_string(),
            iat: now.as_seconds(),
            exp: expires.as_seconds(),
            jti: format!("{generation}.{}", opaque::base62(&*self.0.random, 16)),
            scope: scopes.to_string(),
            gid: grant.id.to_string(),
            auth_time: grant.created.as_seconds(),
            nbf: None,
        };
        let expires_in = claims.exp - claims.iat;
        Ok(Issued { access: claims.sign(&self.0.signing)?, expires_in, scopes, refresh: None })
    }
}

/// The scopes of the token: those of the grant, or fewer that are asked for, never more. `offline_access` is tolerated
/// although nobody ever has it (`OA-94`).
fn narrowed(form: &Params, grant: &Grant) -> Result<Scopes, Failure> {
    let Some(asked) = form.get("scope")? else { return Ok(grant.scopes.clone()) };
    let scopes = Scopes::parse(asked).map_err(|_| Failure::InvalidScope)?;
    if !grant.scopes.includes(&scopes) {
        return Err(Failure::InvalidScope);
    }
    Ok(if scopes.is_empty() { grant.scopes.clone() } else { scopes })
}

impl Issued {
    /// RFC 6749 5.1; `scope` is always there, and nothing is null (`OA-87`).
    fn into_json(self) -> Value {
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
