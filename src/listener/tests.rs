//! Connections over streams in memory, with a paused clock.

mod places;
mod steps;
mod threads;

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::StatusCode,
    response::IntoResponse as _,
    routing::{get, post},
};
use futures_util::StreamExt as _;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf, duplex},
    sync::{Notify, mpsc},
    task::JoinSet,
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Lifecycle, ListenerSettings, Workers, accept, socket::Accept};
use crate::{model::LimitsConfig, support::Live};

/// The server's end of a connection. Counts writes.
struct ServerEnd {
    stream: DuplexStream,
    writes: Arc<AtomicUsize>,
}

/// Connections in the order in which the test makes them.
struct Arrivals(mpsc::UnboundedReceiver<io::Result<(ServerEnd, SocketAddr)>>);

/// A server of a few routes.
struct Server {
    arrivals: mpsc::UnboundedSender<io::Result<(ServerEnd, SocketAddr)>>,
    lifecycle: Lifecycle,
    /// Lets the handler of `/wait` answer.
    answer: Arc<Notify>,
    served: JoinSet<()>,
}

/// The client's end of a connection.
struct Client {
    stream: DuplexStream,
    writes: Arc<AtomicUsize>,
}

impl AsyncRead for ServerEnd {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for ServerEnd {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Accept for Arrivals {
    type Stream = ServerEnd;

    async fn accept(&mut self) -> io::Result<(ServerEnd, SocketAddr)> {
        match self.0.recv().await {
            Some(arrival) => arrival,
            None => std::future::pending().await,
        }
    }
}

fn routes(answer: Arc<Notify>, tasks: TaskTracker) -> Router {
    // an event at once, then one each hour
    let stream = || {
        let first = futures_util::stream::once(async { "data: 0\n\n" });
        let hourly = futures_util::stream::iter(1..=10).then(|_| async {
            sleep(Duration::from_hours(1)).await;
            "data: 1\n\n"
        });
        Body::from_stream(first.chain(hourly).map(Ok::<_, io::Error>))
    };
    Router::new()
        .route("/", get(async || "hello"))
        .route("/thread", get(async || format!("{}\n\n", std::thread::current().name().unwrap_or_default())))
        .route("/length", post(async |body: Bytes| body.len().to_string()))
        .route("/refuse", post(async || (StatusCode::UNAUTHORIZED, "who are you?")))
        .route("/stream", get(async move || stream()))
        .route("/large", get(async || vec![b'x'; 1 << 20]))
        .route(
            "/wait",
            get(async move || {
                answer.notified().await;
                "done"
            }),
        )
        .route("/echo", get(upgrade))
        .layer(axum::extract::DefaultBodyLimit::disable())
        .with_state(tasks)
}

/// Changes to a protocol that sends back what it gets.
async fn upgrade(State(tasks): State<TaskTracker>, mut request: axum::extract::Request) -> axum::response::Response {
    let upgrading = hyper::upgrade::on(&mut request);
    tasks.spawn(async move {
        let (mut reader, mut writer) = tokio::io::split(TokioIo::new(upgrading.await.unwrap()));
        tokio::io::copy(&mut reader, &mut writer).await.unwrap();
    });
    let headers = [("connection", "upgrade"), ("upgrade", "echo")];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

impl Server {
    fn start(connections: usize, connections_per_address: usize) -> Self {
        Self::on(Workers::present(), (connections, connections_per_address), Router::new())
    }

    /// A server on `workers`, with these routes too.
    fn on(workers: Workers, (connections, connections_per_address): (usize, usize), more: Router) -> Self {
        let (arrivals, listener) = mpsc::unbounded_channel();
        let lifecycle = Lifecycle {
            workers,
            tracker: TaskTracker::new(),
            drain: CancellationToken::new(),
            cancel: CancellationToken::new(),
        };
        let proxies = vec!["10.0.0.0/8".parse().unwrap()];
        let limits = LimitsConfig { connections_per_address, ..LimitsConfig::default() };
        let settings = ListenerSettings { connections, limits: Live::new(limits), proxies };
        let answer = Arc::new(Notify::new());
        let mut served = JoinSet::new();
        let routes = routes(Arc::clone(&answer), lifecycle.tracker.clone()).merge(more);
        served.spawn(accept::run(Arrivals(listener), routes, settings, lifecycle.clone()));
        Self { arrivals, lifecycle, answer, served }
    }

    fn connect(&self, address: &str) -> Client {
        let (stream, server) = duplex(64 * 1024);
        let writes = Arc::new(AtomicUsize::new(0));
        let end = ServerEnd { stream: server, writes: Arc::clone(&writes) };
        self.arrivals.send(Ok((end, SocketAddr::new(address.parse().unwrap(), 4711)))).unwrap();
        Client { stream, writes }
    }
}

impl Client {
    async fn send(&mut self, text: impl AsRef<[u8]>) {
        self.stream.write_all(text.as_ref()).await.unwrap();
    }

    async fn get(&mut self, path: &str) {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: h\r\n\r\n")).await;
    }

    /// The input until the end of the stream.
    async fn rest(&mut self) -> String {
        let mut text = Vec::new();
        self.stream.read_to_end(&mut text).await.unwrap();
        String::from_utf8(text).unwrap()
    }

    /// The input until `end`, or until the end of the stream.
    async fn until(&mut self, end: &str) -> String {
        let mut text = Vec::new();
        while !text.ends_with(end.as_bytes()) {
            match self.stream.read_u8().await {
                Ok(byte) => text.push(byte),
                Err(_) => break,
            }
        }
        String::from_utf8(text).unwrap()
    }
}
