//! Identity of the client at an authorization server: given, or registered dynamically (RFC 7591).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    discovery::AuthorizationServer,
    error::LoginError,
    http::OAuthHttp,
    kept_secret::KeptSecret,
    refusal::{OAuthRefusal, RefusalMeaning},
    server_identity::is_same,
};
use crate::{
    model::AuthorizationSettings,
    support::{Secret, Timestamp, printable_name},
};

/// Error for a secret without an issuer to send it to.
const UNBOUND: &str = "a client secret needs `issuer` (`--issuer`): the authorization server that it is for";

#[derive(Debug, Clone)]
pub enum ClientIdentity {
    Registered,
    /// An id from an earlier registration, or the URL of a client id metadata document.
    Given {
        id: String,
        secret: Option<IssuerSecret>,
    },
}

/// The secret of a given client, and the only authorization server to send it to.
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
    pub id: String,
    pub auth: RegisteredAuth,
    pub redirect_uri: String,
    /// Expiry of its secret; `None` if it does not expire.
    pub secret_expires: Option<Timestamp>,
}

/// Authentication of a client by its secret (RFC 7591 2, `token_endpoint_auth_method`).
#[derive(Debug, Clone)]
pub enum RegisteredAuth {
    None,
    /// In a header: `client_secret_basic`.
    Basic(KeptSecret),
    /// In the body: `client_secret_post`.
    Post(KeptSecret),
}

/// A client as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredClient {
    issuer: String,
    id: String,
    secret: Option<KeptSecret>,
    secret_in_body: bool,
    redirect_uri: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret_expires: Option<Timestamp>,
}

/// Maximum length of a client's name, in characters: a host may have 253.
const LONGEST_NAME: usize = 100;

/// The client's description of itself.
#[derive(Debug, Clone)]
pub struct ClientRegistration<'a> {
    /// Its name, for people at the authorization server.
    pub name: String,
    /// The one redirect URI.
    pub redirect_uri: String,
    /// The scopes that the client will ask for, separated by spaces.
    pub scope: Option<&'a str>,
    pub application: ApplicationType,
}

/// `application_type`: the kind of machine that the client runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplicationType {
    /// A person's machine, where no secret is safe.
    Native,
    Web,
}

// === impl ClientIdentity ===

impl ClientIdentity {
    /// A given client. A secret belongs to the configured issuer.
    ///
    /// # Errors
    ///
    /// If there is a secret but no issuer: the server must not choose who gets the secret.
    pub fn given(id: &str, secret: Option<Secret>, settings: &AuthorizationSettings) -> Result<Self, LoginError> {
        let secret = match (secret, &settings.issuer) {
            (None, _) => None,
            (Some(secret), Some(issuer)) => Some(IssuerSecret { issuer: issuer.clone(), secret }),
            (Some(_), None) => return Err(LoginError::Untrusted(UNBOUND.to_owned())),
        };
        Ok(Self::Given { id: id.to_owned(), secret })
    }

    /// True if it was registered by hand.
    pub const fn is_given(&self) -> bool {
        matches!(self, Self::Given { .. })
    }

    /// Turns a refusal of a client that was registered by hand into an error that says so.
    pub fn explain(&self, error: LoginError) -> LoginError {
        match (self, error) {
            (Self::Given { id, secret }, LoginError::Refused(refusal))
                if refusal.meaning() == RefusalMeaning::ClientIsUnknown =>
            {
                let issuer = secret.as_ref().map_or("the authorization server", |secret| &secret.issuer).to_owned();
                LoginError::GivenClient { issuer, id: id.clone(), refusal }
            }
            (_, error) => error,
        }
    }

