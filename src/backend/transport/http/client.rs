//! HTTP client for all requests to servers, with the gateway's rules.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, error::Error, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri, header, uri::Scheme};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::{
    client::legacy,
    rt::{TokioExecutor, TokioTimer},
};
use percent_encoding::percent_decode_str;
use thread_local::ThreadLocal;

use super::connector::{ClientError, Connector};
use crate::{
    backend::{error::StartError, transport::interface::TransportError},
    model::{Bearer, HttpSpec},
    support::Secret,
};

/// Maximum idle time of a connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Maximum number of retries of a request that the server certainly did not process.
const RETRIES: u32 = 2;

/// HTTP client: no redirects (they would carry the configured credentials elsewhere), no cookies, a timeout for
/// connecting. Responses have no timeout here; calls have one for silence. HTTP/2 is used if TLS negotiates it.
///
/// The proxies come from the environment; loopback addresses are always reached directly.
#[derive(Clone)]
pub(crate) struct Client {
    /// Separate for each thread: a request, and the task that reads its response, wake no other thread.
    connections: Arc<ThreadLocal<Connections>>,
    connector: Connector,
}

type Connections = legacy::Client<Connector, Full<Bytes>>;

/// Target of a connection's requests, and their common headers.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) bearer: Option<Bearer>,
}

// === impl Client ===

impl Client {
    /// Creates a client with the proxies of `environment`.
    ///
    /// # Errors
    ///
    /// An error if certificates are missing, or a proxy in the environment is no URL.
    pub(crate) fn new(environment: &BTreeMap<String, String>) -> Result<Self, ClientError> {
        Connector::new(environment).map(Self::over)
    }

    fn over(connector: Connector) -> Self {
        Self { connections: Arc::default(), connector }
    }

    /// The connections of the current thread.
    fn connections(&self) -> &Connections {
        self.connections.get_or(|| {
            legacy::Client::builder(TokioExecutor::new())
                .timer(TokioTimer::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(IDLE_TIMEOUT)
                .build(self.connector.clone())
        })
    }

    /// The target for requests to a server. User and password of its URL become a header, as do the credentials for a
    /// proxy; configured headers take precedence, and are marked as secrets.
    pub(super) fn target(&self, spec: &HttpSpec) -> Result<Target, StartError> {
        let wrong = || StartError::Refused("`url` cannot be requested: correct it".to_owned());
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
        let uri = Uri::try_from(url.as_str()).map_err(|_| wrong())?;
        // for HTTP/1.1; HTTP/2, which only TLS negotiates, has its own field
        if let Some(authority) = uri.authority().filter(|_| uri.scheme() == Some(&Scheme::HTTP)) {
            headers.insert(header::HOST, HeaderValue::from_str(authority.as_str()).map_err(|_| wrong())?);
        }
        if let Some(authorization) = self.connector.proxy_authorization(&uri) {
            headers.insert(header::PROXY_AUTHORIZATION, secret(authorization));
        }
        headers.extend(configured_headers(spec)?);
        Ok(Target { uri, headers, bearer: spec.bearer.clone() })
    }

    /// Sends a request, and returns the head of the response. A request on a kept connection that turns out to be
    /// closed is repeated on another one, as is one that an HTTP/2 server reports as unprocessed.
    pub(super) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, TransportError> {
        // only TLS negotiates HTTP/2
        let retries = if request.uri().scheme() == Some(&Scheme::HTTPS) { RETRIES } else { 0 };
        for _ in 0..retries {
            match self.connections().request(request.clone()).await {
                Err(error) if is_not_taken_up(&error) => {}
                sent => return sent.map_err(|error| broken(&error)),
            }
        }
        self.connections().request(request).await.map_err(|error| broken(&error))
    }
}

/// The configured headers, marked as secrets.
pub(crate) fn configured_headers(spec: &HttpSpec) -> Result<HeaderMap, StartError> {
    let header = |(name, value): (&String, &Secret)| {
        let wrong =
            || StartError::Refused(format!("the configured header `{name}` is no HTTP header: correct `headers`"));
        let value = HeaderValue::from_str(value.expose()).map_err(|_| wrong())?;
        Ok((HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?, secret(value)))
    };
    spec.headers.iter().map(header).collect()
}

/// Marks a value as a secret.
pub(super) fn secret(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}

/// True if the server reports that it has not processed the request (RFC 9113 6.8, 8.7).
fn is_not_taken_up(error: &legacy::Error) -> bool {
    let Some(error) = innermost(error).downcast_ref::<h2::Error>() else { return false };
    let drains = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
    let refuses = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    error.is_remote() && (drains || refuses)
}

/// The error of a request without an answer. A request that could not connect was certainly not processed.
fn broken(error: &legacy::Error) -> TransportError {
    let reason = cause(error);
    if error.is_connect() {
        TransportError::Unreachable(format!("the server cannot be reached ({reason}): is it running, is `url` right?"))
    } else {
        TransportError::Lost(reason)
    }
}

/// The innermost cause.
pub(super) fn cause(error: &(dyn Error + 'static)) -> String {
    innermost(error).to_string()
}

fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause
}
