//! HTTP client for URLs that the operator, or the person who runs this program, chose: without the guard.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use http::{Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tower::Service as _;
use url::{Position, Url};

use super::{
    cause::cause,
    connector::{ClientError, ConnectRoute, ServerConnector},
    error::FetchError,
    exchange::{BodyBound, RequestForm, exchange, head},
    request::FetchRequest,
};
use crate::model::{NetworkSpec, ProxyChoice};

/// Sends requests anywhere, each on a connection of its own; follows no redirects. Cheap to clone.
#[derive(Clone)]
pub struct OpenClient(ServerConnector);

/// Bounds of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenBounds {
    /// Maximum time for everything.
    pub deadline: Duration,
    /// The part of the response that is read.
    pub body: BodyBound,
}

// === impl OpenClient ===

impl OpenClient {
    /// A client with these settings, and the proxies of `environment` if they name none. It also trusts the authorities
    /// of the system; on a machine without any, only servers that present a certificate are refused.
    ///
    /// # Errors
    ///
    /// If TLS cannot be set up, or a proxy is not a URL.
    pub fn new(network: &NetworkSpec, environment: &BTreeMap<String, String>) -> Result<Self, ClientError> {
        Ok(Self(ServerConnector::of_server(network, environment)?))
    }

    /// A client without a proxy.
    ///
    /// # Errors
    ///
    /// If TLS cannot be set up.
    pub fn direct() -> Result<Self, ClientError> {
        Self::new(&NetworkSpec { proxy: Some(ProxyChoice::Direct), ..NetworkSpec::default() }, &BTreeMap::new())
    }

    /// The same with the settings of one server, which fall back to this client's proxies.
    ///
    /// # Errors
    ///
    /// If TLS cannot be set up.
    pub fn with_network(&self, network: &NetworkSpec) -> Result<Self, ClientError> {
        Ok(Self(self.0.with_network(network)?))
    }

    /// Sends a request; returns the response of any status.
    ///
    /// # Errors
    ///
    /// See [`FetchError`].
    pub async fn send(&self, request: FetchRequest, bounds: OpenBounds) -> Result<Response<Bytes>, FetchError> {
        // boxed, so that a caller's future need not hold a whole HTTP client
        let exchange = Box::pin(self.exchange(request, bounds.body));
        timeout(bounds.deadline, exchange).await.map_err(|_| FetchError::TooSlow(bounds.deadline))?
    }

    async fn exchange(&self, request: FetchRequest, body: BodyBound) -> Result<Response<Bytes>, FetchError> {
        let uri = place(&request.url)?;
        let mut connector = self.0.clone();
        let connected = match request.url.scheme() {
            "https" => connector.connect_for_upgrade(uri.clone()).await,
            _ => connector.call(uri.clone()).await,
        };
        let stream = connected.map_err(|error| FetchError::Unreachable(cause(&*error)))?;
        let form = match stream.route() {
            ConnectRoute::Server => RequestForm::Path,
            ConnectRoute::ForwardingProxy => RequestForm::Whole(self.0.proxy_authorization(&uri)),
        };
        exchange(stream, head(request, &form)?, body).await
    }
}

impl std::fmt::Debug for OpenClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OpenClient")
    }
}

/// Sends a request over an open stream.
///
/// # Errors
///
/// See [`FetchError`].
pub async fn send_over(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: FetchRequest,
    bounds: OpenBounds,
) -> Result<Response<Bytes>, FetchError> {
    let exchange = exchange(TokioIo::new(stream), head(request, &RequestForm::Path)?, bounds.body);
    timeout(bounds.deadline, exchange).await.map_err(|_| FetchError::TooSlow(bounds.deadline))?
}

/// The host to connect to, with its port.
fn place(url: &Url) -> Result<Uri, FetchError> {
    let unusable = || FetchError::Unreachable("its URL names no host".to_owned());
    let port = url.port_or_known_default().filter(|_| matches!(url.scheme(), "http" | "https")).ok_or_else(unusable)?;
    let host = &url[Position::BeforeHost..Position::AfterHost];
    format!("{}://{host}:{port}/", url.scheme()).parse().map_err(|_| unusable())
}