    /// The client of an earlier login, with its current secret.
    pub fn current(&self, client: &RegisteredClient) -> RegisteredClient {
        let Self::Given { id, secret: Some(secret) } = self else { return client.clone() };
        if *id != client.id || !is_same(&secret.issuer, &client.issuer) {
            return client.clone();
        }
        let in_body = matches!(client.auth, RegisteredAuth::Post(_));
        let auth = RegisteredAuth::of(Some(KeptSecret(secret.secret.clone())), in_body);
        RegisteredClient { auth, ..client.clone() }
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

/// The client to log in with at `server`: the given one, or a newly registered one.
pub async fn identify(
    identity: &ClientIdentity,
    server: &AuthorizationServer,
    description: ClientRegistration<'_>,
    http: &OAuthHttp,
    now: Timestamp,
) -> Result<RegisteredClient, LoginError> {
    let issuer = server.issuer.clone();
    if let ClientIdentity::Given { id, secret } = identity {
        let secret = secret.as_ref().map(|secret| secret.of(server)).transpose()?;
        let (id, redirect_uri) = (id.clone(), description.redirect_uri);
        let auth = RegisteredAuth::of(secret, server.takes_secret_in_body());
        return Ok(RegisteredClient { issuer, id, auth, redirect_uri, secret_expires: None });
    }
    if server.registration_endpoint.is_none() {
        return Err(LoginError::NoRegistration { issuer, redirect_uri: description.redirect_uri });
    }
    match description.register(server, http, now).await {
        // some servers accept no scopes in a registration, or not these
        Err(LoginError::Refused(refusal))
            if description.scope.is_some() && refusal.meaning() != RefusalMeaning::Passes =>
        {
            tracing::info!(issuer, %refusal, "a registration with scopes is refused: it is tried without");
            ClientRegistration { scope: None, ..description }.register(server, http, now).await
        }
        outcome => outcome,
    }
}

// === impl RegisteredClient ===

impl RegisteredClient {
    /// True if its secret has expired: it has to register again.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.secret_expires.is_some_and(|end| end <= now)
    }

    /// Reads the answer to the registration of a client with this method (RFC 7591 3.2.1).
    fn read(
        answer: &Value,
        server: &AuthorizationServer,
        redirect_uri: String,
        asked: &str,
        now: Timestamp,
    ) -> Option<Self> {
        let id = match &answer["client_id"] {
            Value::String(id) if !id.is_empty() => id.clone(),
            Value::Number(id) => id.to_string(),
            _ => return None,
        };
        let secret = answer["client_secret"].as_str().filter(|secret| !secret.is_empty()).map(KeptSecret::new);
        let with_secret = |method: &&str| *method != "none";
        let method = answer["token_endpoint_auth_method"].as_str().or(Some(asked).filter(with_secret));
        let of_metadata = || server.auth_method(&["client_secret_basic", "client_secret_post", "none"]);
        let auth = match (secret, method) {
            (None, _) | (Some(_), Some("none")) => RegisteredAuth::None,
            (Some(secret), Some("client_secret_basic")) => RegisteredAuth::Basic(secret),
            (Some(secret), Some("client_secret_post")) => RegisteredAuth::Post(secret),
            (Some(secret), _) => match of_metadata() {
                Some("none") => RegisteredAuth::None,
                method => RegisteredAuth::of(Some(secret), method == Some("client_secret_post")),
            },
        };
        let expires = match &answer["client_secret_expires_at"] {
            Value::String(text) => text.trim().parse().ok(),
            number => number.as_i64(),
        };
        // an expiry in the past is ignored: some servers send a lifetime instead
        let secret_expires = expires.map(Timestamp::from_seconds).filter(|end| *end > now);
        Some(Self { issuer: server.issuer.clone(), id, auth, redirect_uri, secret_expires })
    }
}

// === impl RegisteredAuth ===

impl RegisteredAuth {
    /// Authentication with this secret, in the request body or the header.
    pub fn of(secret: Option<KeptSecret>, in_body: bool) -> Self {
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
        let StoredClient { issuer, id, secret, secret_in_body, redirect_uri, secret_expires } = stored;
        Self { issuer, id, auth: RegisteredAuth::of(secret, secret_in_body), redirect_uri, secret_expires }
    }
}

impl From<RegisteredClient> for StoredClient {
    fn from(client: RegisteredClient) -> Self {
        let RegisteredClient { issuer, id, auth, redirect_uri, secret_expires } = client;
        let secret_in_body = matches!(auth, RegisteredAuth::Post(_));
        Self { issuer, id, secret: auth.secret().cloned(), secret_in_body, redirect_uri, secret_expires }
    }
}

// === impl ClientRegistration ===

impl ClientRegistration<'_> {
    async fn register(
        &self,
        server: &AuthorizationServer,
        http: &OAuthHttp,
        now: Timestamp,
    ) -> Result<RegisteredClient, LoginError> {
        let (Some(endpoint), method) = (&server.registration_endpoint, self.method(server)) else {
            let (issuer, redirect_uri) = (server.issuer.clone(), self.redirect_uri.clone());
            return Err(LoginError::NoRegistration { issuer, redirect_uri });
        };
        let response = http.post(endpoint, &self.request(method)).await?;
        let (status, answer) = (response.status(), serde_json::from_slice(response.body()).unwrap_or_default());
        let client = RegisteredClient::read(&answer, server, self.redirect_uri.clone(), method, now);
        if let Some(client) = client.filter(|_| status.is_success()) {
            return Ok(client);
        }
        let refusal = OAuthRefusal::read(status.as_u16(), response.headers(), response.body(), now);
        match (status.is_success(), &refusal.code) {
            (false, Some(_)) => Err(LoginError::Refused(refusal)),
            (false, None) => Err(LoginError::Unavailable(format!("{endpoint} did not register the client: {refusal}"))),
            (true, _) => Err(LoginError::Untrusted(format!("{endpoint} answered without a `client_id`"))),
        }
    }

