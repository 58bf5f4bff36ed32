//! Token requests (RFC 6749 4.1.3, 6; RFC 7009; RFC 8707).

use base64::{Engine as _, engine::general_purpose::STANDARD};
use oauth2::{
    AuthType, AuthUrl, AuthorizationCode, ClientId, ClientSecret, PkceCodeVerifier, RedirectUrl, RefreshToken,
    RequestTokenError, Scope, TokenUrl, basic::BasicErrorResponse,
};
use serde::{Deserialize, Serialize};
use url::{Url, form_urlencoded};

use super::{
    discovery::AuthorizationServer,
    error::LoginError,
    http::OAuthHttp,
    kept_secret::KeptSecret,
    refusal::RefusalMeaning,
    registration::{RegisteredAuth, RegisteredClient},
    saved_tokens::{IssuedTokens, SavedTokens, TokenGrant},
    server_identity::{ResourceServer, fits},
    token_endpoint::{OAuthClient, TokenExchange},
    token_response::TokenFailure,
};
use crate::support::{Secret, Timestamp};

/// The form of assertions (RFC 7523 2.2).
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The authorization server that issues the tokens, and the resource they are for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenSource {
    pub issuer: String,
    pub authorization_endpoint: Url,
    pub token_endpoint: Url,
    #[serde(default)]
    pub revocation_endpoint: Option<Url>,
    /// Identifier of the protected resource, sent with every request.
    pub resource: Option<String>,
}

/// A client, and how it authenticates.
#[derive(Debug, Clone)]
pub struct AuthenticatedClient<'a> {
    /// The client; it authenticates with its secret, if it has one.
    pub client: &'a RegisteredClient,
    /// A signed assertion (RFC 7523 2.2), for `private_key_jwt`.
    pub assertion: Option<Secret>,
    /// True if it was registered by hand: only its owner can correct it.
    pub is_given: bool,
}

// === impl AuthenticatedClient ===

impl<'a> From<&'a RegisteredClient> for AuthenticatedClient<'a> {
    fn from(client: &'a RegisteredClient) -> Self {
        Self { client, assertion: None, is_given: false }
    }
}

// === impl TokenSource ===

impl TokenSource {
    /// The source of tokens from `server` for this resource.
    pub fn new(server: &AuthorizationServer, resource: Option<String>) -> Self {
        Self {
            issuer: server.issuer.clone(),
            authorization_endpoint: server.authorization_endpoint.clone(),
            token_endpoint: server.token_endpoint.clone(),
            revocation_endpoint: server.revocation_endpoint.clone(),
            resource,
        }
    }

    /// True if its tokens may be sent to the server with its current settings.
    pub fn is_for(&self, server: ResourceServer<'_>) -> bool {
        fits(server, &self.issuer, self.resource.as_deref())
    }

    /// The client of the `oauth2` crate for these endpoints.
    pub(super) fn client(&self, client: &RegisteredClient) -> Result<OAuthClient, LoginError> {
        let wrong = |what: &str| LoginError::Untrusted(format!("{what} of {} is not a URL", self.issuer));
        let redirect = RedirectUrl::new(client.redirect_uri.clone()).map_err(|_| wrong("the redirect URI"))?;
        let oauth = oauth2::Client::new(ClientId::new(client.id.clone()))
            .set_auth_uri(AuthUrl::from_url(self.authorization_endpoint.clone()))
            .set_token_uri(TokenUrl::from_url(self.token_endpoint.clone()))
            .set_redirect_uri(redirect);
        let secret = |secret: &KeptSecret| ClientSecret::new(secret.expose().to_owned());
        Ok(match &client.auth {
            RegisteredAuth::None => oauth.set_auth_type(AuthType::RequestBody),
            RegisteredAuth::Basic(kept) => oauth.set_client_secret(secret(kept)).set_auth_type(AuthType::BasicAuth),
            RegisteredAuth::Post(kept) => oauth.set_client_secret(secret(kept)).set_auth_type(AuthType::RequestBody),
        })
    }

    /// Exchanges an authorization code.
    pub async fn exchange(
        &self,
        code: String,
        verifier: &KeptSecret,
        client: AuthenticatedClient<'_>,
        http: &OAuthHttp,
        now: Timestamp,
    ) -> Result<IssuedTokens, LoginError> {
        let oauth = self.client(client.client)?;
        let mut request = oauth
            .exchange_code(AuthorizationCode::new(code))
            .set_pkce_verifier(PkceCodeVerifier::new(verifier.expose().to_owned()));
        for (name, value) in self.further(&client) {
            request = request.add_extra_param(name, value);
        }
        let response = request.request_async(&TokenExchange { http, now }).await.map_err(|error| self.failed(error))?;
        Ok(IssuedTokens::read(&response, TokenGrant::AuthorizationCode, now))
    }

    /// Refreshes an access token. The refresh token stays if the response has none (RFC 6749 6).
    pub async fn refresh(
        &self,
        old: &SavedTokens,
        token: &KeptSecret,
        client: AuthenticatedClient<'_>,
        http: &OAuthHttp,
        now: Timestamp,
    ) -> Result<IssuedTokens, LoginError> {
        let oauth = self.client(client.client)?;
        let token = RefreshToken::new(token.expose().to_owned());
        let mut request = oauth.exchange_refresh_token(&token);
        for (name, value) in self.further(&client) {
            request = request.add_extra_param(name, value);
        }
        let response = request.request_async(&TokenExchange { http, now }).await.map_err(|error| self.failed(error))?;
        let IssuedTokens { tokens: new, id_token, refresh_life } =
            IssuedTokens::read(&response, TokenGrant::RefreshToken, now);
        let tokens = SavedTokens {
            refresh: new.refresh.or_else(|| old.refresh.clone()),
            scope: new.scope.or_else(|| old.scope.clone()),
            stepped_up: old.stepped_up.clone(),
            ..new
        };
        Ok(IssuedTokens { tokens, id_token, refresh_life })
    }

