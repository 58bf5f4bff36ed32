//! Identity of the client at an authorization server: given, or registered dynamically (RFC 7591). Knows nothing of
//! tokens.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{discovery::AuthorizationServer, error::LoginError, http::OAuthHttp, kept_secret::KeptSecret};
use crate::support::Secret;

/// Identity at the authorization server.
#[derive(Debug, Clone)]
pub enum ClientIdentity {
    /// Registered dynamically (RFC 7591).
    Registered,
    /// Given: an id from an earlier registration, or the URL of a client id metadata document.
    Given {
        /// `client_id`
        id: String,
        /// `client_secret`
        secret: Option<Secret>,
    },
}

/// A client that an authorization server knows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RegisteredClient {
    /// Issuer of the authorization server; the client is used at no other.
    pub(super) issuer: String,
    /// `client_id`
    pub(super) id: String,
    /// `client_secret`
    pub(super) secret: Option<KeptSecret>,
    /// True if the secret is sent in the body (`client_secret_post`), false if in a header (`client_secret_basic`).
    pub(super) secret_in_body: bool,
    /// The one redirect URI.
    pub(super) redirect_uri: String,
}

// === impl ClientIdentity ===

impl ClientIdentity {
    /// True if `client` has this identity.
    pub(super) fn is(&self, client: &RegisteredClient) -> bool {
        match self {
            Self::Registered => true,
            Self::Given { id, .. } => client.id == *id,
        }
    }
}

/// The client to log in with at `server`: the given one, else a newly registered one.
pub(super) async fn identify(
    http: &OAuthHttp,
    identity: &ClientIdentity,
    server: &AuthorizationServer,
    (redirect_uri, scope): (&str, Option<&str>),
) -> Result<RegisteredClient, LoginError> {
    let issuer = server.issuer.clone();
    if let ClientIdentity::Given { id, secret } = identity {
        let (id, secret, redirect_uri) = (id.clone(), secret.clone().map(KeptSecret), redirect_uri.to_owned());
        return Ok(RegisteredClient { issuer, id, secret, secret_in_body: false, redirect_uri });
    }
    let Some(endpoint) = &server.registration_endpoint else {
        return Err(LoginError::Untrusted(format!(
            "{issuer} registers no clients by itself: register one there with the redirect URI {redirect_uri} and use \
             --client-id ID"
        )));
    };
    let (status, answer) = http.post(endpoint, &request(redirect_uri, scope)).await?;
    let text = |name: &str| answer[name].as_str().map(str::to_owned);
    match (status.is_success(), text("client_id"), text("error")) {
        (true, Some(id), _) => Ok(RegisteredClient {
            issuer,
            id,
            secret: text("client_secret").map(|secret| KeptSecret::new(&secret)),
            secret_in_body: answer["token_endpoint_auth_method"] == "client_secret_post",
            redirect_uri: redirect_uri.to_owned(),
        }),
        (false, _, Some(code)) => Err(LoginError::Refused { code, description: text("error_description") }),
        _ => Err(LoginError::Unavailable(format!("{endpoint} did not register the client ({status})"))),
    }
}

/// The registration of a native application with a public client (RFC 7591 2, RFC 8252).
fn request(redirect_uri: &str, scope: Option<&str>) -> Value {
    let mut request = json!({
        "client_name": "Lockkeeper",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
        "software_id": "lockkeeper",
        "software_version": env!("CARGO_PKG_VERSION"),
    });
    if let Some(scope) = scope {
        request["scope"] = scope.into();
    }
    request
}
