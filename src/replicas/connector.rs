//! Connections to other replicas: TCP, then TLS with proof of both keys.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tower::Service;

use super::membership::Membership;
use crate::model::ReplicaNumber;

/// Maximum time to connect: all addresses of the name, and TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// TCP keep-alive: idle time, and interval of probes. A replica whose machine or network is gone is noticed soon: its
/// pending answers fail, and their clients learn of it.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(1));
/// Sent data, or a probe, may stay unacknowledged for at most this long (RFC 5482). Replicas always read requests.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(6);
/// Suffix after the number of a replica in the host of [`uri`].
const DOMAIN: &str = ".replica";

/// Connects to the replicas named by the hosts of URIs. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct PeerConnector(pub(super) Membership);

pub(super) struct PeerConnection(TokioIo<TlsStream<TcpStream>>);

/// The URI that leads [`PeerConnector`] to a replica, with this path and query.
pub(super) fn uri(replica: ReplicaNumber, path: &str) -> Result<Uri, http::Error> {
    Uri::builder().scheme("http").authority(format!("{replica}{DOMAIN}")).path_and_query(path).build()
}

// === impl PeerConnector ===

impl PeerConnector {
    async fn connect(self, uri: Uri) -> io::Result<PeerConnection> {
        let number = uri.host().and_then(|host| ReplicaNumber::parse(host.strip_suffix(DOMAIN)?));
        let peer = number.and_then(|number| self.0.known(number));
        let peer = peer.ok_or_else(|| io::Error::new(io::ErrorKind::HostUnreachable, "the replica is gone"))?;
        let stream = TcpStream::connect(peer.address.as_str()).await?;
        set_options(&stream)?;
        let name = ServerName::try_from("replica").map_err(io::Error::other)?;
        let tls = TlsConnector::from(std::sync::Arc::clone(&peer.tls)).connect(name, stream).await?;
        Ok(PeerConnection(TokioIo::new(tls)))
    }
}

fn set_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE.0).with_interval(KEEPALIVE.1))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_TIMEOUT))?;
    Ok(())
}

impl Service<Uri> for PeerConnector {
    type Response = PeerConnection;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<PeerConnection>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.clone().connect(uri);
        async move { timeout(CONNECT_TIMEOUT, connecting).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) }
            .boxed()
    }
}

// === impl PeerConnection ===

impl Connection for PeerConnection {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for PeerConnection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl Write for PeerConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
