//! Discovery of a server's authorization server (RFC 9728, RFC 8414, OpenID Connect Discovery 1.0; 2026-07-28,
//! authorization).

use serde_json::Value;
use url::Url;

use super::{
    challenge::BearerChallenge,
    endpoint::{appended, at_root, trusted, well_known},
    error::LoginError,
    http::{DocumentAnswer, OAuthHttp},
    refusal::text,
    server_identity::{self, ResourceServer, check_resource, choose_issuers, is_same},
};
use crate::model::{PkceSupport, ResourceIndicator};

/// The discovered parameters of a login at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovered {
    /// Identifier of the protected resource (RFC 8707). `None` if no `resource` is sent, as with a 2025-03-26 server,
    /// which has no metadata.
    pub resource: Option<String>,
    /// Scopes to ask for, separated by spaces; `None` leaves the choice to the authorization server.
    pub scope: Option<String>,
    pub server: AuthorizationServer,
}

/// Metadata of an authorization server (RFC 8414, section 2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizationServer {
    pub issuer: String,
    pub authorization_endpoint: Url,
    pub token_endpoint: Url,
    pub registration_endpoint: Option<Url>,
    /// `authorization_response_iss_parameter_supported` (RFC 9207)
    pub returns_issuer: bool,
    /// `revocation_endpoint` (RFC 7009)
    pub revocation_endpoint: Option<Url>,
    /// `token_endpoint_auth_methods_supported`; empty if the document does not say
    pub auth_methods: Vec<String>,
    pub takes_metadata_documents: bool,
    scopes_supported: Vec<String>,
}

/// Metadata that cannot be used.
#[derive(Debug)]
pub struct MetadataFault {
    pub error: LoginError,
    /// True if there is no metadata, or a member is missing: another authorization server may have it.
    is_missing: bool,
    /// True if there is no metadata.
    is_absent: bool,
}

/// Well-known kinds of metadata (RFC 8414, OpenID Connect Discovery 1.0).
const OAUTH: &str = "oauth-authorization-server";
const OPENID: &str = "openid-configuration";

/// Maximum number of listed authorization servers to try.
const MAX_TRIED: usize = 3;

/// Metadata of a protected resource (RFC 9728, section 2).
struct ProtectedResource {
    /// The identifier; `None` if the settings decide instead.
    resource: Option<String>,
    authorization_servers: Vec<String>,
    scopes_supported: Vec<String>,
}

/// Finds the authorization server of `server`, which sent `challenge`, for a new login. Of several authorization
/// servers, the first with metadata is used.
///
/// # Errors
///
/// An error if a document cannot be fetched or breaks a rule that protects the login.
pub async fn discover(
    http: &OAuthHttp,
    server: ResourceServer<'_>,
    challenge: &BearerChallenge,
) -> Result<Discovered, LoginError> {
    let ResourceServer { url, settings } = server;
    let named = match &settings.resource {
        ResourceIndicator::Named(named) => Some(named.clone()),
        ResourceIndicator::Discovered | ResourceIndicator::Omitted => None,
    };
    let found = protected_resource(http, server, challenge).await?;
    let listed = found.as_ref().map(|resource| resource.authorization_servers.clone()).unwrap_or_default();
    let listed = if listed.is_empty() { vec![origin(url)] } else { listed };
    let issuers = choose_issuers(&listed, server)?;
    let Some(resource) = found else {
        if let Some(scheme) = &challenge.other_scheme {
            return Err(LoginError::Untrusted(format!(
                "{url} asks for `{scheme:.40}` credentials, and names no authorization server at which anybody could log in"
            )));
        }
        let authorization_server = without_resource_metadata(http, server).await?;
        let scope = asked_scope(challenge, &[], &authorization_server);
        return Ok(Discovered { resource: named, scope, server: authorization_server });
    };
    let mut unusable = None;
    for issuer in issuers.into_iter().take(MAX_TRIED) {
        match authorization_server(http, server, issuer).await? {
            Ok(authorization_server) => {
                let scope = asked_scope(challenge, &resource.scopes_supported, &authorization_server);
                return Ok(Discovered { resource: named.or(resource.resource), scope, server: authorization_server });
            }
            Err(fault) if fault.is_missing => {
                let error = &fault.error;
                tracing::info!(server = %url, issuer, %error, "an authorization server has no usable metadata");
                unusable.get_or_insert(fault.error);
            }
            Err(fault) => return Err(fault.error),
        }
    }
    Err(unusable.unwrap_or_else(|| LoginError::Untrusted(format!("{url} names no authorization server"))))
}

