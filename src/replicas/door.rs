//! The listener for other replicas: a peer with the key of a replica is let in, and its requests are served as if they
//! had come here.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    extract::{ConnectInfo, Request},
    response::Response,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use parking_lot::Mutex;
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    time::{Instant, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tower::Service;

use super::{
    hop::{CLIENT_IP, LATE},
    membership::Membership,
};
use crate::{
    listener::{Accept, Serve},
    model::RequestPlace,
};

/// Maximum time for TLS and the check of the key.
const OPENING_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between lines of the log about connections with unknown keys.
const STRANGERS_LOGGED_EVERY: Duration = Duration::from_mins(1);

/// The listening socket for other replicas.
#[derive(Debug)]
pub struct ReplicaDoor {
    listener: TcpListener,
    entrance: Entrance,
}

/// The check of connecting peers. Cheap to clone.
#[derive(Debug, Clone)]
struct Entrance {
    tls: Arc<ServerConfig>,
    membership: Membership,
    strangers: Arc<Strangers>,
}

/// Connections with unknown keys. The log gets one line a minute with their number.
#[derive(Debug, Default)]
struct Strangers(Mutex<StrangersState>);

#[derive(Debug, Default)]
struct StrangersState {
    /// Since the last line.
    count: u64,
    logged: Option<Instant>,
}

/// A connection. TLS begins where the connection is served.
pub enum PeerStream {
    Accepted(AcceptedPeer),
    /// TLS, and the check of the key.
    Opening(BoxFuture<'static, io::Result<TlsStream<TcpStream>>>),
    Open(Box<TlsStream<TcpStream>>),
    /// From a stranger, or TLS failed.
    Refused,
}

/// A connection that was not read yet.
#[derive(Debug)]
pub struct AcceptedPeer {
    stream: TcpStream,
    entrance: Entrance,
}

/// The service for requests of other replicas.
#[derive(Debug, Clone)]
pub struct CarriedRequests<S>(pub S);

// === impl ReplicaDoor ===

impl ReplicaDoor {
    pub(super) fn new(listener: TcpListener, membership: Membership) -> Result<Self, rustls::Error> {
        let tls = membership.identity().acceptor()?;
        Ok(Self { listener, entrance: Entrance { tls, membership, strangers: Arc::default() } })
    }
}

impl Accept for ReplicaDoor {
    type Stream = PeerStream;

    async fn accept(&mut self) -> io::Result<(PeerStream, SocketAddr)> {
        let (stream, peer) = Accept::accept(&mut self.listener).await?;
        Ok((PeerStream::Accepted(AcceptedPeer { stream, entrance: self.entrance.clone() }), peer))
    }

    fn attach(stream: PeerStream) -> io::Result<PeerStream> {
        match stream {
            PeerStream::Accepted(AcceptedPeer { stream, entrance }) => {
                Ok(PeerStream::Opening(entrance.open(<TcpListener as Accept>::attach(stream)?).boxed()))
            }
            begun => Ok(begun),
        }
    }
}

// === impl Entrance ===

impl Entrance {
    async fn open(self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let opened = async {
            let stream = TlsAcceptor::from(self.tls).accept(stream).await?;
            let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            match shown {
                Some(key) if self.membership.is_key_of_another(key).await => Ok(stream),
                _ => {
                    metrics::counter!("lockkeeper_replica_strangers_total").increment(1);
                    if let Some(count) = self.strangers.add() {
                        tracing::warn!(
                            count,
                            "programs that are not replicas of this gateway connected to the address for replicas"
                        );
                    }
                    Err(io::ErrorKind::PermissionDenied.into())
                }
            }
        };
        timeout(OPENING_TIMEOUT, opened).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

// === impl Strangers ===

impl Strangers {
    /// Counts one more. Returns the number to log, if a line is due.
    fn add(&self) -> Option<u64> {
        let (mut state, now) = (self.0.lock(), Instant::now());
        state.count += 1;
        if state.logged.is_some_and(|last| now - last < STRANGERS_LOGGED_EVERY) {
            return None;
        }
        state.logged = Some(now);
        Some(std::mem::take(&mut state.count))
    }
}

// === impl PeerStream ===

impl PeerStream {
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pin<&mut TlsStream<TcpStream>>>> {
        if let Self::Opening(opening) = self {
            match ready!(opening.poll_unpin(cx)) {
                Ok(stream) => *self = Self::Open(Box::new(stream)),
                Err(error) => {
                    // the server of the connection polls again, to end it
                    *self = Self::Refused;
                    return Poll::Ready(Err(error));
                }
            }
        }
        Poll::Ready(match self {
            Self::Open(stream) => Ok(Pin::new(&mut **stream)),
            _ => Err(io::ErrorKind::NotConnected.into()),
        })
    }
}

impl AsyncRead for PeerStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_open(cx))?.poll_read(cx, buf)
    }
}

impl AsyncWrite for PeerStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_open(cx))?.poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_open(cx))?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_open(cx))?.poll_shutdown(cx)
    }
}

// === impl CarriedRequests ===

impl<S: Serve> Service<Request> for CarriedRequests<S> {
    type Response = Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request) -> S::Future {
        // the client's, not the other replica's
        let from = request.headers_mut().remove(CLIENT_IP).and_then(|ip| ip.to_str().ok()?.parse::<IpAddr>().ok());
        if let Some(from) = from {
            request.extensions_mut().insert(ConnectInfo(SocketAddr::new(from, 0)));
        }
        let is_late = request.headers_mut().remove(LATE).is_some();
        let place = if is_late { RequestPlace::Late } else { RequestPlace::Carried };
        request.extensions_mut().insert(place);
        self.0.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn strangers_cause_one_counted_line_in_a_minute() {
        let strangers = Strangers::default();
        assert_eq!(strangers.add(), Some(1));
        assert!((0..99).all(|_| strangers.add().is_none()));
        tokio::time::advance(STRANGERS_LOGGED_EVERY).await;
        assert_eq!(strangers.add(), Some(100));
        assert_eq!(strangers.add(), None);
    }
}
