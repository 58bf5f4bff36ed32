//! Failures of a login at a provider. The texts are for the log: people see the pages of `web`.

use super::pending_login::ProviderPrompt;
use crate::{
    fetch::{DocumentError, FetchError},
    oauth_client::{LoginError, OAuthRefusal},
};

/// Failure of a login at a provider.
#[derive(Debug, thiserror::Error)]
pub enum OpenIdError {
    /// There is no provider of this name.
    #[error("there is no such provider")]
    Unknown,
    /// The provider does not answer, or violates its specification.
    #[error("the provider cannot be used now: {0}")]
    Unavailable(String),
    /// Too many logins came from one network.
    #[error("too many logins from this network")]
    Limited,
    /// The answer belongs to no login in progress in this browser.
    #[error("the answer belongs to no login of this browser, or it is over")]
    Foreign,
    /// The answer names another issuer, or none although the provider always names itself (RFC 9207).
    #[error("the answer names another issuer")]
    Issuer,
    /// The person did not log in, or declined.
    #[error("the person did not log in there")]
    Declined,
    /// The provider does not support a choice of accounts: the login begins again without it.
    #[error("the provider rejects `prompt=select_account`; the gateway uses `prompt=login` instead")]
    NoChoice { prompt: ProviderPrompt, after: String },
    /// The answer came before, in the same browser: the login begins again.
    #[error("the answer was used before; the provider is asked once more")]
    Again { prompt: ProviderPrompt, after: String },
    /// The provider refuses the request of the gateway, with this code.
    #[error("the provider refuses: {0}")]
    Refused(String),
    /// The provider refuses to give tokens.
    #[error("the provider refuses: {0}")]
    RefusedTokens(OAuthRefusal),
    /// A token is not valid.
    #[error("a token of the provider is refused: {0}")]
    Token(#[from] TokenProblem),
}

/// Reason why a token is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenProblem {
    /// The response has no id token.
    #[error("there is none")]
    Missing,
    /// It is not a JWT, or a claim is missing or of another type.
    #[error("it is malformed")]
    Malformed,
    /// Its algorithm is not accepted.
    #[error("its algorithm is not accepted")]
    Algorithm,
    /// The provider has no such key.
    #[error("the provider has no such key")]
    Key,
    /// The signature is wrong.
    #[error("its signature is wrong")]
    Signature,
    #[error("it is from another issuer")]
    Issuer,
    /// It is for another audience.
    #[error("it is for another client")]
    Audience,
    /// Expired, or in the future, or issued before the login began.
    #[error("it is not valid at this time")]
    Time,
    /// The person logged in before the request for a fresh login.
    #[error("its login is from before the request for a new one")]
    Stale,
    /// It came with the refresh of another person's login.
    #[error("it is about another person")]
    Subject,
    /// It is for another login.
    #[error("its nonce is another one")]
    Nonce,
    /// An identity assertion has another type, so it was made for something else.
    #[error("it is not an identity assertion")]
    Kind,
    /// It was given to another client of the gateway.
    #[error("it was given to another client")]
    Client,
    /// It lasts for more than five minutes.
    #[error("it lasts for more than 5 minutes")]
    Lifetime,
    /// It requires something that the gateway cannot check (`cnf`, `authorization_details`).
    #[error("it has cnf or authorization_details")]
    Demands,
    /// A logout token is invalid, or names neither a person nor a session.
    #[error("it reports no logout")]
    Logout,
}

impl OpenIdError {
    /// A value that could not be sealed, which never happens.
    pub(super) fn unsealable() -> Self {
        Self::Unavailable("the gateway could not seal the login".to_owned())
    }
}

impl From<DocumentError> for OpenIdError {
    fn from(error: DocumentError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<FetchError> for OpenIdError {
    fn from(error: FetchError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<LoginError> for OpenIdError {
    fn from(error: LoginError) -> Self {
        match error {
            LoginError::Refused(refusal) => Self::RefusedTokens(refusal),
            error => Self::Unavailable(error.to_string()),
        }
    }
}
