//! HTTP requests of the OAuth client, with its limits: documents are redirected only within their origin; 15 seconds,
//! 256 KiB.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use ::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header::AUTHORIZATION};
use bytes::Bytes;
use serde_json::Value;
use url::{Origin, Url, form_urlencoded};

use super::{challenge::BearerChallenge, endpoint::is_loopback, error::LoginError, refusal::OAuthRefusal};
use crate::{
    fetch::{BodyBound, Exception, FetchRequest, FetchRules, Fetcher, OpenBounds, OpenClient, Ports, Reach},
    model::NetworkSpec,
    support::{Secret, Timestamp},
};

/// Maximum time of a request.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum size of a response, in bytes.
const MAX_RESPONSE: usize = 256 * 1024;
/// Maximum number of redirects to a document.
const MAX_REDIRECTS: usize = 3;
/// A request that every server understands and that changes nothing.
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// HTTP client for metadata, registration and tokens.
#[derive(Clone)]
pub struct OAuthHttp {
    way: Way,
    own: Option<Arc<OwnServer>>,
}

/// Settings of the server that a login is for.
struct OwnServer {
    origin: Origin,
    /// Headers sent only to it.
    headers: HeaderMap,
    /// The client, with the server's certificates, for the server and the authorization server that the operator names.
    way: Option<(Vec<Origin>, Way)>,
}

/// Transport of the server that a login is for, as configured.
#[derive(Debug, Clone, Copy)]
pub struct LoginTransport<'a> {
    pub server: &'a Url,
    /// The configured authorization server.
    pub issuer: Option<&'a str>,
    /// Headers of requests to the server.
    pub headers: &'a BTreeMap<String, Secret>,
    /// Settings of connections to it.
    pub network: Option<&'a NetworkSpec>,
}

#[derive(Clone)]
enum Way {
    Open(OpenClient),
    /// To public addresses and the operator's exceptions.
    Guarded(Fetcher, FetchRules),
}

/// Answer to the request for a document.
#[derive(Debug)]
pub(super) enum DocumentAnswer {
    Json(Value),
    None,
    Down(String),
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct HttpError(String);

// === impl OAuthHttp ===

impl OAuthHttp {
    /// A client for the person running this program, or for servers that the operator trusts with this network.
    pub const fn open(client: OpenClient) -> Self {
        Self { way: Way::Open(client), own: None }
    }

    /// A client for what `server` names (`UP-5`): it reaches public addresses, the configured origin itself, and this
    /// machine for a server on this machine.
    pub fn guarded(fetcher: Fetcher, server: &Url) -> Self {
        let mut exceptions = vec![Exception::Origin(server.origin())];
        if is_loopback(server) {
            exceptions.push(Exception::Loopback);
        }
        let reach = Reach { ports: Ports::Any, exceptions };
        Self::of_operator(fetcher, FetchRules { reach, max_body: MAX_RESPONSE, deadline: TIMEOUT })
    }

    /// A client for the operator's URLs, and for URLs named by these.
    pub const fn of_operator(fetcher: Fetcher, rules: FetchRules) -> Self {
        Self { way: Way::Guarded(fetcher, rules), own: None }
    }

    /// The same for a server with this transport. Its certificates apply to the server and to the authorization server
    /// that the operator names, and its proxy to everything. Its headers go only to the server, without
    /// `Authorization`, which a login provides.
    ///
    /// # Errors
    ///
    /// If the certificates or the proxy cannot be used.
    pub fn of_server(self, transport: LoginTransport<'_>) -> Result<Self, LoginError> {
        let LoginTransport { server, issuer, headers, network } = transport;
        let pair = |(name, value): (&String, &Secret)| {
            let (name, mut value) = (HeaderName::try_from(name).ok()?, HeaderValue::try_from(value.expose()).ok()?);
            value.set_sensitive(true);
            (name != AUTHORIZATION).then_some((name, value))
        };
        let headers: HeaderMap = headers.iter().filter_map(pair).collect();
        let issuer = issuer.and_then(|issuer| Url::parse(issuer).ok()).map(|issuer| issuer.origin());
        let mut own = OwnServer { origin: server.origin(), headers, way: None };
        let mut way = self.way;
        if let Some(network) = network {
            if network.authorities.is_some() || network.identity.is_some() {
                let origins = std::iter::once(server.origin()).chain(issuer).collect();
                own.way = Some((origins, way.with_network(network)?));
            }
            if network.proxy.is_some() {
                way = way.with_network(&NetworkSpec { proxy: network.proxy.clone(), ..NetworkSpec::default() })?;
            }
        }
        Ok(Self { way, own: Some(Arc::new(own)) })
    }