    /// Requests tokens for the client itself (RFC 6749 4.4), with these scopes; if they are refused, once more without
    /// scopes.
    pub async fn client_credentials(
        &self,
        client: AuthenticatedClient<'_>,
        scope: Option<&str>,
        http: &OAuthHttp,
        now: Timestamp,
    ) -> Result<SavedTokens, LoginError> {
        let with_scope = self.own_tokens(&client, scope, http, now).await;
        match with_scope {
            Err(LoginError::Refused(refusal))
                if scope.is_some() && refusal.meaning() == RefusalMeaning::Scope && client.assertion.is_none() =>
            {
                tracing::info!(issuer = self.issuer, %refusal, "tokens are asked for without scopes");
                self.own_tokens(&client, None, http, now).await
            }
            outcome => outcome,
        }
    }

    async fn own_tokens(
        &self,
        client: &AuthenticatedClient<'_>,
        scope: Option<&str>,
        http: &OAuthHttp,
        now: Timestamp,
    ) -> Result<SavedTokens, LoginError> {
        let oauth = self.client(client.client)?;
        let scopes = scope.into_iter().flat_map(|scope| scope.split_ascii_whitespace());
        let mut request =
            oauth.exchange_client_credentials().add_scopes(scopes.map(|scope| Scope::new(scope.to_owned())));
        for (name, value) in self.further(client) {
            request = request.add_extra_param(name, value);
        }
        let response = request.request_async(&TokenExchange { http, now }).await.map_err(|error| self.failed(error))?;
        Ok(IssuedTokens::read(&response, TokenGrant::ClientCredentials, now).tokens)
    }

    /// Revokes tokens (RFC 7009), preferably by the refresh token. Does nothing if the server has no endpoint for it.
    pub async fn revoke(
        &self,
        http: &OAuthHttp,
        client: AuthenticatedClient<'_>,
        tokens: &SavedTokens,
    ) -> Result<(), LoginError> {
        let Some(endpoint) = &self.revocation_endpoint else { return Ok(()) };
        let (token, hint) = match &tokens.refresh {
            Some(refresh) => (refresh, "refresh_token"),
            None => (&tokens.access, "access_token"),
        };
        let mut fields = vec![("token", token.expose()), ("token_type_hint", hint)];
        let id = client.client.id.as_str();
        let basic = match &client.client.auth {
            RegisteredAuth::Basic(secret) => Some(client_secret_basic(id, secret.expose())),
            RegisteredAuth::Post(secret) => {
                fields.extend([("client_id", id), ("client_secret", secret.expose())]);
                None
            }
            RegisteredAuth::None => {
                fields.push(("client_id", id));
                None
            }
        };
        if let Some(assertion) = &client.assertion {
            fields.extend([("client_assertion_type", ASSERTION_TYPE), ("client_assertion", assertion.expose())]);
        }
        let status = http.form(endpoint, &fields, basic.as_ref().map(Secret::expose)).await?;
        let failed = || LoginError::Unavailable(format!("{endpoint} did not revoke the tokens ({status})"));
        if status.is_success() { Ok(()) } else { Err(failed()) }
    }

    /// Parameters of a token request that the `oauth2` crate does not know.
    fn further<'a>(&'a self, client: &'a AuthenticatedClient<'_>) -> Vec<(&'static str, &'a str)> {
        let mut further: Vec<_> = self.resource.iter().map(|resource| ("resource", resource.as_str())).collect();
        if matches!(client.client.auth, RegisteredAuth::Basic(_)) {
            // the authorization server in the Python SDK looks for it there, regardless of the header
            further.push(("client_id", client.client.id.as_str()));
        }
        if let Some(assertion) = &client.assertion {
            further.extend([("client_assertion_type", ASSERTION_TYPE), ("client_assertion", assertion.expose())]);
        }
        further
    }

    fn failed(&self, error: RequestTokenError<TokenFailure, BasicErrorResponse>) -> LoginError {
        let endpoint = &self.token_endpoint;
        match error {
            RequestTokenError::Request(TokenFailure::Refused(refusal)) => LoginError::Refused(refusal),
            RequestTokenError::Request(TokenFailure::Unreachable(reason)) => {
                LoginError::Unavailable(format!("{endpoint} cannot be reached ({reason})"))
            }
            RequestTokenError::Request(TokenFailure::Unusable(what)) => {
                LoginError::Untrusted(format!("{what} ({endpoint})"))
            }
            // the response is in the form that the crate reads
            RequestTokenError::ServerResponse(_) | RequestTokenError::Parse(..) | RequestTokenError::Other(_) => {
                LoginError::Unavailable(format!("{endpoint} answered with no token response"))
            }
        }
    }
}

/// The header of `client_secret_basic` (RFC 6749 2.3.1).
pub fn client_secret_basic(id: &str, secret: &str) -> Secret {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    Secret::new(format!("Basic {}", STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret)))))
}
