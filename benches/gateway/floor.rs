//! The floor: the minimal cost of a call with the components that the gateway is made of. A bare axum router forwards
//! each request with hyper-util's client; one listener hands the accepted sockets in turn to current-thread runtimes,
//! one for each core.
//!
//! The reading floor also does what no gateway can avoid: it takes the digest of the credential, reads the message in
//! both directions, and sends the server its own name of the tool.

use std::{hint::black_box, net::TcpListener, num::NonZero, thread};

use anyhow::{Context as _, Result};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{StatusCode, Uri, header, request::Parts},
    response::{IntoResponse as _, Response},
};
use http_body_util::BodyExt as _;
use hyper::server::conn::http1;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
    service::TowerToHyperService,
};
use lockkeeper::mcp::{
    IndexedJson, Message, Method, Payload, RequestId, Revision,
    json::{At, quote},
    jsonrpc::Frame,
};
use sha2::{Digest as _, Sha256};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::mpsc,
    task::JoinSet,
};

/// Prefix of tool names at the reading floor.
pub(crate) const TOOL_PREFIX: &str = "floor__";

/// The server behind the floor.
#[derive(Clone)]
struct Upstream {
    client: Client<HttpConnector, Body>,
    port: u16,
}

/// A client's message, as the server should receive it.
pub(crate) enum Inbound {
    Request {
        id: RequestId,
        method: Method,
        params: IndexedJson,
    },
    /// The end of a handshake.
    Other(Bytes),
}

/// Serves a router of the floor on a loopback port until it is killed.
pub(crate) fn serve(port: u16, router: impl Fn() -> Router) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let threads: Vec<_> = (0..cores).map(|_| start_thread(router())).collect();
    for thread in threads.iter().cycle() {
        thread.send(listener.accept()?.0).context("a thread ended")?;
    }
    Ok(())
}

/// Starts a thread that serves the sockets sent to it.
fn start_thread(router: Router) -> mpsc::UnboundedSender<std::net::TcpStream> {
    let (hand_over, sockets) = mpsc::unbounded_channel();
    thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(serve_sockets(sockets, router))
    });
    hand_over
}

async fn serve_sockets(mut sockets: mpsc::UnboundedReceiver<std::net::TcpStream>, router: Router) -> Result<()> {
    let mut connections = JoinSet::new();
    while let Some(socket) = sockets.recv().await {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        connections.spawn(serve_connection(TcpStream::from_std(socket)?, router.clone()));
        while connections.try_join_next().is_some() {}
    }
    Ok(())
}

/// A router that forwards to the server on the loopback port `backend`.
pub(crate) fn router(backend: u16) -> Router {
    Router::new().fallback(forward).with_state(upstream(backend))
}

/// The same for the reading floor.
pub(crate) fn reading_router(backend: u16) -> Router {
    Router::new().fallback(read_and_forward).with_state(upstream(backend))
}

fn upstream(backend: u16) -> Upstream {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Upstream { client: Client::builder(TokioExecutor::new()).build(connector), port: backend }
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

async fn read_and_forward(State(upstream): State<Upstream>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    exchange(&upstream, parts, body).await.unwrap_or_else(|| StatusCode::BAD_GATEWAY.into_response())
}

/// One exchange of the reading floor. `None` if either side sends something unexpected in the bench.
async fn exchange(upstream: &Upstream, mut parts: Parts, body: Body) -> Option<Response> {
    let (id, text) = match read(&mut parts, body).await? {
        Inbound::Request { id, method, params } => {
            (Some(id), Message::Request { id: RequestId::number(1), method, params }.encode())
        }
        Inbound::Other(text) => (None, text),
    };
    parts.headers.insert(header::CONTENT_LENGTH, text.len().into());
    let path = parts.uri.path();
    parts.uri = Uri::try_from(format!("http://127.0.0.1:{}{path}", upstream.port)).ok()?;
    let response = upstream.client.request(Request::from_parts(parts, Body::from(text))).await.ok()?;
    let (mut parts, body) = response.into_parts();
    let text = body.collect().await.ok()?.to_bytes();
    let text: Bytes = match (id, Message::parse(&text)) {
        (Some(id), Ok(Message::Response { outcome, .. })) => Message::Response { id: Some(id), outcome }.encode(),
        _ => text,
    };
    parts.headers.insert(header::CONTENT_LENGTH, text.len().into());
    Some(Response::from_parts(parts, Body::from(text)))
}

/// Takes the digest of the credential, reads the message, and sends the server its own name of the tool.
pub(crate) async fn read(parts: &mut Parts, body: Body) -> Option<Inbound> {
    let credential = parts.headers.remove(header::AUTHORIZATION)?;
    black_box(Sha256::digest(credential.as_bytes()));
    let text = body.collect().await.ok()?.to_bytes();
    let Frame::Single(Message::Request { id, method, params }) =
        Frame::parse(&text).and_then(Frame::unambiguous).ok()?
    else {
        return Some(Inbound::Other(text));
    };
    let params = Payload::of_params(Revision::NEWEST, params);
    let found = params.find(&[At::Key("name")]);
    let name = found.string(params.json()).unwrap_or_default();
    let own = name.strip_prefix(TOOL_PREFIX).unwrap_or(&name);
    let params = params.replaced(&found, &quote(own)).into_params();
    Some(Inbound::Request { id, method, params })
}
