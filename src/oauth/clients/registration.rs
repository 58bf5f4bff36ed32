//! Dynamic client registration (RFC 7591; `OA-31` to `OA-43`).
//!
//! Anyone may register, so everything is limited: registrations from one network, the bytes of one client, and the
//! number of clients without a consent.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    client_key_sets::jwks_url,
    client_keys::{ClientKeySet, KeySetProblem},
    initial_access_tokens::InitialAccessTokens,
    redirect_uri::RedirectUri,
};
use crate::{
    audit::ClientEvent,
    model::{Client, ClientAuth, ClientId, ClientIp, ClientKeys, GrantType, Registrant, Registration, Scopes},
    oauth::{
        dependencies::OAuthDeps,
        error::{ErrorResponse, OAuthError},
        rate_limits::RateLimit,
        secrets::{opaque, pepper::Pepper},
    },
    storage::{NewClient, RegistrationOutcome, UnusedLimits},
    support::{Digest, Secret, Timestamp, printable_name},
};

/// Limits for clients without a consent (`OA-42`). A person needs some minutes to log in.
const UNUSED_LIMITS: UnusedLimits =
    UnusedLimits { clients: 50_000, bytes: 64 * 1024 * 1024, protected: Duration::from_mins(15) };
/// Maximum bytes of one client in the store.
const MAX_STORED_BYTES: i64 = 8 * 1024;

/// Maximum length of a client name, in characters (`OA-33`).
const LONGEST_NAME: usize = 100;

/// Supported members; all others are ignored (`OA-38`).
#[derive(Debug, Deserialize)]
struct RegistrationRequest {
    #[serde(default)]
    redirect_uris: Option<Value>,
    #[serde(default)]
    client_name: Option<String>,
    #[serde(default)]
    token_endpoint_auth_method: Option<String>,
    #[serde(default)]
    grant_types: Option<Vec<String>>,
    #[serde(default)]
    response_types: Option<Vec<String>>,
    #[serde(default)]
    scope: Option<String>,
    #[serde(default)]
    application_type: Option<String>,
    #[serde(default)]
    software_id: Option<String>,
    #[serde(default)]
    software_version: Option<String>,
    #[serde(default)]
    client_uri: Option<String>,
    #[serde(default)]
    logo_uri: Option<String>,
    #[serde(default)]
    tos_uri: Option<String>,
    #[serde(default)]
    policy_uri: Option<String>,
    #[serde(default)]
    jwks_uri: Option<String>,
    #[serde(default)]
    jwks: Option<Value>,
}

/// The type of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MemberKind {
    Text,
    Texts,
    Object,
}

/// The typed members, by name.
const MEMBERS: [(&str, MemberKind); 15] = [
    ("redirect_uris", MemberKind::Texts),
    ("client_name", MemberKind::Text),
    ("token_endpoint_auth_method", MemberKind::Text),
    ("grant_types", MemberKind::Texts),
    ("response_types", MemberKind::Texts),
    ("scope", MemberKind::Text),
    ("application_type", MemberKind::Text),
    ("software_id", MemberKind::Text),
    ("software_version", MemberKind::Text),
    ("client_uri", MemberKind::Text),
    ("logo_uri", MemberKind::Text),
    ("tos_uri", MemberKind::Text),
    ("policy_uri", MemberKind::Text),
    ("jwks_uri", MemberKind::Text),
    ("jwks", MemberKind::Object),
];

/// Client authentication method requested in a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AuthMethod {
    None,
    Basic,
    Post,
    PrivateKeyJwt,
}

/// The registration of clients.
pub(in crate::oauth) struct Registrations {
    deps: OAuthDeps,
    pepper: Arc<Pepper>,
    /// Registrations by network (as a MAC). The limit is generous, because hosted clients share a network and a
    /// registration that leads to a consent does not count (`OA-42`).
    limits: RateLimit,
    tokens: Arc<InitialAccessTokens>,
}

// === impl Registrations ===

impl Registrations {
    pub(in crate::oauth) fn new(deps: OAuthDeps, pepper: Arc<Pepper>, tokens: Arc<InitialAccessTokens>) -> Self {
        let limits = deps.limits.limit("registrations", 60, Duration::from_mins(1));
        Self { deps, pepper, limits, tokens }
    }

    /// Refunds one registration to a network after it led to a consent (`OA-42`).
    pub(in crate::oauth) fn give_back(&self, network: &Digest, now: Timestamp) {
        self.limits.give_back(network.to_base64url(), now);
    }

