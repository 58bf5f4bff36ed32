//! Drives one connection from its first byte to its close.

use std::{
    future::poll_fn,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use futures_util::FutureExt as _;
use hyper::{
    server::conn::http1,
    service::{HttpService, service_fn},
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Serve, Timeouts,
    admission::Admitted,
    body::ResponseBody,
    connection::{Connection, ConnectionEnd, DriverStep},
    foreign_protocol::ForeignProtocols,
    io::Observed,
    service,
    socket::Accept,
};
use crate::{
    model::LimitsConfig,
    support::{
        Live,
        own_waker::{OwnWaker, Woken},
        piece::CONNECTION_BUFFER,
    },
};

/// Maximum size of a request head, in bytes. A longer one gets 431.
const MAX_HEAD: usize = 64 * 1024;

/// Time for a silent client, and total time, to close a connection after the last response. Its bytes are read and
/// discarded in the meantime: closing at once would destroy the response on its way (RFC 9112 9.6).
const LINGER_SILENCE: Duration = Duration::from_secs(5);
const LINGER_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of bytes discarded in that time.
const MAX_LINGER: usize = 64 << 20;

/// The answer to a head that takes too long.
const HEAD_TIMEOUT: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Time that the timer is set to if a connection has no deadline.
const FAR: Duration = Duration::from_hours(24);

/// Data shared by connections.
#[derive(Debug, Clone)]
pub(super) struct Service<S> {
    pub(super) inner: S,
    pub(super) limits: Live<LimitsConfig>,
    /// Cancelled when connections should end with their current response.
    pub(super) drain: CancellationToken,
    pub(super) foreign: Arc<ForeignProtocols>,
}

enum DriveEnd {
    Done(hyper::Result<()>),
    /// A decision of the driver.
    By(ConnectionEnd),
}

/// Serves the requests on an accepted `stream` until it ends.
pub(super) async fn connection<A: Accept>(
    stream: A::Stream,
    peer: SocketAddr,
    admitted: Admitted,
    service: Service<impl Serve>,
) {
    let stream = match A::attach(stream) {
        Ok(stream) => stream,
        Err(error) => return tracing::warn!(%error, "an accepted connection cannot be served"),
    };
    let Service { inner, limits, drain, foreign } = service;
    let timeouts = Timeouts::of(&limits.get());
    let connection = Arc::new(Connection::new(admitted.entry(), timeouts));
    let stream = TokioIo::new(Observed::new(stream, Arc::clone(&connection), admitted));
    let handle = {
        let (connection, waker) = (Arc::clone(&connection), Arc::<OwnWaker>::default());
        service_fn(move |request| {
            let (connection, waker) = (Arc::clone(&connection), Arc::clone(&waker));
            service::answer(inner.clone(), request, peer, connection, waker)
        })
    };
    let mut builder = http1::Builder::new();
    builder.header_read_timeout(None).max_header_size(MAX_HEAD).max_buf_size(CONNECTION_BUFFER);
    let mut http = builder.serve_connection(stream, handle).with_upgrades();
    let ended = drive(&mut http, &connection, &drain).await;
    let Some(parts) = http.into_parts() else { return };
    let mut stream = parts.io.into_inner();
    match ended {
        DriveEnd::Done(Ok(())) if connection.has_unread_body() => linger(&mut stream, &connection, b"").await,
        DriveEnd::Done(Err(error)) if error.is_parse() => {
            foreign.note(&parts.read_buf, peer);
            linger(&mut stream, &connection, b"").await;
        }
        DriveEnd::Done(_) => {}
        DriveEnd::By(end) => {
            count(end);
            if end == ConnectionEnd::Head && !parts.read_buf.is_empty() {
                linger(&mut stream, &connection, HEAD_TIMEOUT).await;
            }
        }
    }
}

/// Polls hyper's connection, and enforces the deadlines.
async fn drive<T, S>(
    http: &mut http1::UpgradeableConnection<T, S>,
    connection: &Connection,
    drain: &CancellationToken,
) -> DriveEnd
where
    T: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    S: HttpService<hyper::body::Incoming, ResBody = ResponseBody>,
    S::Error: Into<axum::BoxError>,
{
    let mut http = Pin::new(http);
    let mut timer = pin!(sleep(FAR));
    let drained = pin!(drain.cancelled());
    // polled only when woken, not for each request
    let mut drained = Woken::new(drained, &Arc::default());
    let mut draining = false;
    poll_fn(|cx| {
        if !draining && drained.poll_unpin(cx).is_ready() {
            draining = true;
            http.as_mut().graceful_shutdown();
        }
        loop {
            if let Poll::Ready(done) = http.as_mut().poll(cx) {
                return Poll::Ready(DriveEnd::Done(done));
            }
            if !connection.take_changed() && !timer.is_elapsed() {
                return Poll::Pending;
            }
            let deadline = match connection.advance(cx, Instant::now()) {
                DriverStep::Wait(deadline) => deadline,
                DriverStep::Again => continue,
                DriverStep::Retire => {
                    http.as_mut().graceful_shutdown();
                    // closes the write side, which takes no time
                    let _ = http.as_mut().poll(cx);
                    return Poll::Ready(DriveEnd::By(ConnectionEnd::Idle));
                }
                DriverStep::End(end) => return Poll::Ready(DriveEnd::By(end)),
            };
            // an early wakeup costs less than setting the timer for each request
            let Some(deadline) = deadline else {
                if timer.is_elapsed() {
                    timer.as_mut().reset(Instant::now() + FAR);
                    let _ = timer.as_mut().poll(cx);
                }
                return Poll::Pending;
            };
            if timer.is_elapsed() || deadline < timer.deadline() {
                timer.as_mut().reset(deadline);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    })
    .await
}

/// Writes `last`, and waits until the client has closed the connection.
async fn linger<T: AsyncRead + AsyncWrite + Unpin>(stream: &mut T, connection: &Connection, last: &[u8]) {
    if connection.closing().is_err() {
        return;
    }
    let closed = async {
        stream.write_all(last).await?;
        stream.shutdown().await?;
        let mut buffer = vec![0; 16 * 1024];
        let mut discarded = 0;
        while discarded < MAX_LINGER {
            match timeout(LINGER_SILENCE, stream.read(&mut buffer)).await {
                Ok(Ok(bytes)) if bytes > 0 => discarded += bytes,
                _ => break,
            }
        }
        std::io::Result::Ok(())
    };
    let _ = timeout(LINGER_TIMEOUT, closed).await;
}

fn count(end: ConnectionEnd) {
    let reason = match end {
        ConnectionEnd::Head => "head_timeout",
        ConnectionEnd::Idle => "idle_timeout",
        ConnectionEnd::Body => "body_timeout",
        ConnectionEnd::Write => "write_timeout",
        // counted by the decision to evict
        ConnectionEnd::Evicted => return,
    };
    metrics::counter!("lockkeeper_connections_ended_total", "reason" => reason).increment(1);
}
