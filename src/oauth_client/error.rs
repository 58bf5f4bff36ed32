//! Errors of a login.

use super::refusal::{OAuthRefusal, RefusalMeaning};

/// A login that failed: what happened, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The authorization server is unreachable or fails; the tokens are kept.
    #[error("{0}")]
    Unavailable(String),
    /// The server's metadata or an answer violates the specification.
    #[error("{0}")]
    Untrusted(String),
    #[error("{0}")]
    Refused(OAuthRefusal),
    #[error(
        "{issuer} does not accept the client `{id}`, which was registered there by hand: {refusal}. Its id, its secret or its \
         registration has to be corrected"
    )]
    GivenClient { issuer: String, id: String, refusal: OAuthRefusal },
    /// The tokens are kept but may be useless: the error, and how to log in again.
    #[error("{0}. If that stays so, {1}")]
    Stuck(Box<Self>, String),
    /// The authorization server accepts only clients that were registered there by hand.
    #[error(
        "{issuer} registers no clients by itself: register one there with the redirect URI {redirect_uri} and use \
         --client-id ID"
    )]
    NoRegistration {
        issuer: String,
        /// The redirect URI to register.
        redirect_uri: String,
    },
    /// The login file cannot be read or written.
    #[error("{0}")]
    File(String),
}

// === impl LoginError ===

impl LoginError {
    /// The authorization server's refusal, if the error is one.
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
