//! Error of a login. Knows nothing of its steps.

use super::refusal::{OAuthRefusal, RefusalMeaning};

/// A login that did not succeed: what happened, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The authorization server cannot be reached, or fails; the tokens are kept.
    #[error("{0}")]
    Unavailable(String),
    /// The server's metadata, or an answer, breaks a rule of the specification.
    #[error("{0}")]
    Untrusted(String),
    /// The authorization server refused.
    #[error("{0}")]
    Refused(OAuthRefusal),
    /// The authorization server does not accept the client that was given: no login of a person can succeed.
    #[error(
        "{issuer} does not accept the client `{id}`, which was registered there by hand: {refusal}. Its id, its secret or its \
         registration has to be corrected"
    )]
    GivenClient {
        /// The authorization server.
        issuer: String,
        /// The client.
        id: String,
        /// Its words.
        refusal: OAuthRefusal,
    },
    /// Tokens that are kept may be of no use any more: the error, and what to do for a new login.
    #[error("{0}. If that stays so, {1}")]
    Stuck(Box<Self>, String),
    /// The authorization server takes only clients that were registered there by hand.
    #[error(
        "{issuer} registers no clients by itself: register one there with the redirect URI {redirect_uri} and use \
         --client-id ID"
    )]
    NoRegistration {
        /// The authorization server.
        issuer: String,
        /// The redirect URI to register.
        redirect_uri: String,
    },
    /// The file of the login cannot be read or written.
    #[error("{0}")]
    File(String),
}

// === impl LoginError ===

impl LoginError {
    /// The refusal of the authorization server, if it is one.
    pub const fn refusal(&self) -> Option<&OAuthRefusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// True if the authorization server does not know the client, or its secret.
    pub fn is_of_client(&self) -> bool {
        self.refusal().is_some_and(|refusal| refusal.meaning() == RefusalMeaning::ClientIsUnknown)
    }
}
