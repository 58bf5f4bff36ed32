//! Requests of the gateway to a provider: codes, refresh tokens, user information (Core 3.1.3, 5.3, 12). Knows nothing of
//! what the tokens mean.

use std::{fmt, pin::Pin};

use http::{HeaderValue, header};
use oauth2::{
    AsyncHttpClient, AuthType, AuthUrl, AuthorizationCode, Client, ClientId, ClientSecret, CsrfToken, EndpointNotSet,
    EndpointSet, ExtraTokenFields, HttpRequest, HttpResponse, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl,
    RefreshToken, RequestTokenError, Scope, StandardRevocableToken, StandardTokenResponse, TokenResponse as _,
    TokenUrl,
    basic::{
        BasicErrorResponse, BasicErrorResponseType, BasicRevocationErrorResponse, BasicTokenIntrospectionResponse,
        BasicTokenType,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::{Url, form_urlencoded};

use super::{
    discovery::{ProviderClientAuth, ProviderMetadata},
    error::OpenIdError,
    pending_login::PendingLogin,
};
use crate::{
    fetch::{FetchError, FetchRequest, FetchRules, Fetcher},
    model::LoginProvider,
    support::Secret,
};

/// Tokens of a provider.
pub(super) struct ProviderTokens {
    pub(super) access: Secret,
    pub(super) refresh: Option<Secret>,
    pub(super) id_token: Option<Secret>,
}

/// The member of a token response that OpenID Connect adds.
#[derive(Deserialize, Serialize)]
struct IdTokenField {
    id_token: Option<String>,
}

type TokenAnswer = StandardTokenResponse<IdTokenField, BasicTokenType>;
type TokenFailure = RequestTokenError<FetchError, BasicErrorResponse>;
type OpenIdClient = Client<
    BasicErrorResponse,
    TokenAnswer,
    BasicTokenIntrospectionResponse,
    StandardRevocableToken,
    BasicRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointSet,
>;

/// The gateway as client of one provider.
pub(super) struct ProviderClient<'a> {
    pub(super) spec: &'a LoginProvider,
    pub(super) metadata: &'a ProviderMetadata,
    pub(super) redirect_uri: &'a str,
    pub(super) fetcher: &'a Fetcher,
    pub(super) rules: &'a FetchRules,
}

/// Sends requests of the `oauth2` crate, all of which are forms, through the guard.
struct GuardedHttp<'a> {
    fetcher: &'a Fetcher,
    rules: &'a FetchRules,
}

// === impl ProviderClient ===

