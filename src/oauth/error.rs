//! Errors of the authorization server and their responses to clients. Pages belong to `web`.

use std::time::Duration;

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde_json::json;

use super::{
    form::Repeated,
    logged_reason::{ClientProblem, GrantProblem},
};
use crate::{
    audit::{Audit, RefusalEvent},
    model::RefusalReason,
    storage,
    support::NotSealedHere,
};

/// Internal error; never shown to clients.
#[derive(Debug, thiserror::Error)]
pub enum OAuthError {
    #[error(transparent)]
    Storage(#[from] storage::StorageError),
    /// The master key file cannot be read or created.
    #[error("the master key file {path} cannot be read: {source}; make it readable by the gateway only")]
    MasterKeyFile { path: String, source: std::io::Error },
    /// The configured master key file cannot be read.
    #[error(
        "the master key file {path}, which `master_key_file` or LOCKKEEPER_MASTER_KEY_FILE names, cannot be read, and the gateway \
         does not create it; put the key that belongs to the database there, or remove the setting: {source}"
    )]
    NamedMasterKey { path: String, source: std::io::Error },
    /// The configured master key file has no key.
    #[error(
        "the master key file {0}, which `master_key_file` or LOCKKEEPER_MASTER_KEY_FILE names, does not have 32 bytes in base64url \
         without padding; put the key that belongs to the database there"
    )]
    NamedMasterKeyForm(String),
    /// The master key file is missing, and the database has secrets.
    #[error(
        "the master key is missing: the secrets in the database are encrypted under it, and it was expected in {0}. Put it back \
         there from a backup, or name the file that has it with `master_key_file` or LOCKKEEPER_MASTER_KEY_FILE. Nothing was \
         created: a new key would open none of them. If it is lost, so are the keys, grants and logins of this database, and a \
         gateway can only start over, in an empty data folder"
    )]
    MasterKeyMissing(String),
    /// A folder has the name of the master key file.
    #[error(
        "{0} is a folder, and should be the file of the master key; Docker makes a folder where a file that is to be mounted is \
         missing. Remove it, and put the key there"
    )]
    MasterKeyFolder(String),
    /// The master key is not 32 bytes in base64url.
    #[error(
        "the master key is not 32 bytes in base64url without padding; restore the one that belongs to the database"
    )]
    MasterKeyForm,
    /// A secret in the database does not decrypt with this master key.
    #[error(
        "a secret in the database does not decrypt with this master key; restore the one that belongs to the database"
    )]
    Sealed(#[from] NotSealedHere),
    /// The signing key cannot be created or used.
    #[error("the signing key cannot be created or used")]
    SigningKey,
    /// A stored authorization request cannot be read.
    #[error("a stored authorization request cannot be read")]
    Transaction,
    /// A key would be bound to networks, and any machine in a private network can claim any client address.
    #[error(
        "keys cannot be bound to networks while `trusted_proxies` is \"private\": anyone in a private network can \
         claim any address"
    )]
    NetworksBehindPrivateProxies,
    /// A new key's name is empty or longer than 100 characters.
    #[error("the name of an API key takes 1 to 100 characters")]
    KeyName,
}

