//! Uses the `oauth2` crate at a token endpoint: sends its requests, and turns answers into the one form that it reads.

use std::{fmt, pin::Pin, time::Duration};

use http::{Response, StatusCode, header};
use oauth2::{
    AsyncHttpClient, Client, EndpointNotSet, EndpointSet, ExtraTokenFields, HttpRequest, HttpResponse,
    StandardRevocableToken, StandardTokenResponse,
    basic::{BasicErrorResponse, BasicRevocationErrorResponse, BasicTokenIntrospectionResponse, BasicTokenType},
};
use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    http::OAuthHttp,
    token_response::{TokenFailure, normalised},
};
use crate::support::Timestamp;

pub(super) type TokenAnswer = StandardTokenResponse<IdTokenField, BasicTokenType>;

/// Client of the `oauth2` crate with both endpoints.
pub(super) type OAuthClient = Client<
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

/// Additional members of a response: one from OpenID Connect, one from Keycloak.
#[derive(Deserialize, Serialize)]
pub(super) struct IdTokenField {
    id_token: Option<String>,
    refresh_expires_in: Option<u64>,
}

pub(super) struct TokenExchange<'a> {
    pub(super) http: &'a OAuthHttp,
    pub(super) now: Timestamp,
}

// === impl IdTokenField ===

impl IdTokenField {
    pub(super) fn id_token(&self) -> Option<&str> {
        self.id_token.as_deref()
    }

    /// Lifetime of the refresh token, if the server states it.
    pub(super) fn refresh_life(&self) -> Option<Duration> {
        self.refresh_expires_in.map(Duration::from_secs)
    }
}

impl ExtraTokenFields for IdTokenField {}

impl fmt::Debug for IdTokenField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdTokenField(…)")
    }
}

// === impl TokenExchange ===

impl TokenExchange<'_> {
    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, TokenFailure> {
        let (parts, body) = request.into_parts();
        let unreachable = |error: &dyn fmt::Display| TokenFailure::Unreachable(error.to_string());
        let url = Url::parse(&parts.uri.to_string()).map_err(|error| unreachable(&error))?;
        let answer = self.http.exchange(parts.method, &url, parts.headers, body.into()).await;
        let answer = answer.map_err(|error| unreachable(&error))?;
        let response = normalised(answer.status(), answer.headers(), answer.body(), self.now)?;
        let response = Response::builder()
            .status(StatusCode::OK)
            .header(header::CONTENT_TYPE, "application/json")
            .body(response.to_string().into_bytes());
        response.map_err(|error| unreachable(&error))
    }
}

impl<'c> AsyncHttpClient<'c> for TokenExchange<'_> {
    type Error = TokenFailure;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, TokenFailure>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.exchange(request))
    }
}
