//! Target of requests to one server: its URI, common headers and credentials.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method as Verb, Request, StatusCode, Uri, header, uri::Scheme};
use http_body_util::Full;
use percent_encoding::percent_decode_str;
use url::Url;

use super::{client::Client, response::Response};
use crate::{
    backend::{error::StartError, transport::interface::TransportError},
    fetch::coding::ACCEPTED,
    model::{BackendId, Bearer, HttpSpec, IdentityToken},
    support::Secret,
};

/// Makes the headers and the body of a request. Called each time the request is sent: more than once only after a
/// redirect, or with another token.
pub(crate) type RequestContent<'a> = dyn Fn() -> (HeaderMap, Bytes) + Send + Sync + 'a;

/// Maximum number of redirects for one request.
const MAX_HOPS: usize = 5;

/// Target of requests. Cheap to clone, except for its headers.
#[derive(Clone)]
pub(crate) struct HttpTarget {
    /// The backend, for logs.
    server: BackendId,
    client: Client,
    uri: Uri,
    headers: HeaderMap,
    pub(super) bearer: Option<Bearer>,
    identity: Option<IdentityToken>,
}

// === impl HttpTarget ===

impl HttpTarget {
    /// The target of a configured server. User and password of its URL become a header, and so do credentials for a
    /// proxy. Configured headers take precedence. All of these are marked as secrets.
    ///
    /// # Errors
    ///
    /// If the URL or a header cannot be sent.
    pub(crate) fn new(server: &BackendId, client: &Client, spec: &HttpSpec) -> Result<Self, StartError> {
        let wrong = || StartError::Refused("its URL cannot be requested: correct it".to_owned());
        let mut url = spec.url.clone();
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_static(concat!("lockkeeper/", env!("CARGO_PKG_VERSION"))));
        if !url.username().is_empty() || url.password().is_some() {
            let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
            let pair = format!("{}:{}", decoded(url.username()), url.password().map(decoded).unwrap_or_default());
            let value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair))).map_err(|_| wrong())?;
            headers.insert(header::AUTHORIZATION, secret(value));
            url.set_password(None).and_then(|()| url.set_username("")).map_err(|()| wrong())?;
        }
        headers.insert(header::ACCEPT_ENCODING, ACCEPTED);
        let uri = Uri::try_from(url.as_str()).map_err(|_| wrong())?;
        // for HTTP/1.1; HTTP/2, which needs TLS, has its own field
        if let Some(authority) = uri.authority().filter(|_| uri.scheme() == Some(&Scheme::HTTP)) {
            headers.insert(header::HOST, HeaderValue::from_str(authority.as_str()).map_err(|_| wrong())?);
        }
        if let Some(authorization) = client.proxy_authorization(&uri) {
            headers.insert(header::PROXY_AUTHORIZATION, secret(authorization));
        }
        headers.extend(configured_headers(spec)?);
        let (server, client, bearer, identity) =
            (server.clone(), client.clone(), spec.bearer.clone(), spec.identity.clone());
        Ok(Self { server, client, uri, headers, bearer, identity })
    }

    pub(crate) const fn server(&self) -> &BackendId {
        &self.server
    }

    pub(crate) const fn uri(&self) -> &Uri {
        &self.uri
    }

    /// The same headers and credentials for another URI of the same origin.
    pub(crate) fn at(&self, uri: Uri) -> Self {
        Self { uri, ..self.clone() }
    }

    /// Headers of every request.
    pub(crate) const fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Sends a request with only the headers of `content`, and the token of a login if there is one.
    pub(crate) async fn send(&self, verb: Verb, content: &RequestContent<'_>) -> Result<Response, TransportError> {
        match &self.bearer {
            None => self.request(verb, content).await,
            Some(bearer) => Box::pin(self.send_authorized(bearer, verb, content)).await,
        }
    }

    /// Sends a request with only the headers of `content`. Follows redirects that keep the method, within the same
    /// origin.
    pub(super) async fn request(&self, verb: Verb, content: &RequestContent<'_>) -> Result<Response, TransportError> {
        let response = self.request_at(self.uri.clone(), verb.clone(), content).await?;
        if !keeps_method(response.status()) {
            return Ok(response);
        }
        Box::pin(self.follow(response, verb, content)).await
    }

    async fn request_at(&self, uri: Uri, verb: Verb, content: &RequestContent<'_>) -> Result<Response, TransportError> {
        let (headers, body) = content();
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = verb;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        if let Some(identity) = &self.identity {
            let (name, value) = identity_header(identity).map_err(TransportError::Denied)?;
            request.headers_mut().insert(name, value);
        }
        self.client.send(request).await
    }

    /// Follows 307 and 308 within the same origin, at most [`MAX_HOPS`] times. Returns the last response.
    async fn follow(
        &self,
        mut response: Response,
        verb: Verb,
        content: &RequestContent<'_>,
    ) -> Result<Response, TransportError> {
        let mut uri = self.uri.clone();
        for _ in 0..MAX_HOPS {
            let is_redirect = keeps_method(response.status());
            let location = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
            let Some(next) = location.filter(|_| is_redirect).and_then(|to| on_same_origin(&uri, to)) else { break };
            tracing::debug!(server = %self.server, to = %next, "a redirect on the same origin is followed");
            response = self.request_at(next.clone(), verb.clone(), content).await?;
            uri = next;
        }
        Ok(response)
    }
}