/// Error response of an OAuth endpoint (RFC 6749 5.2, RFC 7591 3.2.2, RFC 8707 2).
#[derive(Debug, thiserror::Error)]
pub enum ErrorResponse {
    /// `invalid_request`: a parameter is missing, repeated or malformed.
    #[error("{0}")]
    InvalidRequest(String),
    /// `invalid_client`: client authentication failed; the log has the reason.
    #[error("the client is unknown or did not authenticate as it registered; register again")]
    InvalidClient(Scheme, ClientProblem),
    /// `invalid_grant`: the code, refresh token or identity assertion is invalid; only the log has the reason.
    #[error("the code, refresh token or identity assertion cannot be used; authorize again")]
    InvalidGrant(GrantProblem),
    /// `unauthorized_client`: the client did not register for this grant type.
    #[error("the client may not use this grant type")]
    UnauthorizedClient,
    /// `unsupported_grant_type`: the server does not have this grant type.
    #[error("this grant type is not supported; the metadata of the server name those that are")]
    UnsupportedGrantType,
    /// `authorization_pending` (RFC 8628 3.5): the person has not decided yet.
    #[error("the person has not decided yet")]
    AuthorizationPending,
    /// `slow_down` (RFC 8628 3.5): the poll came too early.
    #[error("the poll came too early; wait 5 seconds longer from now on")]
    SlowDown,
    /// `expired_token` (RFC 8628 3.5): no decision came in time.
    #[error("the device code has expired; ask for another one")]
    ExpiredToken,
    /// `access_denied` (RFC 8628 3.5).
    #[error("the person denied access")]
    AccessDenied,
    /// `invalid_scope`: a scope is malformed or wider than what was granted.
    #[error("a scope is malformed or was not granted")]
    InvalidScope,
    /// `invalid_target`: another resource was authorized.
    #[error("the resource is not the one that was authorized")]
    InvalidTarget,
    /// An error of RFC 6749 4.1.2.1 in a pushed request (RFC 9126 2.3).
    #[error("{1}")]
    AuthorizationRequest(&'static str, String),
    /// `invalid_redirect_uri` (RFC 7591 3.2.2).
    #[error("{0}")]
    InvalidRedirectUri(String),
    /// `invalid_client_metadata` (RFC 7591 3.2.2).
    #[error("{0}")]
    InvalidClientMetadata(String),
    /// The form is longer than this number of bytes (`OA-30`); RFC 6749 has no code for it.
    #[error("the body is larger than {0} bytes")]
    FormTooLarge(usize),
    /// The registration is longer than this number of bytes (`OA-30`).
    #[error("the body is larger than {0} bytes")]
    RegistrationTooLarge(usize),
    /// Too many requests of this kind.
    #[error("too many requests of this kind; try again in {} s", .0.as_secs() + 1)]
    Limited(Duration),
    /// RFC 6750 3.1: registration needs an initial access token (RFC 7591 3).
    #[error("registration needs an initial access token, which the operator gives: send it as a bearer token")]
    InitialAccessToken(InitialAccessProblem),
    #[error("dynamic registration is off; ask the operator")]
    RegistrationOff,
    /// Registration is for clients with other redirect URIs (`OA-44`).
    #[error("clients of these redirect URIs may not register here; ask the operator to list their hosts")]
    RegistrationNotListed,
    /// The operator revoked a client with the same registration.
    #[error("the operator revoked this client; ask the operator to restore it")]
    ClientRevoked,
    #[error("the gateway failed; try again")]
    Internal(#[from] OAuthError),
}

/// Client authentication scheme of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Basic,
    Form,
}

/// The problem with a registration's token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitialAccessProblem {
    /// There is no bearer token.
    Missing,
    /// It is unknown, revoked, expired or used up.
    Invalid,
}

// === impl OAuthError ===

impl OAuthError {
    /// True if another try may succeed.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Storage(error) if error.is_busy())
    }

    /// True if the configuration is at fault, so that a start with the same configuration cannot succeed.
    pub const fn is_of_configuration(&self) -> bool {
        matches!(
            self,
            Self::NamedMasterKey { .. }
                | Self::NamedMasterKeyForm(_)
                | Self::MasterKeyMissing(_)
                | Self::MasterKeyFolder(_)
        )
    }
}

// === impl ErrorResponse ===

impl ErrorResponse {
    /// Error for a missing parameter.
    pub fn missing(parameter: &str) -> Self {
        Self::InvalidRequest(format!("the parameter {parameter} is missing"))
    }