impl ProviderClient<'_> {
    /// The URL at which a person logs in.
    pub(super) fn authorization_url(&self, login: &PendingLogin) -> Result<Url, OpenIdError> {
        let client = self.client()?;
        let challenge = PkceCodeChallenge::from_code_verifier_sha256(&PkceCodeVerifier::new(login.verifier.clone()));
        let state = CsrfToken::new(login.state.clone());
        let request = client.authorize_url(|| state).set_pkce_challenge(challenge);
        let mut request = request.add_scopes(self.spec.scopes.iter().cloned().map(Scope::new));
        request = request.add_extra_param("nonce", login.nonce.clone());
        // not `consent` for `offline_access` (Core 11): tenants in which administrators consent would let nobody in
        let mut prompts = login.prompt.words().to_vec();
        for (name, value) in &self.spec.authorize_params {
            if name == "prompt" {
                prompts.extend(value.split_ascii_whitespace());
            } else {
                request = request.add_extra_param(name.clone(), value.clone());
            }
        }
        let mut seen = Vec::new();
        prompts.retain(|word| {
            !seen.contains(word) && {
                seen.push(*word);
                true
            }
        });
        if !prompts.is_empty() {
            request = request.add_extra_param("prompt", prompts.join(" "));
        }
        if login.prompt.is_fresh() {
            // beside `prompt`: it has the provider say when the person logged in (Core 2, `auth_time`)
            request = request.add_extra_param("max_age", "0");
        }
        Ok(request.url().0)
    }

    /// Exchanges the code of a response.
    pub(super) async fn exchange(&self, code: &str, verifier: &str) -> Result<ProviderTokens, OpenIdError> {
        let client = self.client()?;
        let request = client.exchange_code(AuthorizationCode::new(code.to_owned()));
        let request = request.set_pkce_verifier(PkceCodeVerifier::new(verifier.to_owned()));
        request.request_async(&self.http()).await.map(ProviderTokens::read).map_err(failed)
    }

    /// Uses a refresh token; the response has another one if that is to be used next.
    pub(super) async fn refresh(&self, token: &Secret) -> Result<ProviderTokens, OpenIdError> {
        let client = self.client()?;
        let token = RefreshToken::new(token.expose().to_owned());
        let request = client.exchange_refresh_token(&token);
        request.request_async(&self.http()).await.map(ProviderTokens::read).map_err(failed)
    }

    /// Claims of the provider about this subject; `None` if it says nothing, or speaks of somebody else (Core 5.3.2).
    pub(super) async fn user_info(&self, access: &Secret, subject: &str) -> Option<Value> {
        let endpoint = self.metadata.userinfo_endpoint.as_ref()?;
        let mut bearer = HeaderValue::try_from(format!("Bearer {}", access.expose())).ok()?;
        bearer.set_sensitive(true);
        let request = FetchRequest::get(endpoint.clone()).header(header::AUTHORIZATION, bearer);
        let provider = &self.spec.name;
        let no = |reason: &str| tracing::warn!(provider, reason, "no user information");
        let answer = self.fetcher.send(request, self.rules).await.inspect_err(|error| no(&error.to_string())).ok()?;
        let kind = answer.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !answer.status().is_success() {
            no(&format!("the endpoint answers {}", answer.status().as_u16()));
            return None;
        }
        if kind.starts_with("application/jwt") {
            no("it comes as a JWT, which is not read: have the provider answer JSON");
            return None;
        }
        let claims: Option<Value> = serde_json::from_slice(answer.body()).ok();
        let claims = claims.filter(|claims| claims["sub"].as_str() == Some(subject));
        if claims.is_none() {
            no("it is no JSON about the subject of the id token");
        }
        claims
    }

    const fn http(&self) -> GuardedHttp<'_> {
        GuardedHttp { fetcher: self.fetcher, rules: self.rules }
    }

    fn client(&self) -> Result<OpenIdClient, OpenIdError> {
        let redirect = RedirectUrl::new(self.redirect_uri.to_owned());
        let redirect =
            redirect.map_err(|error| OpenIdError::Unavailable(format!("the redirect URI is no URL: {error}")))?;
        let client = Client::new(ClientId::new(self.spec.client_id.clone()))
            .set_auth_uri(AuthUrl::from_url(self.metadata.authorization_endpoint.clone()))
            .set_token_uri(TokenUrl::from_url(self.metadata.token_endpoint.clone()))
            .set_redirect_uri(redirect);
        let Some(secret) = &self.spec.client_secret else { return Ok(client.set_auth_type(AuthType::RequestBody)) };
        let place = match self.metadata.client_auth {
            ProviderClientAuth::Basic => AuthType::BasicAuth,
            ProviderClientAuth::Body => AuthType::RequestBody,
        };
        Ok(client.set_client_secret(ClientSecret::new(secret.expose().to_owned())).set_auth_type(place))
    }
}

// === impl GuardedHttp ===

impl<'c> AsyncHttpClient<'c> for GuardedHttp<'_> {
    type Error = FetchError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, FetchError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(async move { Ok(self.fetcher.send(form(request)?, self.rules).await?.map(|body| body.to_vec())) })
    }
}

fn form(request: HttpRequest) -> Result<FetchRequest, FetchError> {
    let (parts, body) = request.into_parts();
    let url = Url::parse(&parts.uri.to_string()).map_err(|error| FetchError::Broken(error.to_string()))?;
    let pairs: Vec<(String, String)> = form_urlencoded::parse(&body).into_owned().collect();
    let form = FetchRequest::form(url, pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    Ok(match parts.headers.get(header::AUTHORIZATION) {
        Some(credentials) => form.header(header::AUTHORIZATION, credentials.clone()),
        None => form,
    })
}

/// Reads a failure. A code is the provider's own text, so only the ones that RFC 6749 defines are repeated.
fn failed(error: TokenFailure) -> OpenIdError {
    match error {
        RequestTokenError::ServerResponse(refusal) => OpenIdError::Refused(match refusal.error() {
            BasicErrorResponseType::Extension(_) => "a code that RFC 6749 does not have".to_owned(),
            known => known.to_string(),
        }),
        RequestTokenError::Request(error) => error.into(),
        RequestTokenError::Parse(..) | RequestTokenError::Other(_) => {
            OpenIdError::Unavailable("what came is no token response".to_owned())
        }
    }
}

// === impl ProviderTokens ===

impl ProviderTokens {
    #[expect(clippy::needless_pass_by_value, reason = "`map` gives the answer away")]
    fn read(answer: TokenAnswer) -> Self {
        Self {
            access: Secret::new(answer.access_token().secret()),
            refresh: answer.refresh_token().map(|token| Secret::new(token.secret())),
            id_token: answer.extra_fields().id_token.as_deref().map(Secret::new),
        }
    }
}

// === impl IdTokenField ===

impl ExtraTokenFields for IdTokenField {}

impl fmt::Debug for IdTokenField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdTokenField(…)")
    }
}
