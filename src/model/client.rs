//! OAuth clients as records.

use std::fmt;

use serde::{Deserialize, Serialize};
use url::Url;

use super::ClientId;
use crate::support::{Digest, Timestamp};

/// Client authentication at the token endpoint (RFC 7591 2, `token_endpoint_auth_method`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientAuth {
    /// None: a public client, protected only by PKCE.
    None,
    /// Secret in the `Authorization` header (`client_secret_basic`), as its SHA-256.
    Basic(Digest),
    /// Secret in the form (`client_secret_post`), as its SHA-256.
    Post(Digest),
    /// Secret in either place, as its SHA-256, since no method was chosen. A request uses one of them.
    AnySecret(Digest),
    /// Assertion signed with any of these keys (`private_key_jwt`, RFC 7523).
    PrivateKeyJwt(ClientKeys),
    /// None, or such an assertion: the client offers both, and uses what the gateway's metadata announces.
    NoneOrPrivateKeyJwt(ClientKeys),
}

/// Public keys of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientKeys {
    /// A JWK Set (RFC 7517) as JSON.
    Inline(String),
    /// The URL of one (`jwks_uri`).
    Url(Url),
}

/// The party that describes a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registrant {
    /// The client itself, when it registered (RFC 7591).
    Client,
    /// The document at the URL that is its id, with the digest of what people consent to (`OA-52`).
    Document(Digest),
    Operator(ConsentRule),
}

/// Whether to ask people about a client registered by the operator (`OA-71`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsentRule {
    /// Every time, as for all others.
    Asked,
    /// Not at its web site for ordinary scopes: the operator vouches for it.
    Skipped,
}

/// A grant type that a client may use at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantType {
    /// The authorization code grant (RFC 6749 4.1).
    AuthorizationCode,
    /// The refresh token grant (RFC 6749 6).
    RefreshToken,
    /// RFC 6749 4.4: for clients registered by the operator.
    ClientCredentials,
    /// RFC 8628: the device grant.
    #[serde(rename = "urn:ietf:params:oauth:grant-type:device_code")]
    DeviceCode,
    /// RFC 7523 2.1, with identity assertions of a login provider (ID-JAG): for clients registered by the operator.
    #[serde(rename = "urn:ietf:params:oauth:grant-type:jwt-bearer")]
    JwtBearer,
}

/// One registered client (RFC 7591).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Its id: random for a registered one.
    pub id: ClientId,
    /// Name claimed by the client, not verified. At most 100 characters, no control characters.
    pub name: String,
    /// Redirect URIs, exactly as registered: 1 to 10, none for a client without the code flow.
    pub redirect_uris: Vec<String>,
    /// Authentication method.
    pub auth: ClientAuth,
    /// The party that describes it.
    pub registrant: Registrant,
    /// Allowed grant types.
    pub grant_types: Vec<GrantType>,
    /// Registered scopes, as text; `None` means every ordinary scope (`OA-40`).
    pub scope: Option<String>,
    /// The whole registered metadata as answered at registration (RFC 7591 3.2.1), without the secret, or the known
    /// part of its document: a JSON object.
    pub metadata: String,
    /// Time of registration, or of the first consent.
    pub created: Timestamp,
}

// === impl Client ===

impl Client {
    /// Upper bound of the bytes that the store needs: the text, and 512 for ids, digests and index entries.
    pub fn stored_bytes(&self) -> i64 {
        const OVERHEAD: usize = 512;
        // in JSON: quotes and a separator
        let listed = |texts: usize, count: usize| 2 + texts + 3 * count;
        let uris = listed(self.redirect_uris.iter().map(String::len).sum(), self.redirect_uris.len());
        let types = listed(self.grant_types.iter().map(|name| name.to_string().len()).sum(), self.grant_types.len());
        let keys = match &self.auth {
            ClientAuth::PrivateKeyJwt(keys) | ClientAuth::NoneOrPrivateKeyJwt(keys) => keys.as_str().len(),
            ClientAuth::None | ClientAuth::Basic(_) | ClientAuth::Post(_) | ClientAuth::AnySecret(_) => 0,
        };
        let scope = self.scope.as_ref().map_or(0, String::len);
        let text = self.name.len() + uris + types + scope + keys + self.metadata.len();
        i64::try_from(text + OVERHEAD).unwrap_or(i64::MAX)
    }
}

// === impl Registrant ===

impl Registrant {
    /// Digest of the client's document, as text, if it has one.
    pub fn document(&self) -> Option<String> {
        match self {
            Self::Document(digest) => Some(digest.to_base64url()),
            Self::Client | Self::Operator(_) => None,
        }
    }
}

// === impl ClientAuth ===

impl ClientAuth {
    /// True if requests prove nothing, with any content: the id does not prove who asks.
    pub const fn is_public(&self) -> bool {
        matches!(self, Self::None | Self::NoneOrPrivateKeyJwt(_))
    }

    /// The name of the method (RFC 7591 2).
    pub const fn name(&self) -> &'static str {
        match self {
            Self::None | Self::NoneOrPrivateKeyJwt(_) => "none",
            Self::Basic(_) | Self::AnySecret(_) => "client_secret_basic",
            Self::Post(_) => "client_secret_post",
            Self::PrivateKeyJwt(_) => "private_key_jwt",
        }
    }
}

// === impl ClientKeys ===

impl ClientKeys {
    /// The set, or its URL.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Inline(set) => set,
            Self::Url(url) => url.as_str(),
        }
    }
}

// === impl GrantType ===

impl GrantType {
    /// Every supported grant type.
    pub const ALL: [Self; 5] =
        [Self::AuthorizationCode, Self::RefreshToken, Self::ClientCredentials, Self::DeviceCode, Self::JwtBearer];

    /// The grant type of this name; `None` if the gateway does not support it.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|supported| supported.name() == name)
    }

    /// True if a client may register itself with it.
    pub const fn is_for_everybody(self) -> bool {
        !matches!(self, Self::ClientCredentials | Self::JwtBearer)
    }

    /// Its name (RFC 7591 2).
    pub const fn name(self) -> &'static str {
        match self {
            Self::AuthorizationCode => "authorization_code",
            Self::RefreshToken => "refresh_token",
            Self::ClientCredentials => "client_credentials",
            Self::DeviceCode => "urn:ietf:params:oauth:grant-type:device_code",
            Self::JwtBearer => "urn:ietf:params:oauth:grant-type:jwt-bearer",
        }
    }
}

impl fmt::Display for GrantType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
