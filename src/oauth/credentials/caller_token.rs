//! Tokens that identify the caller to a server: short-lived JWTs for one audience. They are signed like access tokens,
//! and can be verified with the same published keys. The gateway itself does not accept them.

use std::{sync::Arc, time::Duration};

use jsonwebtoken::{Algorithm, Header};
use serde::Serialize;

use crate::{
    model::{CallerIdentity, ClientId, IdentitySigner, SignedIdentity},
    oauth::{dependencies::OAuthDeps, secrets::signing::SigningKeys},
    support::Secret,
};

/// Lifetime of a token.
const LIFETIME: Duration = Duration::from_mins(5);
/// Time that a token is used. The rest of its life is margin for slow requests and clocks that differ.
const USED_FOR: Duration = Duration::from_mins(4);

#[derive(Serialize)]
struct CallerClaims<'a> {
    iss: &'a str,
    sub: &'a str,
    aud: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_id: Option<&'a str>,
    iat: i64,
    exp: i64,
    jti: String,
}

/// The signer of the caller's identity.
pub(in crate::oauth) fn signer(deps: OAuthDeps, keys: Arc<SigningKeys>) -> IdentitySigner {
    Arc::new(move |caller, audience| {
        let signed = sign(&deps, &keys, caller, audience);
        if signed.is_none() {
            tracing::error!(audience, "there is no usable signing key for a token that says who calls");
        }
        signed
    })
}

fn sign(deps: &OAuthDeps, keys: &SigningKeys, caller: &CallerIdentity, audience: &str) -> Option<SignedIdentity> {
    let (now, keys) = (deps.now(), keys.current());
    let (kid, key) = keys.active(now)?;
    let expires = now + LIFETIME;
    let claims = CallerClaims {
        iss: &deps.settings.issuer,
        sub: caller.user.as_str(),
        aud: audience,
        client_id: caller.client.as_ref().map(ClientId::as_str),
        iat: now.as_seconds(),
        exp: expires.as_seconds(),
        jti: deps.random.token(),
    };
    let header = Header { kid: Some(kid.to_owned()), ..Header::new(Algorithm::ES256) };
    let token = jsonwebtoken::encode(&header, &claims, key).ok()?;
    Some(SignedIdentity { token: Secret::new(token), renewed_at: now + USED_FOR })
}