    /// Registers a client and returns its metadata as stored (RFC 7591 3.2.1). A registered public client keeps its id
    /// (`OA-41`). A revoked client is refused until the operator restores it, because a new id would undo the
    /// revocation. `token` is the initial access token in the request, if there is one.
    pub(in crate::oauth) async fn register(
        &self,
        body: &[u8],
        token: Option<&str>,
        from: ClientIp,
    ) -> Result<Map<String, Value>, ErrorResponse> {
        if self.deps.settings.policy.get().registration == Registration::Off {
            return Err(ErrorResponse::RegistrationOff);
        }
        let now = self.deps.now();
        let request = RegistrationRequest::parse(body)?;
        let (method, grant_types) = (request.method()?, request.grant_types()?);
        let uris = self.redirect_uris(request.redirect_uris.as_ref(), &grant_types)?;
        if let Registration::Listed(listed) = &self.deps.settings.policy.get().registration
            && !uris.iter().all(|uri| listed.iter().any(|listed| listed == uri.recipient()))
        {
            return Err(ErrorResponse::RegistrationNotListed);
        }
        let mut metadata = request.metadata(&uris, &grant_types, method);
        let secret =
            matches!(method, AuthMethod::Basic | AuthMethod::Post).then(|| Secret::new(self.deps.random.token()));
        let keys = request.keys(method)?;
        if matches!(keys, Some(ClientKeys::Url(_))) && self.deps.settings.fetcher.is_none() {
            return Err(metadata_error("this gateway makes no requests: send the keys in jwks, not jwks_uri"));
        }
        let client = Client {
            id: ClientId::new(opaque::base62(&*self.deps.random, opaque::CLIENT_ID_LENGTH)),
            name: request.name(),
            redirect_uris: uris.iter().map(|uri| uri.as_str().to_owned()).collect(),
            auth: method.with(secret.as_ref(), keys),
            registrant: Registrant::Client,
            grant_types,
            scope: request.scope.clone(),
            metadata: Value::Object(metadata.clone()).to_string(),
            created: now,
        };
        let (id, created) = self.admit(client, fingerprint(&uris, &metadata), token, from, now).await?;
        metadata.insert("client_id".to_owned(), json!(id));
        metadata.insert("client_id_issued_at".to_owned(), json!(created.as_seconds()));
        if let Some(secret) = secret {
            metadata.insert("client_secret".to_owned(), json!(secret.expose()));
            metadata.insert("client_secret_expires_at".to_owned(), json!(0));
        }
        Ok(metadata)
    }

    /// Adds a client. If it needs an initial access token, one use of the token is taken (`OA-44`).
    async fn admit(
        &self,
        client: Client,
        registration: Digest,
        token: Option<&str>,
        from: ClientIp,
        now: Timestamp,
    ) -> Result<(ClientId, Timestamp), ErrorResponse> {
        if self.deps.settings.policy.get().registration != Registration::ByToken {
            return self.add_client(client, registration, from, now).await;
        }
        let (new, token) = (client.id.clone(), self.tokens.take(token, from).await?);
        let added = self.add_client(client, registration, from, now).await;
        match &added {
            Ok((id, _)) if *id == new => {
                let client = id.clone();
                self.deps.audit.record(ClientEvent::RegisteredByToken { client, token });
            }
            // no client was added
            Ok(_) | Err(_) => self.tokens.give_back(&token).await?,
        }
        added
    }

    /// Adds a client within the limits; returns its id and time of creation.
    async fn add_client(
        &self,
        client: Client,
        registration: Digest,
        from: ClientIp,
        now: Timestamp,
    ) -> Result<(ClientId, Timestamp), ErrorResponse> {
        if client.stored_bytes() > MAX_STORED_BYTES {
            return Err(metadata_error("the registration takes more than 8 KiB; send fewer or shorter members"));
        }
        let network = self.pepper.mac(&format!("network {}", from.network()));
        // before the first await, so that concurrent requests cannot all pass
        self.limits.take(network.to_base64url(), now).map_err(ErrorResponse::Limited)?;
        let new = NewClient { client, registration, network };
        let added = self.deps.storage.clients().add(&new, &UNUSED_LIMITS, now).await;
        if added.is_err() {
            // nothing is stored
            self.limits.give_back(network.to_base64url(), now);
        }
        match added? {
            RegistrationOutcome::Added => {
                let Client { id, name, .. } = new.client;
                self.deps.audit.record(ClientEvent::Registered { client: id.clone(), name, from: from.0 });
                Ok((id, now))
            }
            // it takes no space
            RegistrationOutcome::Known(id, created) => {
                self.limits.give_back(network.to_base64url(), now);
                self.deps.audit.record(ClientEvent::Known { client: id.clone(), from: from.0 });
                Ok((id, created))
            }
            RegistrationOutcome::Revoked => Err(ErrorResponse::ClientRevoked),
            RegistrationOutcome::Full(until) => {
                tracing::warn!(
                    "new clients cannot register: too many clients without consent registered within 15 minutes"
                );
                Err(ErrorResponse::Limited(until.since(now)))
            }
        }
    }

