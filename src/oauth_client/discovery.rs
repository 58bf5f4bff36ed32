//! Discovery of a server's authorization server (RFC 9728, RFC 8414, OpenID Connect Discovery 1.0; 2026-07-28,
//! authorization). Knows nothing of clients and tokens.

use serde_json::Value;
use url::Url;

use super::{
    challenge::BearerChallenge,
    endpoint::{at_root, trusted, well_known},
    error::LoginError,
    http::OAuthHttp,
    server_identity::{self, check_resource, choose_issuer},
};
use crate::model::{AuthorizationSettings, ResourceIndicator};

/// The discovered parameters of a login at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovered {
    /// Identifier of the protected resource (RFC 8707); `None` if none is sent, as to a server of 2025-03-26, which has no
    /// metadata.
    pub resource: Option<String>,
    /// Scopes to ask for, separated by spaces; `None` leaves the choice to the authorization server.
    pub scope: Option<String>,
    /// The authorization server.
    pub server: AuthorizationServer,
}

/// Metadata of an authorization server (RFC 8414, section 2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizationServer {
    /// `issuer`
    pub issuer: String,
    /// `authorization_endpoint`
    pub authorization_endpoint: Url,
    /// `token_endpoint`
    pub token_endpoint: Url,
    /// `registration_endpoint`
    pub registration_endpoint: Option<Url>,
    /// `authorization_response_iss_parameter_supported` (RFC 9207)
    pub returns_issuer: bool,
    /// `revocation_endpoint` (RFC 7009)
    pub revocation_endpoint: Option<Url>,
    /// `token_endpoint_auth_methods_supported`; empty if the document does not say
    pub auth_methods: Vec<String>,
    /// `client_id_metadata_document_supported`
    pub takes_metadata_documents: bool,
    scopes_supported: Vec<String>,
}

/// Metadata of a protected resource (RFC 9728, section 2).
struct ProtectedResource {
    /// The identifier; `None` if it is not taken from here.
    resource: Option<String>,
    authorization_servers: Vec<String>,
    scopes_supported: Vec<String>,
}

/// Finds the authorization server of the MCP server at `server`, which sent `challenge`. The settings go before what the
/// server names.
///
/// # Errors
///
/// An error if a document cannot be fetched or breaks a rule that protects the login.
pub async fn discover(
    http: &OAuthHttp,
    (server, settings): (&Url, &AuthorizationSettings),
    challenge: &BearerChallenge,
) -> Result<Discovered, LoginError> {
    let named = match &settings.resource {
        ResourceIndicator::Named(named) => Some(named.clone()),
        ResourceIndicator::Discovered | ResourceIndicator::Omitted => None,
    };
    let found = protected_resource(http, (server, settings), challenge).await?;
    let listed = found.as_ref().map(|resource| resource.authorization_servers.clone()).unwrap_or_default();
    let listed = if listed.is_empty() { vec![at_root(server).to_string()] } else { listed };
    let issuer = choose_issuer(&listed, (server, settings))?;
    let Some(resource) = found else {
        let authorization_server = without_resource_metadata(http, server).await?;
        let scope = asked_scope(challenge, &[], &authorization_server);
        return Ok(Discovered { resource: named, scope, server: authorization_server });
    };
    let issuer = trusted(issuer, server, "the authorization server")?;
    let Some(authorization_server) = authorization_server(http, server, &issuer).await? else {
        return Err(LoginError::Untrusted(format!("the authorization server {issuer} of {server} has no metadata")));
    };
    let scope = asked_scope(challenge, &resource.scopes_supported, &authorization_server);
    Ok(Discovered { resource: named.or(resource.resource), scope, server: authorization_server })
}

/// True if the server names this authorization server, perhaps among others; `None` if it cannot be found out, or if it
/// names none.
pub async fn lists_issuer(
    http: &OAuthHttp,
    target: (&Url, &AuthorizationSettings),
    challenge: &BearerChallenge,
    issuer: &str,
) -> Option<bool> {
    let listed = protected_resource(http, target, challenge).await.ok()??.authorization_servers;
    (!listed.is_empty()).then(|| listed.iter().any(|one| server_identity::is_same(one, issuer)))
}

/// The scopes of the challenge, else all that the resource names; with `offline_access` where the authorization server
/// has it, since some give a refresh token for nothing else (2026-07-28, authorization, *Scope Selection Strategy*).
fn asked_scope(challenge: &BearerChallenge, supported: &[String], server: &AuthorizationServer) -> Option<String> {
    const OFFLINE: &str = "offline_access";
    let named = (!supported.is_empty()).then(|| supported.join(" "));
    let mut scope = challenge.scope.clone().or(named)?;
    if server.scopes_supported.iter().any(|scope| scope == OFFLINE) && !scope.split(' ').any(|scope| scope == OFFLINE) {
        scope.push(' ');
        scope.push_str(OFFLINE);
    }
    Some(scope)
}