    /// The document at `url`. Follows redirects within its origin.
    ///
    /// # Errors
    ///
    /// If there is no answer.
    pub(super) async fn document(&self, url: &Url) -> Result<DocumentAnswer, LoginError> {
        let headers = [("accept", "application/json"), ("mcp-protocol-version", "2025-11-25")];
        let mut at = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let response =
                self.send(Method::GET, &at, &headers, Bytes::new()).await.map_err(|error| missing(&at, &error))?;
            let status = response.status();
            if status.is_redirection() {
                let location = response.headers().get("location").and_then(|location| location.to_str().ok());
                match location.and_then(|location| at.join(location).ok()) {
                    Some(next) if next.origin() == url.origin() => at = next,
                    _ => return Ok(DocumentAnswer::None),
                }
                continue;
            }
            if status.is_server_error() {
                return Ok(DocumentAnswer::Down(format!("{url} answered {status}")));
            }
            let json = serde_json::from_slice(response.body()).ok().filter(Value::is_object);
            return Ok(json.filter(|_| status == StatusCode::OK).map_or(DocumentAnswer::None, DocumentAnswer::Json));
        }
        Ok(DocumentAnswer::None)
    }

    /// The refusal, if the server answers a GET of `url` with one.
    pub async fn refusal(&self, url: &Url, now: Timestamp) -> Option<OAuthRefusal> {
        let response = self.send(Method::GET, url, &[("accept", "application/json")], Bytes::new()).await.ok()?;
        let status = response.status();
        status.is_client_error().then(|| OAuthRefusal::read(status.as_u16(), response.headers(), response.body(), now))
    }

    /// The challenge with which a server rejects a request without a token; an empty one if it does not reject it.
    ///
    /// # Errors
    ///
    /// If there is no answer, or one for people instead of programs.
    pub async fn challenge(&self, server: &Url) -> Result<BearerChallenge, LoginError> {
        let headers = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        let response = self.send(Method::POST, server, &headers, Bytes::from_static(PING.as_bytes())).await;
        let response = response.map_err(|error| missing(server, &error))?;
        if response.status().is_redirection() {
            let location = response.headers().get("location").and_then(|location| location.to_str().ok());
            let to =
                location.and_then(|location| server.join(location).ok()).filter(|to| to.origin() != server.origin());
            if let Some(to) = to {
                return Err(LoginError::Untrusted(format!(
                    "{server} sends programs to a page for people at {}: what stands in front of it has to let requests of \
                     programs through, or needs credentials of its own with each request",
                    to.host_str().unwrap_or_default()
                )));
            }
        }
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(BearerChallenge::default());
        }
        let headers = response.headers().get_all("www-authenticate");
        let headers: Vec<String> = headers.iter().filter_map(|value| value.to_str().ok().map(str::to_owned)).collect();
        Ok(BearerChallenge::of(&headers))
    }

    /// Posts a form with the client's credentials, and returns the status.
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

    /// Sends a request, and returns the response with any status.
    pub(super) async fn exchange(
        &self,
        method: Method,
        url: &Url,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Bytes>, HttpError> {
        let origin = url.origin();
        let mut way = &self.way;
        if let Some(own) = &self.own {
            if let Some((_, own)) = own.way.as_ref().filter(|(origins, _)| origins.contains(&origin)) {
                way = own;
            }
            if own.origin == origin {
                for (name, value) in &own.headers {
                    headers.entry(name).or_insert_with(|| value.clone());
                }
            }
        }
        way.send(FetchRequest::new(method, url.clone(), headers, body)).await
    }
}

// === impl Way ===

impl Way {
    fn with_network(&self, network: &NetworkSpec) -> Result<Self, LoginError> {
        let way = match self {
            Self::Open(client) => client.with_network(network).map(Self::Open),
            Self::Guarded(fetcher, rules) => {
                fetcher.with_network(network).map(|fetcher| Self::Guarded(fetcher, rules.clone()))
            }
        };
        way.map_err(|error| LoginError::Unavailable(format!("the connections of the server cannot be set up: {error}")))
    }

    async fn send(&self, request: FetchRequest) -> Result<Response<Bytes>, HttpError> {
        match self {
            Self::Open(client) => {
                let bounds = OpenBounds { deadline: TIMEOUT, body: BodyBound::Whole(MAX_RESPONSE) };
                client.send(request, bounds).await.map_err(|error| HttpError(error.reason()))
            }
            Self::Guarded(fetcher, rules) => fetcher.send(request, rules).await.map_err(|error| {
                // the reason would reveal something of this network, and the server may read it
                tracing::info!(%error, "a URL that a server named cannot be used");
                HttpError("the log of the gateway has the reason".to_owned())
            }),
        }
    }
}

impl fmt::Debug for OAuthHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OAuthHttp")
    }
}

fn missing(url: &Url, HttpError(reason): &HttpError) -> LoginError {
    LoginError::Unavailable(format!("{url} cannot be reached ({reason})"))
}