    /// Deletes clients without consent beyond the limits.
    pub(in crate::oauth) async fn purge(&self, now: Timestamp) -> Result<(), OAuthError> {
        Ok(self.deps.storage.clients().purge(&UNUSED_LIMITS, now).await?)
    }

    /// Reads the redirect URIs. One that is invalid rejects the whole request (`OA-32`).
    fn redirect_uris(
        &self,
        given: Option<&Value>,
        grant_types: &[GrantType],
    ) -> Result<Vec<RedirectUri>, ErrorResponse> {
        let refuse = |text: &str| ErrorResponse::InvalidRedirectUri(text.to_owned());
        // a client with only the device grant has none
        if !grant_types.contains(&GrantType::AuthorizationCode)
            && given.and_then(Value::as_array).is_none_or(Vec::is_empty)
        {
            return Ok(Vec::new());
        }
        let given = given.and_then(Value::as_array).ok_or_else(|| refuse("redirect_uris is missing"))?;
        if !(1..=10).contains(&given.len()) {
            return Err(refuse("redirect_uris takes 1 to 10 URIs"));
        }
        let parse = |uri: &Value| {
            let uri = uri.as_str().ok_or_else(|| refuse("a redirect URI is not a string"))?;
            RedirectUri::parse(uri, &self.deps.settings.policy.get().redirect_schemes)
                .map_err(|error| refuse(&error.to_string()))
        };
        given.iter().map(parse).collect()
    }
}

// === impl RegistrationRequest ===

impl RegistrationRequest {
    fn parse(body: &[u8]) -> Result<Self, ErrorResponse> {
        // serde would read a struct from an array too, member by member (N-11)
        let object: Map<String, Value> =
            serde_json::from_slice(body).map_err(|_| metadata_error("the body is not a JSON object"))?;
        for (member, kind) in MEMBERS {
            if let Some(value) = object.get(member).filter(|value| !value.is_null() && !kind.fits(value)) {
                let (is, wanted) = (type_of(value), kind.name());
                let problem = format!("the member {member} is {is}, and has to be {wanted}");
                return Err(match member {
                    "redirect_uris" => ErrorResponse::InvalidRedirectUri(problem),
                    _ => ErrorResponse::InvalidClientMetadata(problem),
                });
            }
        }
        let request: Self = serde_json::from_value(Value::Object(object))
            .map_err(|_| metadata_error("the body has a member of RFC 7591 2 in another type"))?;
        if request.jwks.is_some() && request.jwks_uri.is_some() {
            return Err(metadata_error("jwks and jwks_uri exclude each other"));
        }
        if let Some(Err(problem @ KeySetProblem::Private)) = request.jwks.as_ref().map(ClientKeySet::parse) {
            return Err(metadata_error(&problem.to_string()));
        }
        let pages = [&request.client_uri, &request.logo_uri, &request.tos_uri, &request.policy_uri];
        if !pages.into_iter().flatten().all(|page| is_web_page(page)) {
            return Err(metadata_error("client_uri, logo_uri, tos_uri and policy_uri are http or https URLs"));
        }
        if request.scope.as_deref().is_some_and(|scope| Scopes::parse(scope).is_err()) {
            return Err(metadata_error("scope has a character that RFC 6749 3.3 does not allow"));
        }
        Ok(request)
    }

    /// The authentication method. A client that names none is public, because a secret for an unknown client proves
    /// nothing (`OA-34`).
    fn method(&self) -> Result<AuthMethod, ErrorResponse> {
        match self.token_endpoint_auth_method.as_deref() {
            None | Some("none") => Ok(AuthMethod::None),
            Some("client_secret_basic") => Ok(AuthMethod::Basic),
            Some("client_secret_post") => Ok(AuthMethod::Post),
            Some("private_key_jwt") => Ok(AuthMethod::PrivateKeyJwt),
            Some(_) => Err(metadata_error(
                "token_endpoint_auth_method is none of none, client_secret_basic, client_secret_post and private_key_jwt",
            )),
        }
    }

    /// The keys of a client that signs its assertions; such a client must have some (`OA-34`).
    fn keys(&self, method: AuthMethod) -> Result<Option<ClientKeys>, ErrorResponse> {
        if method != AuthMethod::PrivateKeyJwt {
            return Ok(None);
        }
        let Some(set) = &self.jwks else {
            let needed = "private_key_jwt needs the public keys in jwks, or their URL in jwks_uri";
            let url = self.jwks_uri.as_deref().ok_or_else(|| metadata_error(needed))?;
            return jwks_url(url).map(|url| Some(ClientKeys::Url(url))).map_err(metadata_error);
        };
        ClientKeySet::parse(set).map_err(|problem| metadata_error(&problem.to_string()))?;
        Ok(Some(ClientKeys::Inline(set.to_string())))
    }

