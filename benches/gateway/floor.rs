//! The floor: the least that a call costs with the parts that the gateway is made of. A bare axum router forwards each
//! request by hyper-util's client; one listener hands the accepted sockets in turn to current-thread runtimes, one for
//! each core.

use std::{net::TcpListener, num::NonZero, thread};

use anyhow::{Context as _, Result};
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use hyper::server::conn::http1;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::mpsc,
    task::JoinSet,
};

/// The server behind the floor.
#[derive(Clone)]
struct Upstream {
    client: Client<HttpConnector, Body>,
    port: u16,
}

/// Forwards what comes on a port of loopback to another one, until it is killed.
pub(crate) fn serve(port: u16, backend: u16) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let threads: Vec<_> = (0..cores).map(|_| start_thread(backend)).collect();
    for thread in threads.iter().cycle() {
        thread.send(listener.accept()?.0).context("a thread ended")?;
    }
    Ok(())
}

/// Starts a thread that serves the sockets it is handed.
fn start_thread(backend: u16) -> mpsc::UnboundedSender<std::net::TcpStream> {
    let (hand_over, sockets) = mpsc::unbounded_channel();
    thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(serve_sockets(sockets, backend))
    });
    hand_over
}

async fn serve_sockets(mut sockets: mpsc::UnboundedReceiver<std::net::TcpStream>, backend: u16) -> Result<()> {
    let router = router(backend);
    let mut connections = JoinSet::new();
    while let Some(socket) = sockets.recv().await {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        connections.spawn(serve_connection(TcpStream::from_std(socket)?, router.clone()));
        while connections.try_join_next().is_some() {}
    }
    Ok(())
}

/// A router that forwards to the server on port `backend` of loopback.
pub(crate) fn router(backend: u16) -> Router {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let upstream = Upstream { client: Client::builder(TokioExecutor::new()).build(connector), port: backend };
    Router::new().fallback(forward).with_state(upstream)
}

/// Serves one connection to its end.
pub(crate) async fn serve_connection<S>(stream: S, router: Router) -> Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(router);
    Ok(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await?)
}

async fn forward(State(upstream): State<Upstream>, mut request: Request) -> Response {
    let path = request.uri().path();
    let Ok(uri) = Uri::try_from(format!("http://127.0.0.1:{}{path}", upstream.port)) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    *request.uri_mut() = uri;
    match upstream.client.request(request).await {
        Ok(response) => response.map(Body::new),
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}
