//! Reasons for refusing a client, a code or a refresh token. They are only for the log, because the response must not
//! reveal them (RFC 6749 5.2). No reason holds a secret.

use std::fmt;

use super::secrets::opaque;
use crate::model::{ClientId, GrantId};

/// Failure of client authentication.
#[derive(Debug, thiserror::Error)]
pub enum ClientProblem {
    /// There is neither an `Authorization` header nor a `client_id`.
    #[error("the request names no client")]
    Unnamed,
    /// The header and the form name different clients.
    #[error("the Authorization header and client_id name two clients")]
    Contradiction,
    /// The header is not of the scheme `Basic`, or cannot be decoded.
    #[error("the Authorization header holds no Basic credentials")]
    Malformed,
    /// Never registered, revoked, or deleted unused.
    #[error(
        "client {0} is not registered: it never registered, its registration expired unused, or the operator revoked it"
    )]
    Unknown(NamedClient),
    /// The method is not the registered one.
    #[error("client {0} did not use the authentication method {1} that it registered")]
    Method(ClientId, &'static str),
    /// Its secret is wrong.
    #[error("client {0} sent a wrong secret")]
    Secret(ClientId),
    /// Its assertion cannot be read.
    #[error("a client sent an assertion that cannot be used: {0}")]
    AssertionForm(&'static str),
    /// Its assertion is refused.
    #[error("client {0} sent an assertion that is refused: {1}")]
    Assertion(ClientId, &'static str),
    /// There are no keys to check its assertion with.
    #[error("client {0} sent an assertion that cannot be checked: {1}")]
    Keys(ClientId, String),
    /// `client_assertion_type` is missing or unknown.
    #[error("a client sent an assertion of another type than jwt-bearer")]
    AssertionType,
    /// The client has no secret, but needs one here.
    #[error("client {0} has no secret to prove who it is")]
    Public(ClientId),
}

/// Reason for an `invalid_grant` response.
#[derive(Debug, thiserror::Error)]
pub enum GrantProblem {
    /// Unknown code: it never existed, or was deleted an hour after it expired.
    #[error("client {0} sent a code that does not exist or expired more than an hour ago")]
    UnknownCode(ClientId),
    #[error("the code of grant {0} expired before it was redeemed")]
    CodeExpired(GrantId),
    /// The code was redeemed before.
    #[error("the code of grant {0} was redeemed before; the grant is revoked")]
    CodeReplayed(GrantId),
    /// The code was redeemed some seconds before, and its client is retrying.
    #[error("the code of grant {0} was redeemed some seconds before; the grant stays")]
    CodeRepeated(GrantId),
    /// `redirect_uri` differs from the authorization request.
    #[error("redirect_uri is not the one that grant {0} was authorized with")]
    RedirectUri(GrantId),
    /// PKCE: there is no `code_verifier`.
    #[error("the code of grant {0} was sent without code_verifier")]
    VerifierMissing(GrantId),
    /// PKCE: `code_verifier` does not match.
    #[error("code_verifier does not match the code_challenge of grant {0}")]
    VerifierWrong(GrantId),
    /// Malformed refresh token: another kind of token, or truncated.
    #[error("client {0} sent a refresh token whose form or checksum is wrong")]
    TokenMalformed(ClientId),
    /// Unknown refresh token: it never existed, or was deleted after its grant ended.
    #[error("client {0} sent a refresh token that does not exist; its grant may have ended and been deleted")]
    UnknownToken(ClientId),
    /// The refresh token was idle for too long.
    #[error("the refresh token of grant {0} expired unused (refresh_idle)")]
    TokenExpired(GrantId),
    /// The refresh token was replaced, and its successor was used.
    #[error("a refresh token of grant {0} was used again after its successor; the grant is revoked")]
    TokenReused(GrantId),
    #[error("client {0} sent a device code that does not exist, or that belongs to another client")]
    UnknownDevice(ClientId),
    /// A device code that was redeemed before.
    #[error("the device code of grant {0} was redeemed before")]
    DeviceReplayed(GrantId),
    /// An identity assertion is refused.
    #[error("client {0} sent an identity assertion that is refused: {1}")]
    Assertion(ClientId, String),
    /// The grant was deleted after its end.
    #[error("grant {0} ended and was deleted")]
    UnknownGrant(GrantId),
    /// Presented by another client.
    #[error("client {presented_by} sent a code or refresh token of grant {grant}, which belongs to another client")]
    ForeignClient {
        grant: GrantId,
        /// The client that presented it.
        presented_by: ClientId,
    },
    /// The grant was revoked: by a person, by the client, or after a token was reused.
    #[error("grant {0} was revoked")]
    GrantRevoked(GrantId),
    #[error("grant {0} has expired (refresh_absolute)")]
    GrantExpired(GrantId),
    /// The API key behind the grant was revoked or has expired.
    #[error("the API key behind grant {0} was revoked or has expired, or its user is disabled")]
    KeyEnded(GrantId),
    /// The client is outside of the networks of the API key behind the grant.
    #[error("the request came from an address outside of the networks of the API key behind grant {0}")]
    Elsewhere(GrantId),
}

/// An unknown client's id, if it may be logged: unchecked input may hold a secret.
#[derive(Debug)]
pub struct NamedClient(Option<ClientId>);

// === impl NamedClient ===

impl NamedClient {
    /// Keeps the id if it has the form of this gateway's client ids.
    pub fn new(name: &str) -> Self {
        let fits = name.len() == opaque::CLIENT_ID_LENGTH && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        Self(fits.then(|| ClientId::new(name)))
    }
}

impl fmt::Display for NamedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(id) => id.fmt(f),
            None => f.write_str("(whose id is not one of this gateway's)"),
        }
    }
}