    /// Drops grant types that are not open to registration, if the code flow or the device flow is left (`OA-37`). Only
    /// the operator may create service accounts (`OA-144`).
    fn grant_types(&self) -> Result<Vec<GrantType>, ErrorResponse> {
        let code_remains = self.response_types.as_ref().is_none_or(|types| types.iter().any(|name| name == "code"));
        let mut types = match &self.grant_types {
            None => vec![GrantType::AuthorizationCode, GrantType::RefreshToken],
            Some(names) => {
                let known = names.iter().filter_map(|name| GrantType::parse(name));
                known.filter(|known| known.is_for_everybody()).collect()
            }
        };
        types.sort_unstable();
        types.dedup();
        if !code_remains {
            types.retain(|known| *known != GrantType::AuthorizationCode);
        }
        if types.contains(&GrantType::AuthorizationCode) || types.contains(&GrantType::DeviceCode) {
            Ok(types)
        } else {
            Err(metadata_error(
                "the client needs the grant type authorization_code and the response type code, or the device code grant",
            ))
        }
    }

    /// The printable name, truncated; a neutral name if there is none (`OA-33`).
    fn name(&self) -> String {
        let text = self.client_name.as_deref().unwrap_or_default();
        let name = printable_name(text, LONGEST_NAME);
        if name.is_empty() { "An unnamed client".to_owned() } else { name }
    }

    fn metadata(&self, uris: &[RedirectUri], grant_types: &[GrantType], method: AuthMethod) -> Map<String, Value> {
        let mut metadata = Map::new();
        let mut add = |name: &str, value: Option<Value>| value.map(|value| metadata.insert(name.to_owned(), value));
        let text = |value: &Option<String>| value.as_deref().filter(|text| !text.is_empty()).map(|text| json!(text));
        add("redirect_uris", Some(json!(uris.iter().map(RedirectUri::as_str).collect::<Vec<_>>())));
        add("client_name", Some(json!(self.name())));
        add("token_endpoint_auth_method", Some(json!(method.name())));
        add("grant_types", Some(json!(grant_types)));
        let has_code = grant_types.contains(&GrantType::AuthorizationCode);
        add("response_types", Some(if has_code { json!(["code"]) } else { json!([]) }));
        add("jwks", self.jwks.clone().filter(|_| method == AuthMethod::PrivateKeyJwt));
        add("jwks_uri", text(&self.jwks_uri).filter(|_| method == AuthMethod::PrivateKeyJwt));
        let known = self.scope.as_deref().and_then(|scope| Scopes::parse(scope).ok()).filter(|known| !known.is_empty());
        add("scope", known.map(|known| json!(known.to_string())));
        add("application_type", text(&self.application_type));
        add("software_id", text(&self.software_id));
        add("software_version", text(&self.software_version));
        add("client_uri", text(&self.client_uri));
        add("logo_uri", text(&self.logo_uri));
        add("tos_uri", text(&self.tos_uri));
        add("policy_uri", text(&self.policy_uri));
        metadata
    }
}

// === impl MemberKind ===

impl MemberKind {
    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Texts => value.as_array().is_some_and(|all| all.iter().all(Value::is_string)),
            Self::Object => value.is_object(),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Texts => "an array of strings",
            Self::Object => "an object",
        }
    }
}

/// The type of a value, for people.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array with something else in it",
        Value::Object(_) => "an object",
    }
}

// === impl AuthMethod ===

impl AuthMethod {
    const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }

    fn with(self, secret: Option<&Secret>, keys: Option<ClientKeys>) -> ClientAuth {
        match (self, secret, keys) {
            (Self::Basic, Some(secret), _) => ClientAuth::Basic(secret.digest()),
            (Self::Post, Some(secret), _) => ClientAuth::Post(secret.digest()),
            (Self::PrivateKeyJwt, _, Some(keys)) => ClientAuth::PrivateKeyJwt(keys),
            _ => ClientAuth::None,
        }
    }
}

fn metadata_error(text: &str) -> ErrorResponse {
    ErrorResponse::InvalidClientMetadata(text.to_owned())
}

/// Digest of a registration, without ports and regardless of order (`OA-41`).
fn fingerprint(uris: &[RedirectUri], metadata: &Map<String, Value>) -> Digest {
    let mut uris: Vec<String> = uris.iter().map(RedirectUri::without_port).collect();
    uris.sort_unstable();
    uris.dedup();
    let mut normal = metadata.clone();
    normal.insert("redirect_uris".to_owned(), json!(uris));
    Digest::sha256(Value::Object(normal).to_string())
}

fn is_web_page(text: &str) -> bool {
    text.is_empty() || url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}
