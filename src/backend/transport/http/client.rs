//! HTTP client for all requests to servers, with the gateway's rules.

mod failure;
mod framing;
mod incoming_body;
mod keep_alive;
mod plain;
mod secure;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use http::{
    HeaderValue, Request, Response, Uri,
    uri::{Authority, Scheme},
};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use thread_local::ThreadLocal;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tower::Service as _;

use self::{
    failure::{lost, lost_at_first, unreachable},
    plain::{IdleConnections, PlainConnection, Sent},
    secure::SecureConnections,
};
use crate::{
    backend::transport::interface::TransportError,
    fetch::{
        cause::cause,
        coding::{ReadableBody, UnknownCoding, readable},
        connector::{ClientError, ServerConnector},
    },
    mcp::large_messages::on_worker,
    model::NetworkSpec,
};
pub(super) use incoming_body::IncomingBody;

/// HTTP client: no redirects (they would carry the configured credentials elsewhere), no cookies, a timeout for
/// connecting. Responses have no timeout here; calls have one for silence. HTTP/2 is used if TLS negotiates it.
///
/// Proxies come from the environment; loopback addresses are always reached directly.
#[derive(Clone)]
pub(crate) struct Client {
    /// Separate for each thread, so that a request and the task that reads its response wake no other thread.
    connections: Arc<ThreadLocal<Connections>>,
    connector: ServerConnector,
}

struct Connections {
    plain: Arc<IdleConnections>,
    secure: SecureConnections,
}

// === impl Client ===

impl Client {
    /// Creates a client with the proxies of `environment`.
    ///
    /// # Errors
    ///
    /// If certificates are missing, or a proxy in the environment is not a URL.
    pub(crate) fn new(environment: &BTreeMap<String, String>) -> Result<Self, ClientError> {
        ServerConnector::new(environment).map(Self::over)
    }

    /// Creates a client for a server with its own network settings.
    ///
    /// # Errors
    ///
    /// As [`Client::new`], or if the configured certificates cannot be used.
    pub(crate) fn of_server(
        network: &NetworkSpec,
        environment: &BTreeMap<String, String>,
    ) -> Result<Self, ClientError> {
        ServerConnector::of_server(network, environment).map(Self::over)
    }

    fn over(connector: ServerConnector) -> Self {
        Self { connections: Arc::default(), connector }
    }

    /// Connections of the current thread.
    fn connections(&self) -> &Connections {
        self.connections
            .get_or(|| Connections { plain: Arc::default(), secure: SecureConnections::new(&self.connector) })
    }

    /// Credentials for the proxy that forwards a request for `uri`; `None` if there is no such proxy.
    pub(super) fn proxy_authorization(&self, uri: &Uri) -> Option<HeaderValue> {
        self.connector.proxy_authorization(uri)
    }

    /// Connects to the host of `uri` (`ws` or `wss`), for an upgrade.
    ///
    /// # Errors
    ///
    /// The innermost cause.
    pub(crate) async fn connect_for_upgrade(
        &self,
        uri: &Uri,
    ) -> Result<impl AsyncRead + AsyncWrite + Send + Unpin + use<>, String> {
        let (scheme, default) = if uri.scheme_str() == Some("wss") { ("https", 443) } else { ("http", 80) };
        let host = uri.host().unwrap_or_default();
        let uri = origin(scheme, host, uri.port_u16().unwrap_or(default))?;
        let stream = self.connector.clone().connect_for_upgrade(uri).await.map_err(|error| cause(&*error))?;
        Ok(TokioIo::new(stream))
    }

    /// Connects to a TCP port directly, without a proxy.
    ///
    /// # Errors
    ///
    /// The innermost cause.
    pub(crate) async fn connect_tcp(&self, host: &str, port: u16) -> Result<TcpStream, String> {
        let uri = origin("http", host, port)?;
        self.connector.clone().connect_tcp(uri).await.map_err(|error| cause(&*error))
    }

    /// Sends a request, and returns the head of the response. If an idle connection turns out to be closed, the request
    /// is sent again on another one; so is a request that an HTTP/2 server reports as unprocessed.
    pub(crate) async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<ReadableBody<IncomingBody>>, TransportError> {
        // the connections belong to the worker thread
        on_worker().await;
        if request.uri().scheme() == Some(&Scheme::HTTPS) {
            // boxed, so that the future of every call does not include it
            let sent = Box::pin(self.connections().secure.send(request)).await;
            let response = sent?;
            framing::check(&response)?;
            return readable(response.map(IncomingBody::from)).map_err(unreadable);
        }
        let uri = request.uri().clone();
        let server = uri.authority().ok_or_else(|| TransportError::Refused("the URL names no host".to_owned()))?;
        let mut request = request;
        while let Some(kept) = self.connections().plain.take(server) {
            match kept.send(request).await {
                Sent::Answered(response, kept) => return answered(response, kept),
                Sent::Unsent(unsent, _) => request = unsent,
                Sent::Lost(error) => return Err(lost(&error)),
            }
        }
        // boxed for the same reason
        let opened = Box::pin(self.open_plain(&uri, server)).await?;
        match opened.send(request).await {
            Sent::Answered(response, opened) => answered(response, opened),
            Sent::Unsent(_, error) => Err(unreachable(&error)),
            Sent::Lost(error) => Err(lost_at_first(&error)),
        }
    }

    async fn open_plain(&self, uri: &Uri, server: &Authority) -> Result<Box<PlainConnection>, TransportError> {
        let stream = self.connector.clone().call(uri.clone()).await.map_err(|error| unreachable(&*error))?;
        let home = &self.connections().plain;
        PlainConnection::new(stream, server.clone(), home).await.map_err(|error| unreachable(&error))
    }
}

fn answered(
    response: Response<Incoming>,
    connection: Box<PlainConnection>,
) -> Result<Response<ReadableBody<IncomingBody>>, TransportError> {
    framing::check(&response)?;
    readable(response.map(|body| IncomingBody::on(connection, body))).map_err(unreadable)
}

#[expect(clippy::needless_pass_by_value, reason = "it is used as a function")]
fn unreadable(coding: UnknownCoding) -> TransportError {
    TransportError::Refused(coding.to_string())
}

fn origin(scheme: &str, host: &str, port: u16) -> Result<Uri, String> {
    format!("{scheme}://{host}:{port}/").parse().map_err(|_| "the host name is wrong".to_owned())
}