/// True if the server names this authorization server, perhaps among others. `None` if the server names none, or this
/// cannot be determined.
pub async fn lists_issuer(
    http: &OAuthHttp,
    server: ResourceServer<'_>,
    challenge: &BearerChallenge,
    issuer: &str,
) -> Option<bool> {
    let listed = protected_resource(http, server, challenge).await.ok()??.authorization_servers;
    (!listed.is_empty()).then(|| listed.iter().any(|one| is_same(one, issuer)))
}

/// The scopes of the challenge, or else all that the resource names. With `offline_access` if the authorization server
/// supports it, since some issue a refresh token only for that scope (2026-07-28, authorization, *Scope Selection
/// Strategy*).
fn asked_scope(challenge: &BearerChallenge, supported: &[String], server: &AuthorizationServer) -> Option<String> {
    let named = (!supported.is_empty()).then(|| supported.join(" "));
    Some(server.with_offline_access(challenge.scope.clone().or(named)?))
}

async fn protected_resource(
    http: &OAuthHttp,
    server: ResourceServer<'_>,
    challenge: &BearerChallenge,
) -> Result<Option<ProtectedResource>, LoginError> {
    let mut candidates = Vec::new();
    if let Some(text) = &challenge.resource_metadata {
        match trusted(text, server.url, "the resource metadata URL") {
            Ok(named) => candidates.push(named),
            // the well-known URLs are on the server's own origin
            Err(error) => {
                tracing::warn!(server = %server.url, %error, "the metadata is looked for at its well-known URLs");
            }
        }
    }
    for url in [server.url, &at_root(server.url)].map(|url| well_known(url, server_identity::WELL_KNOWN)) {
        if !candidates.contains(&url) {
            candidates.push(url);
        }
    }
    let mut down = None;
    for url in candidates {
        match http.document(&url).await? {
            DocumentAnswer::Json(document) if document["resource"].is_string() => {
                return ProtectedResource::read(&document, &url, server).map(Some);
            }
            DocumentAnswer::Json(_) | DocumentAnswer::None => {}
            DocumentAnswer::Down(reason) => down = Some(reason),
        }
    }
    down.map_or(Ok(None), |reason| Err(LoginError::Unavailable(reason)))
}

/// Metadata of the authorization server `issuer`, at the first of its well-known URLs that has a usable document.
async fn authorization_server(
    http: &OAuthHttp,
    server: ResourceServer<'_>,
    issuer: &str,
) -> Result<Result<AuthorizationServer, MetadataFault>, LoginError> {
    let url = trusted(issuer, server.url, "the authorization server")?;
    let trust = |text: &str, name: &str| trusted(text, server.url, name);
    let mut candidates = vec![well_known(&url, OAUTH), well_known(&url, OPENID)];
    if url.path() != "/" {
        candidates.extend([OPENID, OAUTH].map(|kind| appended(&url, kind)));
    }
    let (mut fault, mut down) = (None::<MetadataFault>, None);
    for at in candidates {
        match http.document(&at).await? {
            DocumentAnswer::Json(document) => {
                match AuthorizationServer::read(&document, issuer, server.settings.pkce, trust) {
                    Ok(found) => return Ok(Ok(found)),
                    // a document that does not mention an authorization server counts as missing
                    Err(_) if !document["issuer"].is_string() && document["token_endpoint"].is_null() => {}
                    Err(other) => drop(fault.get_or_insert(other)),
                }
            }
            DocumentAnswer::None => {}
            DocumentAnswer::Down(reason) => down = Some(reason),
        }
    }
    match (fault, down) {
        (Some(fault), _) => Ok(Err(fault)),
        (None, Some(reason)) => Err(LoginError::Unavailable(reason)),
        (None, None) => {
            let reason = format!("the authorization server {issuer} of {} has no metadata", server.url);
            let error = LoginError::Untrusted(reason);
            Ok(Err(MetadataFault { error, is_missing: true, is_absent: true }))
        }
    }
}