async fn protected_resource(
    http: &OAuthHttp,
    (server, settings): (&Url, &AuthorizationSettings),
    challenge: &BearerChallenge,
) -> Result<Option<ProtectedResource>, LoginError> {
    let candidates = match &challenge.resource_metadata {
        Some(text) => vec![trusted(text, server, "the resource metadata URL")?],
        None => vec![
            well_known(server, server_identity::WELL_KNOWN),
            well_known(&at_root(server), server_identity::WELL_KNOWN),
        ],
    };
    for url in candidates {
        if let Some(document) = http.document(&url).await?.filter(|document| document["resource"].is_string()) {
            return ProtectedResource::read(&document, &url, (server, settings)).map(Some);
        }
    }
    Ok(None)
}

/// Metadata of the authorization server `issuer`, at the first of its well-known URLs that has a document.
async fn authorization_server(
    http: &OAuthHttp,
    server: &Url,
    issuer: &Url,
) -> Result<Option<AuthorizationServer>, LoginError> {
    let mut candidates =
        vec![well_known(issuer, "oauth-authorization-server"), well_known(issuer, "openid-configuration")];
    if issuer.path() != "/" {
        let mut appended = issuer.clone();
        appended.set_path(&format!("{}/.well-known/openid-configuration", issuer.path().trim_end_matches('/')));
        candidates.push(appended);
    }
    for url in candidates {
        if let Some(document) = http.document(&url).await?.filter(Value::is_object) {
            return AuthorizationServer::read(&document, server, issuer).map(Some);
        }
    }
    Ok(None)
}

/// The authorization server of a server of 2025-03-26: its own origin, with default endpoints if it has no metadata
/// (2025-03-26, authorization, *Fallbacks for Servers without Metadata Discovery*).
async fn without_resource_metadata(http: &OAuthHttp, server: &Url) -> Result<AuthorizationServer, LoginError> {
    let root = at_root(server);
    if let Some(found) = authorization_server(http, server, &root).await? {
        return Ok(found);
    }
    let endpoint = |path: &str| trusted(&format!("{}{path}", root.as_str()), server, "a default endpoint");
    Ok(AuthorizationServer {
        issuer: root.to_string(),
        authorization_endpoint: endpoint("authorize")?,
        token_endpoint: endpoint("token")?,
        registration_endpoint: Some(endpoint("register")?),
        returns_issuer: false,
        revocation_endpoint: None,
        auth_methods: Vec::new(),
        takes_metadata_documents: false,
        scopes_supported: Vec::new(),
    })
}

