//! An MCP client as a value: its requests, and its requirements.

use serde_json::{Value, json};
use url::Url;

use super::requirement::Requirement;

/// Requests and requirements of a client on its way to a token.
#[derive(Debug)]
pub struct ClientProfile {
    /// Name on the command line.
    pub id: &'static str,
    pub name: &'static str,
    /// Its client ID metadata document, if any.
    pub document: Option<PublishedDocument>,
    pub registration: RegistrationProfile,
    /// Sources of its scopes; the first that names any is used.
    pub scope: &'static [ScopeSource],
    /// Its `resource` parameter (RFC 8707).
    pub resource: ResourceParameter,
    /// Requirements without which it stops.
    pub requires: &'static [Requirement],
}

/// A client ID metadata document, published by the client's vendor.
#[derive(Debug, Clone, Copy)]
pub struct PublishedDocument {
    /// Its URL, which is the `client_id`.
    pub url: &'static str,
    /// The redirect URI of requests with this identity.
    pub callback: &'static str,
}

/// A dynamic registration (RFC 7591).
#[derive(Debug)]
pub struct RegistrationProfile {
    pub name: &'static str,
    pub redirect_uris: &'static [&'static str],
    /// The redirect URI of its requests; on a loopback host the port may differ from the registered one.
    pub callback: &'static str,
    pub grant_types: GrantTypes,
    pub method: Option<&'static str>,
    pub scope: RegisteredScope,
    /// Further members.
    pub further: &'static [(&'static str, &'static str)],
}

/// `grant_types` of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantTypes {
    /// Always `authorization_code` and `refresh_token`.
    CodeAndRefresh,
    /// The types in the server's metadata that the client supports. If the metadata names no types, all that it
    /// supports, including the device grant.
    Copied,
}

/// `scope` of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegisteredScope {
    Absent,
    Empty,
    /// The scopes of the authorization request.
    Requested,
}

/// A source of a client's scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScopeSource {
    /// `scope` of the challenge.
    Challenge,
    /// `scopes_supported` of the resource metadata.
    Resource,
    /// `scopes_supported` of the authorization server's metadata.
    AuthorizationServer,
    Fixed(&'static str),
}

/// The `resource` parameter of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceParameter {
    /// `resource` of the metadata, as it is.
    Metadata,
    /// `resource` of the metadata, as a URL parser prints it: an empty path becomes `/`.
    MetadataUrl,
    /// The server's URL, as given.
    ServerUrl,
    Absent,
}

const DEVICE: &str = "urn:ietf:params:oauth:grant-type:device_code";

// === impl ClientProfile ===

impl ClientProfile {
    /// The scopes that the client requests; `named` are the scopes in the documents.
    pub(super) fn scope(&self, named: impl Fn(ScopeSource) -> Option<String>) -> Option<String> {
        let of = |source: &ScopeSource| match source {
            ScopeSource::Fixed(scope) => Some((*scope).to_owned()),
            source => named(*source).filter(|scope| !scope.is_empty()),
        };
        self.scope.iter().find_map(of)
    }

    /// The `resource` that the client sends.
    pub(super) fn resource(&self, server: &Url, named: Option<&str>) -> Option<String> {
        let parsed = |text: &str| Url::parse(text).map_or_else(|_| text.to_owned(), String::from);
        match self.resource {
            ResourceParameter::Metadata => named.map(str::to_owned),
            ResourceParameter::MetadataUrl => named.map(parsed),
            ResourceParameter::ServerUrl => Some(server.as_str().to_owned()),
            ResourceParameter::Absent => None,
        }
    }
}

// === impl RegistrationProfile ===

impl RegistrationProfile {
    /// The body of the registration; `supported` is `grant_types_supported` of the authorization server.
    pub(super) fn body(&self, supported: Option<&[String]>, scope: Option<&str>) -> Value {
        let known = ["authorization_code", "refresh_token", DEVICE];
        let grant_types: Vec<&str> = match (self.grant_types, supported) {
            (GrantTypes::CodeAndRefresh, _) => known[..2].to_vec(),
            (GrantTypes::Copied, None) => known.to_vec(),
            (GrantTypes::Copied, Some(supported)) => {
                known.into_iter().filter(|one| supported.iter().any(|other| other == one)).collect()
            }
        };
        let mut body = json!({
            "client_name": self.name, "redirect_uris": self.redirect_uris, "grant_types": grant_types,
            "response_types": ["code"],
        });
        if let Some(method) = self.method {
            body["token_endpoint_auth_method"] = method.into();
        }
        match (self.scope, scope) {
            (RegisteredScope::Empty, _) => body["scope"] = "".into(),
            (RegisteredScope::Requested, Some(scope)) => body["scope"] = scope.into(),
            (RegisteredScope::Requested, None) | (RegisteredScope::Absent, _) => {}
        }
        for (name, value) in self.further {
            body[*name] = (*value).into();
        }
        body
    }
}
