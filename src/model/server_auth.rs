//! Authorization of the gateway at a server, as configured. Knows nothing of the protocol.

use serde::{Deserialize, Serialize};

use crate::support::Secret;

/// Authorization of the gateway at a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ServerAuth {
    /// None beside the configured headers.
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
    /// The scopes to ask for, separated by spaces; `None`: those that the server names.
    pub scope: Option<String>,
    /// The addresses at which the authorization server may be.
    pub network: DiscoveredNetwork,
}

/// A client that was registered by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredClient {
    /// `client_id`
    pub id: String,
    /// `client_secret`
    pub secret: Option<Secret>,
}

/// Addresses of the URLs that a server names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DiscoveredNetwork {
    /// Public ones, and this machine for a server on this machine.
    #[default]
    Public,
    /// Any: the operator trusts the server with the network of the gateway.
    Any,
}

// === impl ServerAuth ===

impl ServerAuth {
    /// The client, if there is one.
    pub const fn client(&self) -> Option<&OAuthClientSpec> {
        match self {
            Self::None => None,
            Self::User(client) | Self::Gateway(client) => Some(client),
        }
    }
}