    /// HTTP status and error code.
    pub fn code(&self) -> (StatusCode, &'static str) {
        let bad = StatusCode::BAD_REQUEST;
        match self {
            Self::InvalidRequest(_) => (bad, "invalid_request"),
            // 401 even for an unknown client, which makes clients register again (OA-81)
            Self::InvalidClient(..) => (StatusCode::UNAUTHORIZED, "invalid_client"),
            Self::InvalidGrant(_) => (bad, "invalid_grant"),
            Self::UnauthorizedClient => (bad, "unauthorized_client"),
            Self::UnsupportedGrantType => (bad, "unsupported_grant_type"),
            Self::AuthorizationPending => (bad, "authorization_pending"),
            Self::SlowDown => (bad, "slow_down"),
            Self::ExpiredToken => (bad, "expired_token"),
            Self::AccessDenied => (bad, "access_denied"),
            Self::InvalidScope => (bad, "invalid_scope"),
            Self::InvalidTarget => (bad, "invalid_target"),
            Self::AuthorizationRequest(error, _) => (bad, error),
            Self::InvalidRedirectUri(_) => (bad, "invalid_redirect_uri"),
            Self::InvalidClientMetadata(_) => (bad, "invalid_client_metadata"),
            Self::FormTooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "invalid_request"),
            Self::RegistrationTooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "invalid_client_metadata"),
            Self::Limited(_) => (StatusCode::TOO_MANY_REQUESTS, "temporarily_unavailable"),
            Self::InitialAccessToken(_) => (StatusCode::UNAUTHORIZED, "invalid_token"),
            Self::RegistrationNotListed => (StatusCode::FORBIDDEN, "invalid_redirect_uri"),
            Self::RegistrationOff | Self::ClientRevoked => (StatusCode::FORBIDDEN, "access_denied"),
            Self::Internal(error) if error.is_busy() => (StatusCode::SERVICE_UNAVAILABLE, "temporarily_unavailable"),
            Self::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "server_error"),
        }
    }
}

/// A refusal, with the reason that the response leaves out. It holds no secrets. It is an extension of the response
/// until it is recorded.
#[derive(Debug, Clone)]
pub(super) struct RefusedRequest {
    error: &'static str,
    reason: String,
}

impl RefusedRequest {
    /// The refusal; `None` for a failure of the gateway, which is logged, and for a device that is still waiting.
    fn of(response: &ErrorResponse) -> Option<Self> {
        let (_, error) = response.code();
        let reason = match response {
            ErrorResponse::Internal(error) => {
                tracing::error!(%error, "an OAuth request failed");
                return None;
            }
            ErrorResponse::AuthorizationPending | ErrorResponse::SlowDown => return None,
            ErrorResponse::InvalidClient(_, problem) => problem.to_string(),
            ErrorResponse::InvalidGrant(problem) => problem.to_string(),
            other => other.to_string(),
        };
        Some(Self { error, reason })
    }
}

/// Records the refusal in a response, if it has one.
pub(super) async fn record_refusal(State(audit): State<Audit>, mut response: Response) -> Response {
    if let Some(RefusedRequest { error, reason }) = response.extensions_mut().remove() {
        audit.record(RefusalEvent::Request { error, reason });
    }
    response
}

impl From<storage::StorageError> for ErrorResponse {
    fn from(error: storage::StorageError) -> Self {
        Self::Internal(error.into())
    }
}

impl From<Repeated> for ErrorResponse {
    fn from(error: Repeated) -> Self {
        Self::InvalidRequest(error.to_string())
    }
}

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response {
        let refused = RefusedRequest::of(&self);
        let (status, code) = self.code();
        metrics::counter!("lockkeeper_oauth_refusals_total", "error" => code).increment(1);
        let body = axum::Json(json!({ "error": code, "error_description": self.to_string() }));
        let mut response = (status, body).into_response();
        if let Some(refused) = refused {
            let reason = format!("{}: {}", refused.error, refused.reason);
            response.extensions_mut().insert(RefusalReason::new(reason));
            response.extensions_mut().insert(refused);
        }
        let mut add = |name: HeaderName, value: String| {
            if let Ok(value) = HeaderValue::try_from(value) {
                response.headers_mut().insert(name, value);
            }
        };
        match self {
            Self::InvalidClient(Scheme::Basic, _) => add(header::WWW_AUTHENTICATE, r#"Basic realm="oauth""#.to_owned()),
            // without a token there is no error in the challenge (RFC 6750 3)
            Self::InitialAccessToken(InitialAccessProblem::Missing) => {
                add(header::WWW_AUTHENTICATE, r#"Bearer realm="registration""#.to_owned());
            }
            Self::InitialAccessToken(InitialAccessProblem::Invalid) => {
                add(header::WWW_AUTHENTICATE, r#"Bearer realm="registration", error="invalid_token""#.to_owned());
            }
            Self::Limited(wait) => add(header::RETRY_AFTER, (wait.as_secs() + 1).to_string()),
            Self::Internal(error) if error.is_busy() => add(header::RETRY_AFTER, "1".to_owned()),
            _ => {}
        }
        response
    }
}
