//! HTTP client for all requests to servers, with the gateway's rules.

mod incoming_body;
mod plain;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, error::Error, sync::Arc};

use bytes::Bytes;
use http::{
    HeaderValue, Request, Response, Uri,
    uri::{Authority, Scheme},
};
use http_body_util::Full;
use hyper_util::{
    client::legacy,
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use thread_local::ThreadLocal;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tower::Service as _;

use self::plain::{IDLE_TIMEOUT, IdleConnections, PlainConnection, Sent};
use super::connector::{ClientError, ServerConnector};
use crate::{backend::transport::interface::TransportError, model::NetworkSpec};
pub(super) use incoming_body::IncomingBody;

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
    connector: ServerConnector,
}

/// The connections of one thread.
struct Connections {
    plain: Arc<IdleConnections>,
    /// Those with TLS.
    secure: legacy::Client<ServerConnector, Full<Bytes>>,
}

// === impl Client ===

impl Client {
    /// Creates a client with the proxies of `environment`.
    ///
    /// # Errors
    ///
    /// An error if certificates are missing, or a proxy in the environment is no URL.
    pub(crate) fn new(environment: &BTreeMap<String, String>) -> Result<Self, ClientError> {
        ServerConnector::new(environment).map(Self::over)
    }

    /// Creates a client for a server with settings of its own.
    ///
    /// # Errors
    ///
    /// As [`Client::new`]; also if these certificates cannot be used.
    pub(crate) fn of_server(
        network: &NetworkSpec,
        environment: &BTreeMap<String, String>,
    ) -> Result<Self, ClientError> {
        ServerConnector::of_server(network, environment).map(Self::over)
    }

    fn over(connector: ServerConnector) -> Self {
        Self { connections: Arc::default(), connector }
    }

    /// The connections of the current thread.
    fn connections(&self) -> &Connections {
        self.connections.get_or(|| {
            let secure = legacy::Client::builder(TokioExecutor::new())
                .timer(TokioTimer::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(IDLE_TIMEOUT)
                .build(self.connector.clone());
            Connections { plain: Arc::default(), secure }
        })
    }

    /// The credentials for the proxy that forwards a request for `uri`, if one does.
    pub(super) fn proxy_authorization(&self, uri: &Uri) -> Option<HeaderValue> {
        self.connector.proxy_authorization(uri)
    }

    /// Connects to the host of `uri` (`ws` or `wss`), for an upgrade.
    ///
    /// # Errors
    ///
    /// The innermost reason.
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

    /// Connects to a port directly.
    ///
    /// # Errors
    ///
    /// The innermost reason.
    pub(crate) async fn connect_tcp(&self, host: &str, port: u16) -> Result<TcpStream, String> {
        let uri = origin("http", host, port)?;
        self.connector.clone().connect_tcp(uri).await.map_err(|error| cause(&*error))
    }

    /// Sends a request, and returns the head of the response. A request on a kept connection that turns out to be
    /// closed is repeated on another one, as is one that an HTTP/2 server reports as unprocessed.
    pub(super) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<IncomingBody>, TransportError> {
        if request.uri().scheme() == Some(&Scheme::HTTPS) {
            return Box::pin(self.send_by_tls(request)).await;
        }
        let uri = request.uri().clone();
        let server = uri.authority().ok_or_else(|| TransportError::Refused("the URL names no host".to_owned()))?;
        let mut request = request;
        while let Some(kept) = self.connections().plain.take(server) {
            match kept.send(request).await {
                Sent::Answered(response, kept) => return Ok(response.map(|body| IncomingBody::on(kept, body))),
                Sent::Unsent(unsent, _) => request = unsent,
                Sent::Lost(error) => return Err(lost(&error)),
            }
        }
        // boxed, so that the future of every call does not have to hold it
        let opened = Box::pin(self.open_plain(&uri, server)).await?;
        match opened.send(request).await {
            Sent::Answered(response, opened) => Ok(response.map(|body| IncomingBody::on(opened, body))),
            Sent::Unsent(_, error) | Sent::Lost(error) => Err(lost(&error)),
        }
    }

    async fn open_plain(&self, uri: &Uri, server: &Authority) -> Result<Box<PlainConnection>, TransportError> {
        let stream = self.connector.clone().call(uri.clone()).await.map_err(|error| unreachable(&*error))?;
        let home = &self.connections().plain;
        PlainConnection::new(stream, server.clone(), home).await.map_err(|error| lost(&error))
    }

    /// Sends a request for `https`, by HTTP/2 if the server has it.
    async fn send_by_tls(&self, request: Request<Full<Bytes>>) -> Result<Response<IncomingBody>, TransportError> {
        let answered = |response: Response<_>| response.map(IncomingBody::from);
        for _ in 0..RETRIES {
            match self.connections().secure.request(request.clone()).await {
                Err(error) if is_not_taken_up(&error) => {}
                sent => return sent.map(answered).map_err(|error| broken(&error)),
            }
        }
        self.connections().secure.request(request).await.map(answered).map_err(|error| broken(&error))
    }
}

fn origin(scheme: &str, host: &str, port: u16) -> Result<Uri, String> {
    format!("{scheme}://{host}:{port}/").parse().map_err(|_| "the host name is wrong".to_owned())
}

/// True if the server reports that it has not processed the request (RFC 9113 6.8, 8.7).
fn is_not_taken_up(error: &legacy::Error) -> bool {
    let Some(error) = innermost(error).downcast_ref::<h2::Error>() else { return false };
    let drains = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
    let refuses = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    error.is_remote() && (drains || refuses)
}

/// The error of a request without an answer.
fn broken(error: &legacy::Error) -> TransportError {
    if error.is_connect() { unreachable(error) } else { lost(error) }
}

/// The error of a request without a connection, which was certainly not processed.
fn unreachable(error: &(dyn Error + 'static)) -> TransportError {
    let reason = cause(error);
    TransportError::Unreachable(format!("the server cannot be reached ({reason}): is it running, is `url` right?"))
}

fn lost(error: &(dyn Error + 'static)) -> TransportError {
    TransportError::Lost(cause(error))
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
