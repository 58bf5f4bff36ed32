//! TLS connections of one thread: HTTP/2 if the server offers it, else HTTP/1.1.

use std::collections::HashSet;

use bytes::Bytes;
use http::{Request, Response, Version, uri::Authority};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{
        self,
        connect::{CaptureConnection, capture_connection},
    },
    rt::{TokioExecutor, TokioTimer},
};
use parking_lot::Mutex;

use super::{
    failure::{lost, unreachable},
    keep_alive,
};
use crate::{
    backend::transport::interface::TransportError,
    fetch::{cause::innermost, connector::ServerConnector},
    support::piece::CONNECTION_BUFFER,
};

/// Maximum number of retries of a request that the server certainly did not process.
const RETRIES: u32 = 2;

type HttpsClient = legacy::Client<ServerConnector, Full<Bytes>>;

pub(super) struct SecureConnections {
    /// HTTP/2 connections, whose end the server announces, and the first connection to any server.
    any: HttpsClient,
    /// Connections to [`Self::http1_servers`], with a shorter idle time.
    http1: HttpsClient,
    /// Servers that have answered over HTTP/1.1.
    http1_servers: Mutex<HashSet<Authority>>,
}

// === impl SecureConnections ===

impl SecureConnections {
    pub(super) fn new(connector: &ServerConnector) -> Self {
        let client = |max_idle| {
            legacy::Client::builder(TokioExecutor::new())
                .timer(TokioTimer::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(max_idle)
                .http1_max_buf_size(CONNECTION_BUFFER)
                .build(connector.clone())
        };
        Self { any: client(keep_alive::MAX), http1: client(keep_alive::UNTOLD_SECURE), http1_servers: Mutex::default() }
    }

    /// Sends a request; again if the server reports that it did not process it.
    pub(super) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, TransportError> {
        for _ in 0..RETRIES {
            match self.send_once(request.clone()).await {
                Err(error) if is_not_taken_up(&error) => {}
                sent => return sent.map_err(|error| broken(&error)),
            }
        }
        self.send_once(request).await.map_err(|error| broken(&error))
    }

    async fn send_once(&self, mut request: Request<Full<Bytes>>) -> Result<Response<Incoming>, legacy::Error> {
        let Some(server) = request.uri().authority().cloned() else { return self.any.request(request).await };
        if self.http1_servers.lock().contains(&server) {
            return self.send_by_http1(&server, request).await;
        }
        let connection = capture_connection(&mut request);
        let response = self.any.request(request).await?;
        if response.version() < Version::HTTP_2 {
            self.http1_servers.lock().insert(server);
            release(&response, &connection);
        }
        Ok(response)
    }

    async fn send_by_http1(
        &self,
        server: &Authority,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, legacy::Error> {
        let connection = capture_connection(&mut request);
        let response = self.http1.request(request).await?;
        if response.version() == Version::HTTP_2 {
            self.http1_servers.lock().remove(server);
        } else {
            release(&response, &connection);
        }
        Ok(response)
    }
}

/// Prevents another request on the connection of an HTTP/1.1 response, unless the server keeps it open long enough.
fn release(response: &Response<Incoming>, connection: &CaptureConnection) {
    if !keep_alive::is_kept(response.headers())
        && let Some(connection) = &*connection.connection_metadata()
    {
        connection.poison();
    }
}

/// True if the server reports that it did not process the request (RFC 9113 6.8, 8.7).
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
