//! HTTP requests of the OAuth client, with its bounds: no redirects, 15 seconds, 256 KiB. Knows nothing of the documents.

use std::{future::Future, pin::Pin, time::Duration};

use oauth2::{AsyncHttpClient, HttpRequest, HttpResponse};
use reqwest::redirect::Policy;
use serde_json::Value;
use url::Url;

use super::error::LoginError;

/// Maximum time of a request.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum size of a response, in bytes.
const MAX_RESPONSE: usize = 256 * 1024;

/// HTTP client for metadata, registration and tokens.
#[derive(Debug, Clone)]
pub(super) struct OAuthHttp(reqwest::Client);

/// Failure of a request, for [`AsyncHttpClient`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct HttpError(String);

// === impl OAuthHttp ===

impl OAuthHttp {
    /// Creates the client; proxies come from the environment.
    pub(super) fn new() -> Result<Self, LoginError> {
        let agent = concat!("lockkeeper/", env!("CARGO_PKG_VERSION"));
        let client = reqwest::Client::builder().redirect(Policy::none()).timeout(TIMEOUT).user_agent(agent);
        client.build().map(Self).map_err(|error| LoginError::Unavailable(format!("no HTTP client: {error}")))
    }

    /// The JSON document at `url`; `None` if the server answers with another status than 200, or with no JSON.
    pub(super) async fn document(&self, url: &Url) -> Result<Option<Value>, LoginError> {
        let request =
            self.0.get(url.clone()).header("accept", "application/json").header("mcp-protocol-version", "2025-11-25");
        let response = request.send().await.map_err(|error| unreachable(url, &error))?;
        if response.status().is_server_error() {
            return Err(LoginError::Unavailable(format!("{url} answered {}", response.status())));
        }
        if response.status() != reqwest::StatusCode::OK {
            return Ok(None);
        }
        let body = read(response).await.map_err(|HttpError(reason)| LoginError::Unavailable(reason))?;
        Ok(serde_json::from_slice(&body).ok())
    }

    /// The OAuth error code with which the server refuses a GET of `url`, if it says one in JSON.
    pub(super) async fn refusal(&self, url: &Url) -> Option<String> {
        let response = self.0.get(url.clone()).header("accept", "application/json").send().await.ok()?;
        if !response.status().is_client_error() {
            return None;
        }
        let answer: Value = serde_json::from_slice(&read(response).await.ok()?).ok()?;
        answer["error"].as_str().map(str::to_owned)
    }

    /// Posts JSON, and returns whether the status is 2xx with the JSON of the response.
    pub(super) async fn post(&self, url: &Url, body: &Value) -> Result<(reqwest::StatusCode, Value), LoginError> {
        let request = self.0.post(url.clone()).header("content-type", "application/json").body(body.to_string());
        let response = request.send().await.map_err(|error| unreachable(url, &error))?;
        let status = response.status();
        let body = read(response).await.map_err(|HttpError(reason)| LoginError::Unavailable(reason))?;
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    }
}

impl<'c> AsyncHttpClient<'c> for OAuthHttp {
    type Error = HttpError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let request = self.0.request(parts.method, parts.uri.to_string()).headers(parts.headers).body(body);
            let response = request.send().await.map_err(|error| HttpError(innermost(&error)))?;
            let mut answer = ::http::Response::builder().status(response.status());
            if let Some(headers) = answer.headers_mut() {
                headers.clone_from(response.headers());
            }
            let body = read(response).await?;
            answer.body(body).map_err(|error| HttpError(error.to_string()))
        })
    }
}

async fn read(mut response: reqwest::Response) -> Result<Vec<u8>, HttpError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| HttpError(innermost(&error)))? {
        if body.len() + chunk.len() > MAX_RESPONSE {
            return Err(HttpError(format!("{} answered with more than {MAX_RESPONSE} bytes", response.url())));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn unreachable(url: &Url, error: &reqwest::Error) -> LoginError {
    LoginError::Unavailable(format!("{url} cannot be reached ({})", innermost(error)))
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