/// The authorization server of a 2025-03-26 server: its own origin, with default endpoints if it has no metadata
/// (2025-03-26, authorization, *Fallbacks for Servers without Metadata Discovery*).
async fn without_resource_metadata(
    http: &OAuthHttp,
    server: ResourceServer<'_>,
) -> Result<AuthorizationServer, LoginError> {
    let issuer = origin(server.url);
    match authorization_server(http, server, &issuer).await? {
        Ok(found) => return Ok(found),
        Err(fault) if !fault.is_absent => return Err(fault.error),
        Err(_) => {}
    }
    let endpoint = |path: &str| trusted(&format!("{issuer}/{path}"), server.url, "a default endpoint");
    Ok(AuthorizationServer {
        authorization_endpoint: endpoint("authorize")?,
        token_endpoint: endpoint("token")?,
        registration_endpoint: Some(endpoint("register")?),
        returns_issuer: false,
        revocation_endpoint: None,
        auth_methods: Vec::new(),
        takes_metadata_documents: false,
        scopes_supported: Vec::new(),
        issuer,
    })
}

/// The origin of the server, as an issuer.
fn origin(server: &Url) -> String {
    at_root(server).as_str().trim_end_matches('/').to_owned()
}

fn strings(document: &Value, name: &str) -> Vec<String> {
    let array = document[name].as_array().map(Vec::as_slice).unwrap_or_default();
    array.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

// === impl ProtectedResource ===

impl ProtectedResource {
    /// Reads metadata found at `read_from`. Checks its `resource` if tokens will be issued for it.
    fn read(document: &Value, read_from: &Url, server: ResourceServer<'_>) -> Result<Self, LoginError> {
        let resource = match server.settings.resource {
            ResourceIndicator::Discovered => {
                let named = document["resource"].as_str().unwrap_or_default();
                check_resource(named, server.url, read_from)?;
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
    /// For tests: the metadata of an issuer that offers these methods.
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

    /// The first of these client authentication methods that the server accepts. A server that lists none accepts
    /// `client_secret_basic` (RFC 8414 2).
    pub fn auth_method<'m>(&self, wanted: &[&'m str]) -> Option<&'m str> {
        if self.auth_methods.is_empty() {
            return wanted.iter().copied().find(|method| *method == "client_secret_basic");
        }
        wanted.iter().copied().find(|method| self.auth_methods.iter().any(|taken| taken == method))
    }

    /// True if a secret issued by the server goes into the request body, because the server does not accept it in the
    /// header.
    pub fn takes_secret_in_body(&self) -> bool {
        self.auth_method(&["client_secret_basic", "client_secret_post"]) == Some("client_secret_post")
    }

    /// These scopes, with `offline_access` if the server supports it: some issue a refresh token only for that scope.
    pub fn with_offline_access(&self, mut scope: String) -> String {
        const OFFLINE: &str = "offline_access";
        let has = |scope: &str| scope.split_ascii_whitespace().any(|scope| scope == OFFLINE);
        if self.scopes_supported.iter().any(|scope| scope == OFFLINE) && !has(&scope) {
            scope.push(' ');
            scope.push_str(OFFLINE);
        }
        scope
    }

    /// Reads metadata, which must name `issuer` (RFC 8414 3.3), ignoring a trailing slash, and PKCE with S256
    /// (2026-07-28, authorization, *Authorization Code Protection*).
    ///
    /// # Errors
    ///
    /// If it names another issuer or another PKCE method, if `trust` rejects a URL (it gets the URL's text and its
    /// name), or if a member is missing.
    pub fn read(
        document: &Value,
        issuer: &str,
        pkce: PkceSupport,
        trust: impl Fn(&str, &str) -> Result<Url, LoginError>,
    ) -> Result<Self, MetadataFault> {
        let missing = |name: &str| MetadataFault {
            error: LoginError::Untrusted(format!("the metadata of {issuer:.200} has no `{name}`")),
            is_missing: true,
            is_absent: false,
        };
        let wrong = |error: LoginError| MetadataFault { error, is_missing: false, is_absent: false };
        let named = document["issuer"].as_str().ok_or_else(|| missing("issuer"))?;
        if !is_same(named, issuer) {
            let reason = format!("the metadata of {issuer:.200} names another issuer, `{named:.200}`: it is refused");
            return Err(wrong(LoginError::Untrusted(reason)));
        }
        if named != issuer {
            tracing::warn!(
                named,
                asked = issuer,
                "an authorization server writes its issuer with another end: its own is used"
            );
        }
        let methods = &document["code_challenge_methods_supported"];
        let announces = strings(document, "code_challenge_methods_supported").iter().any(|method| method == "S256");
        if methods.is_null() && pkce == PkceSupport::Announced {
            let reason = format!(
                "the metadata of {issuer:.200} does not say that it has PKCE (`code_challenge_methods_supported`), which MCP \
                 requires. If it has S256 all the same, as Entra ID and Amazon Cognito do, set `pkce = \"assume\"` \
                 (`--assume-pkce`)"
            );
            return Err(MetadataFault { is_missing: true, ..wrong(LoginError::Untrusted(reason)) });
        }
        if !methods.is_null() && !announces {
            let reason =
                format!("the authorization server {issuer:.200} does not offer PKCE with S256, which MCP requires");
            return Err(wrong(LoginError::Untrusted(reason)));
        }
        let endpoint = |name: &str| match text(&document[name]) {
            Some(text) => trust(text, name).map(Some).map_err(wrong),
            None => Ok(None),
        };
        let required = |name: &str| endpoint(name)?.ok_or_else(|| missing(name));
        Ok(Self {
            issuer: named.to_owned(),
            authorization_endpoint: required("authorization_endpoint")?,
            token_endpoint: required("token_endpoint")?,
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
    use crate::model::AuthorizationSettings;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn up_019_a_configured_resource_goes_before_the_named_one() {
        let (server, read_from) = (url("https://a.example/mcp"), url("https://a.example/x"));
        let read = |resource: ResourceIndicator| {
            let document = json!({ "resource": "api://b" });
            let settings = AuthorizationSettings { resource, ..AuthorizationSettings::default() };
            let server = ResourceServer { url: &server, settings: &settings };
            ProtectedResource::read(&document, &read_from, server).map(|read| read.resource)
        };
        assert!(read(ResourceIndicator::Discovered).is_err());
        assert_eq!(read(ResourceIndicator::Named("api://b".to_owned())), Ok(None));
        assert_eq!(read(ResourceIndicator::Omitted), Ok(None));
    }

    fn metadata(change: impl FnOnce(&mut Value)) -> Result<AuthorizationServer, MetadataFault> {
        with_pkce(PkceSupport::Announced, change)
    }

    fn with_pkce(pkce: PkceSupport, change: impl FnOnce(&mut Value)) -> Result<AuthorizationServer, MetadataFault> {
        let mut document = json!({
            "issuer": "https://as.example/t", "authorization_endpoint": "https://as.example/authorize",
            "token_endpoint": "https://as.example/token", "code_challenge_methods_supported": ["S256"],
        });
        change(&mut document);
        let server = url("https://a.example/mcp");
        let trust = |text: &str, name: &str| trusted(text, &server, name);
        AuthorizationServer::read(&document, "https://as.example/t", pkce, trust)
    }

    /// A change of the metadata, and whether it says that something is missing.
    type Change = (bool, fn(&mut Value));

    #[test]
    fn metadata_without_issuer_pkce_or_safe_endpoints_is_refused() {
        assert!(metadata(|_| {}).is_ok());
        let changes: [Change; 8] = [
            (false, |document| document["issuer"] = json!("https://as.example/u")),
            (false, |document| document["issuer"] = json!("https://AS.example/t")),
            (false, |document| document["issuer"] = json!("https://as.example/t//")),
            (false, |document| document["code_challenge_methods_supported"] = json!(["plain"])),
            (false, |document| document["token_endpoint"] = json!("http://as.example/token")),
            (false, |document| document["authorization_endpoint"] = json!("file:///etc/passwd")),
            (true, |document| drop(document.as_object_mut().unwrap().remove("token_endpoint"))),
            (true, |document| document["issuer"] = Value::Null),
        ];
        for (index, (is_missing, change)) in changes.into_iter().enumerate() {
            assert_eq!(metadata(change).map_err(|fault| fault.is_missing).err(), Some(is_missing), "{index}");
        }
    }

    #[test]
    fn up_024_the_issuer_is_spelled_as_its_document_spells_it() {
        let found = metadata(|document| document["issuer"] = json!("https://as.example/t/")).unwrap();
        assert_eq!(found.issuer, "https://as.example/t/");
    }

    #[test]
    fn up_024_pkce_that_is_not_announced_is_assumed_only_where_the_operator_says_so() {
        let absent = |document: &mut Value| document["code_challenge_methods_supported"] = Value::Null;
        let fault = metadata(absent).unwrap_err();
        assert!(fault.is_missing && fault.error.to_string().contains("`pkce = \"assume\"` (`--assume-pkce`)"));
        assert!(with_pkce(PkceSupport::Assumed, absent).is_ok());
        for listed in [json!(["plain"]), json!([]), json!("plain")] {
            let found =
                with_pkce(PkceSupport::Assumed, |document| document["code_challenge_methods_supported"] = listed);
            assert!(found.is_err_and(|fault| !fault.is_missing));
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
