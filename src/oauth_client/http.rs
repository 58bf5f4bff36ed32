//! HTTP requests of the OAuth client, with its bounds: no redirects, 15 seconds, 256 KiB. Knows nothing of the documents.

use std::{fmt, time::Duration};

use ::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use bytes::Bytes;
use reqwest::redirect::Policy;
use serde_json::Value;
use url::{Url, form_urlencoded};

use super::{endpoint::is_loopback, error::LoginError, refusal::OAuthRefusal};
use crate::{
    fetch::{Exception, FetchRequest, FetchRules, Fetcher, Ports, Reach, open_client},
    support::Timestamp,
};

/// Maximum time of a request.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum size of a response, in bytes.
const MAX_RESPONSE: usize = 256 * 1024;
/// The name of the program.
const AGENT: &str = concat!("lockkeeper/", env!("CARGO_PKG_VERSION"));
/// A request that every server understands and none acts on.
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// HTTP client for metadata, registration and tokens.
#[derive(Clone)]
pub struct OAuthHttp(Way);

#[derive(Clone)]
enum Way {
    /// Anywhere, over the proxies of the environment.
    Open(reqwest::Client),
    /// To public addresses and the exceptions of the operator.
    Guarded(Fetcher, FetchRules),
}

/// Failure of a request.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct HttpError(String);

// === impl OAuthHttp ===

impl OAuthHttp {
    /// A client for the person who runs this program, or for servers that the operator trusts with this network; proxies
    /// come from the environment.
    ///
    /// # Errors
    ///
    /// If TLS cannot be set up.
    pub fn open() -> Result<Self, LoginError> {
        let client = open_client::client(|http| http.redirect(Policy::none()).timeout(TIMEOUT).user_agent(AGENT));
        let failed = |error| LoginError::Unavailable(format!("no HTTP client: {error}"));
        Ok(Self(Way::Open(client.map_err(failed)?)))
    }

    /// A client for what `server` names (`UP-5`): it reaches public addresses, the configured origin itself, and this
    /// machine for a server on this machine.
    pub fn guarded(fetcher: Fetcher, server: &Url) -> Self {
        let mut exceptions = vec![Exception::Origin(server.origin())];
        if is_loopback(server) {
            exceptions.push(Exception::Loopback);
        }
        let reach = Reach { ports: Ports::Any, exceptions };
        Self(Way::Guarded(fetcher, FetchRules { reach, max_body: MAX_RESPONSE, deadline: TIMEOUT }))
    }

    /// A client for URLs of the operator, and those that these name.
    pub const fn of_operator(fetcher: Fetcher, rules: FetchRules) -> Self {
        Self(Way::Guarded(fetcher, rules))
    }

    /// The JSON document at `url`; `None` if the server answers with another status than 200, or with no JSON.
    pub async fn document(&self, url: &Url) -> Result<Option<Value>, LoginError> {
        let headers = [("accept", "application/json"), ("mcp-protocol-version", "2025-11-25")];
        let response =
            self.send(Method::GET, url, &headers, Bytes::new()).await.map_err(|error| missing(url, &error))?;
        if response.status().is_server_error() {
            return Err(LoginError::Unavailable(format!("{url} answered {}", response.status())));
        }
        if response.status() != StatusCode::OK {
            return Ok(None);
        }
        Ok(serde_json::from_slice(response.body()).ok())
    }

    /// The refusal with which the server answers a GET of `url`, if it does.
    pub async fn refusal(&self, url: &Url, now: Timestamp) -> Option<OAuthRefusal> {
        let response = self.send(Method::GET, url, &[("accept", "application/json")], Bytes::new()).await.ok()?;
        let status = response.status();
        status
            .is_client_error()
            .then(|| OAuthRefusal::read((status.as_u16(), response.headers()), response.body(), now))
    }

    /// The `WWW-Authenticate` headers with which a server refuses a request without a token; none if it does not.
    pub async fn challenges(&self, server: &Url) -> Result<Vec<String>, LoginError> {
        let headers = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        let response = self.send(Method::POST, server, &headers, Bytes::from_static(PING.as_bytes())).await;
        let response = response.map_err(|error| missing(server, &error))?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(Vec::new());
        }
        let headers = response.headers().get_all("www-authenticate");
        Ok(headers.iter().filter_map(|value| value.to_str().ok().map(str::to_owned)).collect())
    }

    /// Posts a form, with the credentials of a client, and returns the status.
    pub(super) async fn form(
        &self,
        url: &Url,
        fields: &[(&str, &str)],
        authorization: Option<&str>,
    ) -> Result<StatusCode, LoginError> {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let mut headers = vec![("content-type", "application/x-www-form-urlencoded")];
        headers.extend(authorization.map(|value| ("authorization", value)));
        let response = self.send(Method::POST, url, &headers, body.into()).await;
        Ok(response.map_err(|error| missing(url, &error))?.status())
    }

    /// Posts JSON.
    pub(super) async fn post(&self, url: &Url, body: &Value) -> Result<Response<Bytes>, LoginError> {
        let headers = [("content-type", "application/json"), ("accept", "application/json")];
        let response = self.send(Method::POST, url, &headers, body.to_string().into()).await;
        response.map_err(|error| missing(url, &error))
    }

    async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: &[(&'static str, &str)],
        body: Bytes,
    ) -> Result<Response<Bytes>, HttpError> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).map_err(|error| HttpError(error.to_string()))?;
            map.insert(HeaderName::from_static(name), value);
        }
        self.exchange(method, url, map, body).await
    }

    /// Sends a request; returns the response of any status.
    pub(super) async fn exchange(
        &self,
        method: Method,
        url: &Url,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Bytes>, HttpError> {
        match &self.0 {
            Way::Open(client) => {
                let request = client.request(method, url.clone()).headers(headers).body(body);
                read(request.send().await.map_err(|error| HttpError(innermost(&error)))?).await
            }
            Way::Guarded(fetcher, rules) => {
                headers.insert(::http::header::USER_AGENT, HeaderValue::from_static(AGENT));
                let request = FetchRequest::new(method, url.clone(), headers, body);
                fetcher.send(request, rules).await.map_err(|error| {
                    // the reason tells of this network, and the server may read it
                    tracing::info!(%url, %error, "a URL that a server named cannot be used");
                    HttpError("the log of the gateway has the reason".to_owned())
                })
            }
        }
    }
}

impl fmt::Debug for OAuthHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OAuthHttp")
    }
}

async fn read(mut response: reqwest::Response) -> Result<Response<Bytes>, HttpError> {
    let mut answer = Response::builder().status(response.status());
    if let Some(headers) = answer.headers_mut() {
        headers.clone_from(response.headers());
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| HttpError(innermost(&error)))? {
        if body.len() + chunk.len() > MAX_RESPONSE {
            return Err(HttpError(format!("{} answered with more than {MAX_RESPONSE} bytes", response.url())));
        }
        body.extend_from_slice(&chunk);
    }
    answer.body(body.into()).map_err(|error| HttpError(error.to_string()))
}

fn missing(url: &Url, HttpError(reason): &HttpError) -> LoginError {
    LoginError::Unavailable(format!("{url} cannot be reached ({reason})"))
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
