//! Error of a login. Knows nothing of its steps.

/// A login that did not succeed: what happened, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The authorization server cannot be reached, or fails; the tokens are kept.
    #[error("{0}")]
    Unavailable(String),
    /// The server's metadata, or an answer, breaks a rule of the specification.
    #[error("{0}")]
    Untrusted(String),
    /// The authorization server refused: an error code of RFC 6749, RFC 7591 or of an extension, with its description.
    #[error("the authorization server refused ({code}){}", description.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    Refused {
        /// `error`
        code: String,
        /// `error_description`
        description: Option<String>,
    },
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