/// True for a redirect after which the method stays the same (RFC 9110 15.4).
const fn keeps_method(status: StatusCode) -> bool {
    matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT)
}

/// Target of a redirect, if it has the scheme, host and port of `from`, and no user information.
fn on_same_origin(from: &Uri, location: &str) -> Option<Uri> {
    let from = Url::parse(&from.to_string()).ok()?;
    let mut to = from.join(location).ok()?;
    let is_same = to.scheme() == from.scheme() && to.host() == from.host() && to.port() == from.port();
    if !is_same || !to.username().is_empty() || to.password().is_some() {
        return None;
    }
    to.set_fragment(None);
    Uri::try_from(to.as_str()).ok()
}

/// Configured headers, marked as secrets.
pub(crate) fn configured_headers(spec: &HttpSpec) -> Result<HeaderMap, StartError> {
    let header = |(name, value): (&String, &Secret)| {
        let wrong = || StartError::Refused(format!("the configured header `{name}` is no HTTP header: correct it"));
        let value = HeaderValue::from_str(value.expose()).map_err(|_| wrong())?;
        Ok((HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?, secret(value)))
    };
    spec.headers.iter().map(header).collect()
}

/// The header with the caller's identity.
///
/// # Errors
///
/// If the identity cannot be signed.
pub(crate) fn identity_header(identity: &IdentityToken) -> Result<(HeaderName, HeaderValue), String> {
    let name = HeaderName::from_bytes(identity.header().as_bytes()).ok();
    let value = identity.value().and_then(|value| HeaderValue::from_str(value.expose()).ok());
    name.zip(value.map(secret)).ok_or_else(|| "the gateway could not sign who calls; its log says why".to_owned())
}

/// Marks a value as a secret, so that debug output does not show it.
pub(super) fn secret(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_followed_on_the_same_origin_alone() {
        let from = Uri::from_static("https://a.example/mcp?key=1");
        let same = [
            ("/mcp/", "https://a.example/mcp/"),
            ("https://a.example:443/v2/mcp#part", "https://a.example/v2/mcp"),
            ("?key=2", "https://a.example/mcp?key=2"),
        ];
        for (location, expected) in same {
            assert_eq!(on_same_origin(&from, location).unwrap(), expected, "{location}");
        }
        for location in [
            "http://a.example/mcp",
            "https://a.example:8443/mcp",
            "https://b.example/mcp",
            "//b.example/mcp",
            "https://me@a.example/mcp",
            "https://:word@a.example/mcp",
            "mailto:a@a.example",
        ] {
            assert!(on_same_origin(&from, location).is_none(), "{location}");
        }
    }
}
