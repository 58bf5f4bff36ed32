//! Why a client, a code or a refresh token is refused: for the log alone, since the answer must not tell (RFC 6749 5.2).
//! Knows nothing of HTTP. No problem holds a secret.

use std::fmt;

use crate::model::{ClientId, GrantId};

/// Why a client did not authenticate.
#[derive(Debug, thiserror::Error)]
pub enum ClientProblem {
    /// There is neither an `Authorization` header nor a `client_id`.
    #[error("the request names no client")]
    Unnamed,
    /// The header names another client than the form.
    #[error("the Authorization header and client_id name two clients")]
    Contradiction,
    /// The header is not of the scheme `Basic`, or cannot be decoded.
    #[error("the Authorization header holds no Basic credentials")]
    Malformed,
    /// It never registered, or was revoked, or its registration was deleted unused.
    #[error("client {0} is not registered: it never was, its registration expired unused, or the operator revoked it")]
    Unknown(NamedClient),
    /// It registered for another method than it used.
    #[error("client {0} authenticated by another method than the {1} that it registered")]
    Method(ClientId, &'static str),
    /// Its secret is wrong.
    #[error("client {0} sent a wrong secret")]
    Secret(ClientId),
}

/// Why a code or refresh token buys nothing.
#[derive(Debug, thiserror::Error)]
pub enum GrantProblem {
    /// No code has this digest: it never existed, or was deleted an hour after it expired.
    #[error("client {0} sent a code that does not exist or expired more than an hour ago")]
    UnknownCode(ClientId),
    /// The code was not redeemed in time.
    #[error("the code of grant {0} expired before it was redeemed")]
    CodeExpired(GrantId),
    /// The code was redeemed before.
    #[error("the code of grant {0} was redeemed before; the grant is revoked")]
    CodeReplayed(GrantId),
    /// `redirect_uri` is not the one of the authorization request.
    #[error("redirect_uri is not the one that grant {0} was authorized with")]
    RedirectUri(GrantId),
    /// PKCE: there is no `code_verifier`.
    #[error("the code of grant {0} was sent without code_verifier")]
    VerifierMissing(GrantId),
    /// PKCE: `code_verifier` does not match.
    #[error("code_verifier does not match the code_challenge of grant {0}")]
    VerifierWrong(GrantId),
    /// The refresh token has not the form of one: it is another token, or was cut.
    #[error("client {0} sent a refresh token whose form or checksum is wrong")]
    TokenMalformed(ClientId),
    /// No refresh token has this digest: it never existed, or its grant was deleted after its end.
    #[error("client {0} sent a refresh token that does not exist; its grant may have ended and been deleted")]
    UnknownToken(ClientId),
    /// The refresh token was not used for too long.
    #[error("the refresh token of grant {0} expired unused (refresh_idle)")]
    TokenExpired(GrantId),
    /// The refresh token was replaced, and its successor was used.
    #[error("a refresh token of grant {0} was used again after its successor; the grant is revoked")]
    TokenReused(GrantId),
    /// The grant was deleted after its end.
    #[error("grant {0} ended and was deleted")]
    UnknownGrant(GrantId),
    /// Another client presents it.
    #[error("client {presented_by} sent a code or refresh token of grant {grant}, which belongs to another client")]
    ForeignClient {
        /// The grant.
        grant: GrantId,
        /// The client that presented it.
        presented_by: ClientId,
    },
    /// The grant was revoked: by a person, by the client, or because a token was used twice.
    #[error("grant {0} was revoked")]
    GrantRevoked(GrantId),
    /// The grant reached the end of its life.
    #[error("grant {0} has expired (refresh_absolute)")]
    GrantExpired(GrantId),
    /// The API key behind the grant was revoked or has expired.
    #[error("the API key behind grant {0} was revoked or has expired")]
    KeyEnded(GrantId),
}

/// The name of a client that is not registered, as far as it can be logged: what a stranger sends may hold anything, a
/// secret included.
#[derive(Debug)]
pub struct NamedClient(Option<ClientId>);

// === impl NamedClient ===

impl NamedClient {
    /// Keeps the name where it has the form of the gateway's client ids.
    pub fn new(name: &str) -> Self {
        let fits =
            name.len() == super::opaque::CLIENT_ID_LENGTH && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
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
