//! Authorization of the gateway at a server, as configured.

use serde::{Deserialize, Serialize};
use url::Url;

use crate::support::Secret;

/// Authorization of the gateway at a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ServerAuth {
    /// None, except for the configured headers.
    #[default]
    None,
    /// Tokens of each user, who connects the server once.
    User(OAuthClientSpec),
    /// Tokens of the gateway itself: client credentials.
    Gateway(OAuthClientSpec),
}

/// The gateway as an OAuth client of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OAuthClientSpec {
    /// The client that the operator registered at the authorization server; `None`: the gateway introduces itself.
    pub client: Option<ConfiguredClient>,
    /// The scopes to request, separated by spaces; `None`: the scopes that the server names.
    pub scope: Option<String>,
    /// The operator's settings in place of the server's.
    pub settings: AuthorizationSettings,
    /// The addresses where the authorization server may be.
    pub network: DiscoveredNetwork,
}

/// Authorization at a server according to its operator, or to its user, in place of the server's own statements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizationSettings {
    /// The issuer of the authorization server; `None`: the first that the server lists.
    pub issuer: Option<String>,
    /// The resource to request tokens for.
    pub resource: ResourceIndicator,
    /// PKCE of an authorization server that does not announce it.
    pub pkce: PkceSupport,
    /// Further parameters of the authorization request.
    pub authorize_params: Vec<(String, String)>,
}

/// PKCE of an authorization server whose metadata does not mention it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PkceSupport {
    /// It has no PKCE, so no login is allowed there (2026-07-28, authorization, *Authorization Code Protection*).
    #[default]
    Announced,
    /// It has S256, according to the operator.
    Assumed,
}

/// Parameters of an authorization request that a login sets itself.
pub const OWN_PARAMETERS: [&str; 14] = [
    "client_id",
    "client_secret",
    "redirect_uri",
    "response_type",
    "response_mode",
    "scope",
    "resource",
    "state",
    "nonce",
    "code_challenge",
    "code_challenge_method",
    "code_verifier",
    "request",
    "request_uri",
];

/// Checks a further parameter of authorization requests.
///
/// # Errors
///
/// The reason, for people.
pub fn check_authorize_param(name: &str, value: &str) -> Result<(), String> {
    if OWN_PARAMETERS.contains(&name) {
        return Err(format!("the login itself sets `{name}`"));
    }
    if name == "prompt" && value.split_ascii_whitespace().any(|word| word == "none") {
        return Err("`prompt=none` lets nobody log in".to_owned());
    }
    if name.is_empty() { Err("a parameter has no name".to_owned()) } else { Ok(()) }
}

/// The parameter `resource` of requests (RFC 8707).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ResourceIndicator {
    /// The identifier in the server's metadata.
    #[default]
    Discovered,
    Named(String),
    /// None: some authorization servers refuse the parameter.
    Omitted,
}

/// A client registered by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredClient {
    /// `client_id`
    pub id: String,
    /// `client_secret`. Only the authorization server of [`AuthorizationSettings::issuer`] gets it.
    pub secret: Option<Secret>,
}

/// Addresses of the URLs named by a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DiscoveredNetwork {
    /// Public ones, and this machine for a server on this machine.
    #[default]
    Public,
    /// Any: the operator trusts the server with the network of the gateway.
    Any,
}

// === impl ResourceIndicator ===

impl ResourceIndicator {
    /// Maximum length of an identifier, in bytes.
    const MAX: usize = 2048;

    /// The setting as text: an absolute URI without a fragment (RFC 8707 2).
    ///
    /// # Errors
    ///
    /// The reason, for people.
    pub fn named(text: &str) -> Result<Self, String> {
        let is_uri = text.len() <= Self::MAX && text.chars().all(|c| c.is_ascii_graphic());
        let is_absolute = Url::parse(text).is_ok_and(|uri| uri.fragment().is_none());
        if !is_uri || !is_absolute {
            return Err("this must be a URI without a fragment, such as `https://mcp.example.com`".to_owned());
        }
        Ok(Self::Named(text.to_owned()))
    }
}

// === impl ServerAuth ===

impl ServerAuth {
    /// The client, if any.
    pub const fn client(&self) -> Option<&OAuthClientSpec> {
        match self {
            Self::None => None,
            Self::User(client) | Self::Gateway(client) => Some(client),
        }
    }

    /// The reason why the server cannot be used as configured, with the line to add.
    pub fn fault(&self) -> Option<&'static str> {
        let spec = self.client()?;
        let has_secret = spec.client.as_ref().is_some_and(|client| client.secret.is_some());
        (has_secret && spec.settings.issuer.is_none()).then_some(
            "its `client_secret` is for one authorization server, and the configuration does not say which: add \
             `issuer = \"https://…\"` with the issuer at which the client is registered",
        )
    }
}
