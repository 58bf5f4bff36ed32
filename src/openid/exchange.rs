//! Requests of the gateway to a provider: codes, refresh tokens, user information (Core 3.1.3, 5.3, 12).

use std::time::Duration;

use http::{HeaderValue, header};
use serde_json::Value;
use url::Url;

use super::{discovery::ProviderMetadata, error::OpenIdError, pending_login::PendingLogin};
use crate::{
    fetch::{FetchRequest, FetchRules, Fetcher},
    model::{LoginProvider, LoginSession},
    oauth_client::{
        AuthorizationParameters, IssuedTokens, KeptSecret, OAuthHttp, OfflineAccess, RegisteredAuth, RegisteredClient,
        SavedTokens, TokenGrant, TokenSource, service_needs, with_operators,
    },
    support::{Secret, Timestamp},
};

/// Tokens of a provider.
pub(super) struct ProviderTokens {
    pub(super) access: Secret,
    pub(super) refresh: Option<Secret>,
    pub(super) id_token: Option<Secret>,
    /// Life of the refresh token, if the provider states it.
    pub(super) refresh_life: Option<Duration>,
}

/// The gateway as client of one provider.
pub(super) struct ProviderClient<'a> {
    pub(super) spec: &'a LoginProvider,
    pub(super) metadata: &'a ProviderMetadata,
    pub(super) redirect_uri: &'a str,
    pub(super) fetcher: &'a Fetcher,
    pub(super) rules: &'a FetchRules,
    pub(super) now: Timestamp,
}

// === impl ProviderClient ===

impl ProviderClient<'_> {
    /// The URL where a person logs in.
    pub(super) fn authorization_url(&self, login: &PendingLogin) -> Result<Url, OpenIdError> {
        let offline = match self.spec.session {
            LoginSession::Bound => OfflineAccess::Wanted,
            LoginSession::Independent => OfflineAccess::Unwanted,
        };
        let needs = service_needs(&self.spec.issuer, offline);
        let mut own = vec![("nonce", login.nonce.as_str())];
        own.extend(needs.parameters);
        if login.prompt.is_fresh() {
            // along with `prompt`: the provider then states when the person logged in (Core 2, `auth_time`)
            own.push(("max_age", "0"));
        }
        // not `consent` for `offline_access` (Core 11): in tenants where administrators consent, no login would succeed
        let prompts = [login.prompt.words(), needs.prompts].concat();
        let further = with_operators(&own, &prompts, &self.spec.authorize_params);
        let takes = |scope: &&String| *scope != "offline_access" || !needs.refuses_offline_access;
        let scopes: Vec<&str> = self.spec.scopes.iter().filter(takes).map(String::as_str).collect();
        let scopes = scopes.join(" ");
        let parameters = AuthorizationParameters {
            state: &login.state,
            verifier: &login.verifier,
            scope: Some(&scopes),
            further: &further,
        };
        Ok(self.source().authorization_url(&self.client(), parameters)?)
    }

    /// Exchanges the code of a response.
    pub(super) async fn exchange(&self, code: &str, verifier: &str) -> Result<ProviderTokens, OpenIdError> {
        let (client, http, verifier) = (self.client(), self.http(), KeptSecret::new(verifier));
        let issued = self.source().exchange(code.to_owned(), &verifier, (&client).into(), &http, self.now).await?;
        Ok(issued.into())
    }

    /// Uses a refresh token; the response may have another one for the next time.
    pub(super) async fn refresh(&self, token: &Secret) -> Result<ProviderTokens, OpenIdError> {
        let (client, http, token) = (self.client(), self.http(), KeptSecret::new(token.expose()));
        let old = SavedTokens {
            access: KeptSecret::new(""),
            refresh: Some(token.clone()),
            expires: None,
            scope: None,
            issued: self.now,
            by: TokenGrant::RefreshToken,
            end: None,
            stepped_up: None,
        };
        Ok(self.source().refresh(&old, &token, (&client).into(), &http, self.now).await?.into())
    }

    /// Claims of the provider about this subject; `None` if there are none, or if they are about another subject (Core
    /// 5.3.2).
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
            no("it is not JSON about the subject of the id token");
        }
        claims
    }

    fn http(&self) -> OAuthHttp {
        OAuthHttp::of_operator(self.fetcher.clone(), self.rules.clone())
    }

    fn source(&self) -> TokenSource {
        TokenSource {
            issuer: self.spec.issuer.clone(),
            authorization_endpoint: self.metadata.server.authorization_endpoint.clone(),
            token_endpoint: self.metadata.server.token_endpoint.clone(),
            revocation_endpoint: None,
            resource: None,
        }
    }

    fn client(&self) -> RegisteredClient {
        let secret = self.spec.client_secret.as_ref().map(|secret| KeptSecret::new(secret.expose()));
        let auth = RegisteredAuth::of(secret, self.metadata.server.takes_secret_in_body());
        let (issuer, id, redirect_uri) =
            (self.spec.issuer.clone(), self.spec.client_id.clone(), self.redirect_uri.to_owned());
        RegisteredClient { issuer, id, auth, redirect_uri, secret_expires: None }
    }
}

// === impl ProviderTokens ===

impl From<IssuedTokens> for ProviderTokens {
    fn from(IssuedTokens { tokens, id_token, refresh_life }: IssuedTokens) -> Self {
        let SavedTokens { access, refresh, .. } = tokens;
        let refresh = refresh.map(|token| token.secret().clone());
        Self { access: access.secret().clone(), refresh, id_token, refresh_life }
    }
}
