//! Tokens of a login, and the requests for them (RFC 6749 4.1.3, 6; RFC 8707). Knows nothing of files and browsers.

use std::time::Duration;

use oauth2::{
    AuthType, AuthUrl, AuthorizationCode, ClientId, ClientSecret, EndpointNotSet, EndpointSet, PkceCodeVerifier,
    RedirectUrl, RefreshToken, RequestTokenError, TokenResponse as _, TokenUrl,
    basic::{BasicClient, BasicErrorResponse, BasicTokenResponse},
};
use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    error::LoginError,
    http::{HttpError, OAuthHttp},
    kept_secret::KeptSecret,
    registration::RegisteredClient,
};
use crate::support::Timestamp;

/// Maximum time between a refresh and the end of the token.
const EARLY: Duration = Duration::from_mins(1);

/// Tokens as they are kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SavedTokens {
    pub(super) access: KeptSecret,
    pub(super) refresh: Option<KeptSecret>,
    /// End of the access token, in milliseconds since the epoch; `None` if the authorization server did not say.
    pub(super) expires: Option<Timestamp>,
    /// Granted scopes, separated by spaces.
    pub(super) scope: Option<String>,
    /// The time of the response.
    pub(super) issued: Timestamp,
    /// Request that gave the access token.
    pub(super) by: TokenGrant,
}

/// Request that gave an access token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TokenGrant {
    /// A login by the browser.
    AuthorizationCode,
    /// A refresh.
    RefreshToken,
}

/// The authorization server that issues the tokens, and the client that asks for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TokenSource {
    /// The authorization server's issuer.
    pub(super) issuer: String,
    /// Its authorization endpoint.
    pub(super) authorization_endpoint: Url,
    /// Its token endpoint.
    pub(super) token_endpoint: Url,
    /// Identifier of the protected resource, sent with every request.
    pub(super) resource: Option<String>,
}

/// Client of the `oauth2` crate with both endpoints.
pub(super) type OAuthClient = BasicClient<EndpointSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointSet>;

// === impl SavedTokens ===

impl SavedTokens {
    /// The moment for a refresh: a tenth of the token's life before its end, at most a minute. `None` if the end is
    /// unknown or there is no refresh token.
    pub(super) fn refresh_at(&self) -> Option<Timestamp> {
        let (expires, _) = (self.expires?, self.refresh.as_ref()?);
        Some(expires - (expires.since(self.issued) / 10).min(EARLY))
    }

    /// True if the access token has ended.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    fn read(response: &BasicTokenResponse, by: TokenGrant, now: Timestamp) -> Self {
        let scopes = response.scopes().map(|scopes| scopes.iter().map(|scope| scope.to_string()).collect::<Vec<_>>());
        Self {
            access: KeptSecret::new(response.access_token().secret()),
            refresh: response.refresh_token().map(|token| KeptSecret::new(token.secret())),
            expires: response.expires_in().map(|life| now + life),
            scope: scopes.map(|scopes| scopes.join(" ")),
            issued: now,
            by,
        }
    }
}

// === impl TokenSource ===

impl TokenSource {
    /// The client of the `oauth2` crate for these endpoints.
    pub(super) fn client(&self, client: &RegisteredClient) -> Result<OAuthClient, LoginError> {
        let wrong = |what: &str| LoginError::Untrusted(format!("{what} of {} is no URL", self.issuer));
        let redirect = RedirectUrl::new(client.redirect_uri.clone()).map_err(|_| wrong("the redirect URI"))?;
        let oauth = BasicClient::new(ClientId::new(client.id.clone()))
            .set_auth_uri(AuthUrl::from_url(self.authorization_endpoint.clone()))
            .set_token_uri(TokenUrl::from_url(self.token_endpoint.clone()))
            .set_redirect_uri(redirect);
        Ok(match &client.secret {
            Some(secret) => {
                let method = if client.secret_in_body { AuthType::RequestBody } else { AuthType::BasicAuth };
                oauth.set_client_secret(ClientSecret::new(secret.expose().to_owned())).set_auth_type(method)
            }
            None => oauth.set_auth_type(AuthType::RequestBody),
        })
    }

    /// Exchanges an authorization code.
    pub(super) async fn exchange(
        &self,
        (http, now): (&OAuthHttp, Timestamp),
        client: &RegisteredClient,
        (code, verifier): (String, &KeptSecret),
    ) -> Result<SavedTokens, LoginError> {
        let oauth = self.client(client)?;
        let mut request = oauth
            .exchange_code(AuthorizationCode::new(code))
            .set_pkce_verifier(PkceCodeVerifier::new(verifier.expose().to_owned()));
        if let Some(resource) = &self.resource {
            request = request.add_extra_param("resource", resource);
        }
        let response = request.request_async(http).await.map_err(|error| self.failed(error))?;
        Ok(SavedTokens::read(&response, TokenGrant::AuthorizationCode, now))
    }

    /// Refreshes an access token. The refresh token stays if the response has no other (RFC 6749 6).
    pub(super) async fn refresh(
        &self,
        (http, now): (&OAuthHttp, Timestamp),
        client: &RegisteredClient,
        (old, token): (&SavedTokens, &KeptSecret),
    ) -> Result<SavedTokens, LoginError> {
        let oauth = self.client(client)?;
        let token = RefreshToken::new(token.expose().to_owned());
        let mut request = oauth.exchange_refresh_token(&token);
        if let Some(resource) = &self.resource {
            request = request.add_extra_param("resource", resource);
        }
        let response = request.request_async(http).await.map_err(|error| self.failed(error))?;
        let new = SavedTokens::read(&response, TokenGrant::RefreshToken, now);
        Ok(SavedTokens {
            refresh: new.refresh.or_else(|| old.refresh.clone()),
            scope: new.scope.or_else(|| old.scope.clone()),
            ..new
        })
    }

    fn failed(&self, error: RequestTokenError<HttpError, BasicErrorResponse>) -> LoginError {
        match error {
            RequestTokenError::ServerResponse(refusal) => LoginError::Refused {
                code: refusal.error().to_string(),
                description: refusal.error_description().cloned(),
            },
            RequestTokenError::Request(error) => {
                LoginError::Unavailable(format!("{} cannot be reached ({error})", self.token_endpoint))
            }
            RequestTokenError::Parse(..) | RequestTokenError::Other(_) => {
                LoginError::Unavailable(format!("{} answered with no token response", self.token_endpoint))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(life: Option<u64>) -> SavedTokens {
        let issued = Timestamp::from_seconds(1_000_000);
        SavedTokens {
            access: KeptSecret::new("a"),
            refresh: Some(KeptSecret::new("r")),
            expires: life.map(|life| issued + Duration::from_secs(life)),
            scope: None,
            issued,
            by: TokenGrant::AuthorizationCode,
        }
    }

    #[test]
    fn a_token_is_refreshed_before_it_ends() {
        let after = |life| tokens(Some(life)).refresh_at().unwrap().since(Timestamp::from_seconds(1_000_000)).as_secs();
        assert_eq!((after(3600), after(600), after(60), after(0)), (3540, 540, 54, 0));
        assert_eq!(tokens(None).refresh_at(), None);
        assert_eq!(SavedTokens { refresh: None, ..tokens(Some(60)) }.refresh_at(), None);
    }

    #[test]
    fn kept_tokens_are_read_as_they_were_written() {
        let text = serde_json::to_string(&tokens(Some(60))).unwrap();
        let read: SavedTokens = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert_eq!((read.access.expose(), read.refresh.unwrap().expose()), ("a", "r"));
    }
}
