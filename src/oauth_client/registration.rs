//! Identity of the client at an authorization server: given, or registered dynamically (RFC 7591). Knows nothing of
//! tokens.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    discovery::AuthorizationServer, error::LoginError, http::OAuthHttp, kept_secret::KeptSecret,
    server_identity::is_same,
};
use crate::{model::AuthorizationSettings, support::Secret};

/// A secret of which nobody said whose it is.
const UNBOUND: &str = "a client secret needs `issuer` (`--issuer`): the authorization server that it is for";

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
        secret: Option<IssuerSecret>,
    },
}

/// The secret of a given client, with the only authorization server that gets it.
#[derive(Debug, Clone)]
pub struct IssuerSecret {
    issuer: String,
    secret: Secret,
}

/// A client that an authorization server knows.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "StoredClient", into = "StoredClient")]
pub struct RegisteredClient {
    /// Issuer of the authorization server; the client is used at no other.
    pub issuer: String,
    /// `client_id`
    pub id: String,
    /// The way in which it authenticates there.
    pub auth: RegisteredAuth,
    /// The one redirect URI.
    pub redirect_uri: String,
}

/// The way in which a client authenticates with its secret (RFC 7591 2, `token_endpoint_auth_method`).
#[derive(Debug, Clone)]
pub enum RegisteredAuth {
    /// It has none.
    None,
    /// In a header: `client_secret_basic`.
    Basic(KeptSecret),
    /// In the body: `client_secret_post`.
    Post(KeptSecret),
}

/// A client as it is kept.
#[derive(Serialize, Deserialize)]
struct StoredClient {
    issuer: String,
    id: String,
    secret: Option<KeptSecret>,
    secret_in_body: bool,
    redirect_uri: String,
}

/// The client as it describes itself.
#[derive(Debug, Clone)]
pub struct ClientRegistration<'a> {
    /// The one redirect URI.
    pub redirect_uri: String,
    /// The scopes that the client will ask for, separated by spaces.
    pub scope: Option<&'a str>,
    /// `application_type`
    pub application: ApplicationType,
}

/// Place of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplicationType {
    /// A person's machine: it keeps no secret.
    Native,
    /// A server.
    Web,
}

// === impl ClientIdentity ===

impl ClientIdentity {
    /// A given client. A secret belongs to the issuer of the settings.
    ///
    /// # Errors
    ///
    /// If there is a secret without an issuer: no server is trusted to name the one that gets it.
    pub fn given(id: &str, secret: Option<Secret>, settings: &AuthorizationSettings) -> Result<Self, LoginError> {
        let secret = match (secret, &settings.issuer) {
            (None, _) => None,
            (Some(secret), Some(issuer)) => Some(IssuerSecret { issuer: issuer.clone(), secret }),
            (Some(_), None) => return Err(LoginError::Untrusted(UNBOUND.to_owned())),
        };
        Ok(Self::Given { id: id.to_owned(), secret })
    }

    /// True if `client` has this identity.
    pub fn is(&self, client: &RegisteredClient) -> bool {
        let Self::Given { id, secret } = self else { return true };
        let known = client.auth.secret().map(KeptSecret::secret);
        client.id == *id && secret.as_ref().map(|given| &given.secret) == known
    }
}

// === impl IssuerSecret ===

impl IssuerSecret {
    fn of(&self, server: &AuthorizationServer) -> Result<KeptSecret, LoginError> {
        if is_same(&self.issuer, &server.issuer) {
            return Ok(KeptSecret(self.secret.clone()));
        }
        let (own, other) = (&self.issuer, &server.issuer);
        Err(LoginError::Untrusted(format!("the client secret is for `{own}`, and is not sent to `{other:.200}`")))
    }
}

/// The client to log in with at `server`: the given one, else a newly registered one.
pub async fn identify(
    http: &OAuthHttp,
    identity: &ClientIdentity,
    server: &AuthorizationServer,
    description: ClientRegistration<'_>,
) -> Result<RegisteredClient, LoginError> {
    let issuer = server.issuer.clone();
    if let ClientIdentity::Given { id, secret } = identity {
        let secret = secret.as_ref().map(|secret| secret.of(server)).transpose()?;
        let (id, redirect_uri) = (id.clone(), description.redirect_uri);
        let in_body = server.auth_method(&["client_secret_basic", "client_secret_post"]) == Some("client_secret_post");
        return Ok(RegisteredClient { issuer, id, auth: RegisteredAuth::of(secret, in_body), redirect_uri });
    }
    let Some(endpoint) = &server.registration_endpoint else {
        return Err(LoginError::NoRegistration { issuer, redirect_uri: description.redirect_uri });
    };
    let (status, answer) = http.post(endpoint, &description.request(server)).await?;
    let text = |name: &str| answer[name].as_str().map(str::to_owned);
    match (status.is_success(), text("client_id"), text("error")) {
        (true, Some(id), _) => Ok(RegisteredClient {
            issuer,
            id,
            auth: RegisteredAuth::of(
                text("client_secret").map(|secret| KeptSecret::new(&secret)),
                answer["token_endpoint_auth_method"] == "client_secret_post",
            ),
            redirect_uri: description.redirect_uri,
        }),
        (false, _, Some(code)) => Err(LoginError::Refused { code, description: text("error_description") }),
        _ => Err(LoginError::Unavailable(format!("{endpoint} did not register the client ({status})"))),
    }
}

// === impl RegisteredAuth ===

impl RegisteredAuth {
    fn of(secret: Option<KeptSecret>, in_body: bool) -> Self {
        match secret {
            Some(secret) if in_body => Self::Post(secret),
            Some(secret) => Self::Basic(secret),
            None => Self::None,
        }
    }

    /// The secret, if it has one.
    pub const fn secret(&self) -> Option<&KeptSecret> {
        match self {
            Self::None => None,
            Self::Basic(secret) | Self::Post(secret) => Some(secret),
        }
    }
}

impl From<StoredClient> for RegisteredClient {
    fn from(stored: StoredClient) -> Self {
        let StoredClient { issuer, id, secret, secret_in_body, redirect_uri } = stored;
        Self { issuer, id, auth: RegisteredAuth::of(secret, secret_in_body), redirect_uri }
    }
}

impl From<RegisteredClient> for StoredClient {
    fn from(client: RegisteredClient) -> Self {
        let RegisteredClient { issuer, id, auth, redirect_uri } = client;
        let secret_in_body = matches!(auth, RegisteredAuth::Post(_));
        Self { issuer, id, secret: auth.secret().cloned(), secret_in_body, redirect_uri }
    }
}

// === impl ClientRegistration ===

impl ClientRegistration<'_> {
    /// The request: a native application is a public client (RFC 7591 2, RFC 8252), a server has a secret if it can.
    fn request(&self, server: &AuthorizationServer) -> Value {
        let (application, method) = match self.application {
            ApplicationType::Native => ("native", None),
            ApplicationType::Web => ("web", server.auth_method(&["client_secret_post", "client_secret_basic", "none"])),
        };
        let mut request = json!({
            "client_name": "Lockkeeper",
            "redirect_uris": [self.redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method.unwrap_or("none"),
            "application_type": application,
            "software_id": "lockkeeper",
            "software_version": env!("CARGO_PKG_VERSION"),
        });
        if let Some(scope) = self.scope {
            request["scope"] = scope.into();
        }
        request
    }
}
