//! Assertions that prove that the gateway is the client of its metadata document (RFC 7523 2.2, `private_key_jwt`).

use std::time::Duration;

use serde_json::json;

use super::{context::UpstreamContext, error::UpstreamError, metadata};
use crate::oauth_client::{AuthenticatedClient, RegisteredClient, TokenSource};

/// Life of an assertion.
const LIFE: Duration = Duration::from_mins(1);

/// The client with its proof for the token endpoint of `source`.
pub(super) fn authenticated<'a>(
    context: &UpstreamContext,
    client: &'a RegisteredClient,
    source: &TokenSource,
) -> Result<AuthenticatedClient<'a>, UpstreamError> {
    if !metadata::is_signed(&context.issuer, &client.id) {
        return Ok(client.into());
    }
    let now = context.now();
    let claims = json!({
        "iss": client.id,
        "sub": client.id,
        "aud": source.issuer,
        "iat": now.as_seconds(),
        "exp": (now + LIFE).as_seconds(),
        "jti": context.random.token(),
    });
    let assertion = context.sign.sign(&claims).ok_or(UpstreamError::Assertion)?;
    Ok(AuthenticatedClient { assertion: Some(assertion), ..client.into() })
}