fn strings(document: &Value, name: &str) -> Vec<String> {
    let array = document[name].as_array().map(Vec::as_slice).unwrap_or_default();
    array.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

// === impl ProtectedResource ===

impl ProtectedResource {
    /// Reads metadata that was found at `read_from`. Its `resource` is checked if tokens will be for it.
    fn read(
        document: &Value,
        read_from: &Url,
        (server, settings): (&Url, &AuthorizationSettings),
    ) -> Result<Self, LoginError> {
        let resource = match settings.resource {
            ResourceIndicator::Discovered => {
                let named = document["resource"].as_str().unwrap_or_default();
                check_resource(named, server, read_from)?;
                Some(named.to_owned())
            }
            ResourceIndicator::Named(_) | ResourceIndicator::Omitted => None,
        };
        let authorization_servers = strings(document, "authorization_servers");
        Ok(Self { resource, authorization_servers, scopes_supported: strings(document, "scopes_supported") })
    }
}

// === impl AuthorizationServer ===

impl AuthorizationServer {
    /// The metadata of an issuer that offers these methods, for tests.
    #[cfg(test)]
    pub(super) fn with_methods(issuer: &str, methods: &[&str]) -> Self {
        let at = |path: &str| Url::parse(&format!("{issuer}{path}")).unwrap();
        Self {
            issuer: issuer.to_owned(),
            authorization_endpoint: at("/authorize"),
            token_endpoint: at("/token"),
            registration_endpoint: Some(at("/register")),
            returns_issuer: false,
            revocation_endpoint: None,
            auth_methods: methods.iter().map(|method| (*method).to_owned()).collect(),
            takes_metadata_documents: false,
            scopes_supported: Vec::new(),
        }
    }

    /// The first of these methods of client authentication that the server takes. One that does not say which takes
    /// `client_secret_basic` (RFC 8414 2).
    pub fn auth_method<'m>(&self, wanted: &[&'m str]) -> Option<&'m str> {
        if self.auth_methods.is_empty() {
            return wanted.iter().copied().find(|method| *method == "client_secret_basic");
        }
        wanted.iter().copied().find(|method| self.auth_methods.iter().any(|taken| taken == method))
    }

    /// Reads metadata, which must name `issuer` (RFC 8414 3.3) and PKCE with S256 (2026-07-28, authorization,
    /// *Authorization Code Protection*).
    fn read(document: &Value, server: &Url, issuer: &Url) -> Result<Self, LoginError> {
        let named = document["issuer"].as_str().unwrap_or_default();
        if Url::parse(named).ok().as_ref() != Some(issuer) {
            let reason = format!("the metadata of {issuer} names another issuer, `{named}`: it is refused");
            return Err(LoginError::Untrusted(reason));
        }
        if !strings(document, "code_challenge_methods_supported").iter().any(|method| method == "S256") {
            let reason = format!("the authorization server {issuer} does not offer PKCE with S256, which MCP requires");
            return Err(LoginError::Untrusted(reason));
        }
        let endpoint = |name: &str| match document[name].as_str() {
            Some(text) => trusted(text, server, name).map(Some),
            None => Ok(None),
        };
        let missing = |name: &str| LoginError::Untrusted(format!("the metadata of {issuer} has no `{name}`"));
        Ok(Self {
            issuer: named.to_owned(),
            authorization_endpoint: endpoint("authorization_endpoint")?
                .ok_or_else(|| missing("authorization_endpoint"))?,
            token_endpoint: endpoint("token_endpoint")?.ok_or_else(|| missing("token_endpoint"))?,
            registration_endpoint: endpoint("registration_endpoint")?,
            returns_issuer: document["authorization_response_iss_parameter_supported"] == true,
            revocation_endpoint: endpoint("revocation_endpoint")?,
            auth_methods: strings(document, "token_endpoint_auth_methods_supported"),
            takes_metadata_documents: document["client_id_metadata_document_supported"] == true,
            scopes_supported: strings(document, "scopes_supported"),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn up_019_a_configured_resource_goes_before_the_named_one() {
        let (server, read_from) = (url("https://a.example/mcp"), url("https://a.example/x"));
        let read = |resource: ResourceIndicator| {
            let document = json!({ "resource": "api://b" });
            let settings = AuthorizationSettings { resource, issuer: None };
            ProtectedResource::read(&document, &read_from, (&server, &settings)).map(|read| read.resource)
        };
        assert!(read(ResourceIndicator::Discovered).is_err());
        assert_eq!(read(ResourceIndicator::Named("api://b".to_owned())), Ok(None));
        assert_eq!(read(ResourceIndicator::Omitted), Ok(None));
    }

    fn metadata(change: impl FnOnce(&mut Value)) -> Result<AuthorizationServer, LoginError> {
        let mut document = json!({
            "issuer": "https://as.example/t", "authorization_endpoint": "https://as.example/authorize",
            "token_endpoint": "https://as.example/token", "code_challenge_methods_supported": ["S256"],
        });
        change(&mut document);
        AuthorizationServer::read(&document, &url("https://a.example/mcp"), &url("https://as.example/t"))
    }

    #[test]
    fn metadata_without_issuer_pkce_or_safe_endpoints_is_refused() {
        assert!(metadata(|_| {}).is_ok());
        let changes: [fn(&mut Value); 5] = [
            |document| document["issuer"] = json!("https://as.example/u"),
            |document| document["code_challenge_methods_supported"] = json!(["plain"]),
            |document| document["token_endpoint"] = json!("http://as.example/token"),
            |document| document["authorization_endpoint"] = json!("file:///etc/passwd"),
            |document| drop(document.as_object_mut().unwrap().remove("token_endpoint")),
        ];
        for (index, change) in changes.into_iter().enumerate() {
            assert!(metadata(change).is_err(), "{index}");
        }
    }

    #[test]
    fn the_challenge_says_which_scopes_are_asked_for() {
        let server = metadata(|document| document["scopes_supported"] = json!(["a", "offline_access"])).unwrap();
        let challenge =
            |scope: Option<&str>| BearerChallenge { scope: scope.map(str::to_owned), ..BearerChallenge::default() };
        let asked = |scope, supported: &[String]| asked_scope(&challenge(scope), supported, &server);
        assert_eq!(asked(Some("x y"), &["a".to_owned()]).as_deref(), Some("x y offline_access"));
        assert_eq!(asked(None, &["a".to_owned()]).as_deref(), Some("a offline_access"));
        assert_eq!(asked(None, &[]), None);
    }
}