    /// The method to ask for (RFC 7591 2). A native application cannot keep a secret (RFC 8252 8.5), so it asks for one
    /// only if nothing else is offered; a server uses a secret if it can.
    fn method(&self, server: &AuthorizationServer) -> &'static str {
        const NONE: &str = "none";
        let offered = match self.application {
            ApplicationType::Native if server.auth_methods.is_empty() => Some(NONE),
            ApplicationType::Native => server.auth_method(&[NONE, "client_secret_post", "client_secret_basic"]),
            ApplicationType::Web => server.auth_method(&["client_secret_post", "client_secret_basic", NONE]),
        };
        offered.unwrap_or(NONE)
    }

    fn request(&self, method: &str) -> Value {
        let application = match self.application {
            ApplicationType::Native => "native",
            ApplicationType::Web => "web",
        };
        let mut request = json!({
            "client_name": printable_name(&self.name, LONGEST_NAME),
            "redirect_uris": [self.redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn server(methods: &[&str]) -> AuthorizationServer {
        AuthorizationServer::with_methods("https://as.example", methods)
    }

    fn described(application: ApplicationType) -> ClientRegistration<'static> {
        let (name, redirect_uri) =
            ("lockkeeper connect on laptop\u{202e}\n".to_owned(), "http://127.0.0.1:1/".to_owned());
        ClientRegistration { name, redirect_uri, scope: None, application }
    }

    #[test]
    fn up_004_a_client_registers_under_a_name_that_is_short_and_printable() {
        let described = described(ApplicationType::Native);
        let name = |name: String| {
            let request = ClientRegistration { name, ..described.clone() }.request("none");
            request["client_name"].as_str().unwrap().to_owned()
        };
        assert_eq!(name(described.name.clone()), "lockkeeper connect on laptop");
        assert_eq!(name("x".repeat(300)).len(), LONGEST_NAME);
    }

    #[test]
    fn up_023_a_client_asks_for_a_secret_only_where_it_gets_nothing_else() {
        let (basic, post) = ("client_secret_basic", "client_secret_post");
        for (offered, native, web) in [
            (&[][..], "none", basic),
            (&["none"], "none", "none"),
            (&["none", post], "none", post),
            (&[basic, post], post, post),
            (&[basic], basic, basic),
            (&["private_key_jwt"], "none", "none"),
        ] {
            let method = |application| described(application).method(&server(offered));
            assert_eq!((method(ApplicationType::Native), method(ApplicationType::Web)), (native, web), "{offered:?}");
        }
    }

    #[test]
    fn up_023_the_answer_says_how_the_client_authenticates_else_the_metadata() {
        let now = Timestamp::from_seconds(1_000_000);
        let read = |answer: Value, offered: &[&str]| {
            let redirect_uri = "http://127.0.0.1:1/".to_owned();
            let client = RegisteredClient::read(&answer, &server(offered), redirect_uri, "none", now)?;
            let method = match client.auth {
                RegisteredAuth::None => "none",
                RegisteredAuth::Basic(_) => "basic",
                RegisteredAuth::Post(_) => "post",
            };
            Some((client.id, method, client.secret_expires))
        };
        let all = &["none", "client_secret_post", "client_secret_basic"][..];
        let (none, post) = ("none", "client_secret_post");
        for (service, answer, offered, method) in [
            (
                "Descope",
                json!({ "client_id": "c", "client_secret": "", "token_endpoint_auth_method": none }),
                all,
                "none",
            ),
            (
                "a useless secret",
                json!({ "client_id": "c", "client_secret": "s", "token_endpoint_auth_method": none }),
                all,
                "none",
            ),
            (
                "Figma",
                json!({ "client_id": "c", "client_secret": "s", "token_endpoint_auth_method": post }),
                all,
                "post",
            ),
            ("no method", json!({ "client_id": "c", "client_secret": "s" }), &[post], "post"),
            ("no method", json!({ "client_id": "c", "client_secret": "s" }), all, "basic"),
            ("no method, and no metadata", json!({ "client_id": "c", "client_secret": "s" }), &[], "basic"),
            ("no method, and public clients alone", json!({ "client_id": "c", "client_secret": "s" }), &[none], "none"),
            ("a method without a secret", json!({ "client_id": "c", "token_endpoint_auth_method": post }), all, "none"),
            (
                "null",
                json!({ "client_id": "c", "client_secret": null, "token_endpoint_auth_method": null }),
                all,
                "none",
            ),
        ] {
            assert_eq!(read(answer, offered), Some(("c".to_owned(), method, None)), "{service}");
        }
        assert_eq!(read(json!({ "client_id": 7 }), all).map(|read| read.0).as_deref(), Some("7"));
        assert_eq!(read(json!({ "client_id": "" }), all), None);
        let ends = |at: Value| {
            let answer = json!({ "client_id": "c", "client_secret": "s", "client_secret_expires_at": at });
            read(answer, all)?.2.map(Timestamp::as_seconds)
        };
        assert_eq!(
            (ends(json!(0)), ends(json!(1_000_001)), ends(json!("1000001"))),
            (None, Some(1_000_001), Some(1_000_001))
        );
        assert_eq!(ends(json!(3600)), None, "a life in place of an end");
    }
}
