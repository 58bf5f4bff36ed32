//! Streamable HTTP, with or without sessions. A single answer is sent as JSON unless the server always streams.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    response::Response,
};
use futures_util::{FutureExt as _, Stream, StreamExt as _, stream};
use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Actor, Received, Session, Tasks};
use crate::kit::outlet::{Outlet, Piece, Pieces};

const SESSION: &str = "mcp-session-id";

struct Site {
    actor: Arc<dyn Actor>,
    tasks: Tasks,
    last: AtomicU64,
    sessions: Mutex<HashMap<String, Open>>,
    /// In a server without sessions: the only one, until it ends. In other servers: the one for probes.
    only: Mutex<Option<Open>>,
}

/// A session, and the queue of its standalone stream.
#[derive(Clone)]
struct Open {
    session: Arc<dyn Session>,
    aside: Arc<tokio::sync::Mutex<Pieces>>,
}

/// One exchange; the client may abandon it.
struct Exchange {
    pieces: Pieces,
    guard: DropGuard,
    has_begun: bool,
}

pub(super) async fn serve(listener: TcpListener, actor: Arc<dyn Actor>, tasks: Tasks) {
    axum::serve(listener, router(actor, tasks)).await.unwrap();
}

pub(super) fn router(actor: Arc<dyn Actor>, tasks: Tasks) -> Router {
    let sessions = Mutex::default();
    let site = Site { actor, tasks, last: AtomicU64::new(0), sessions, only: Mutex::default() };
    Router::new().fallback(answer).with_state(Arc::new(site))
}

async fn answer(State(site): State<Arc<Site>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if let Err(code) = site.actor.admit(&parts) {
        return status(code.as_u16());
    }
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let message: Value = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
    if !site.actor.has_sessions() {
        let open = site.only();
        if parts.method != Method::POST {
            open.session.misused(parts.method.as_str());
            return Response::builder().status(405).header("allow", "POST").body(Body::empty()).unwrap();
        }
        return open.take(&site, message, parts.headers).await;
    }
    if message["method"] == "server/discover" && !parts.headers.contains_key(SESSION) {
        return site.only().take(&site, message, parts.headers).await;
    }
    if message["method"] == "initialize" {
        let name = site.last.fetch_add(1, Ordering::Relaxed).to_string();
        let open = site.open();
        site.sessions.lock().insert(name.clone(), open.clone());
        let mut response = open.take(&site, message, parts.headers).await;
        response.headers_mut().insert(SESSION, name.parse().unwrap());
        return response;
    }
    let name = parts.headers.get(SESSION).and_then(|name| name.to_str().ok()).unwrap_or_default();
    let Some(open) = site.found(name) else { return status(404) };
    match parts.method {
        Method::DELETE => {
            site.sessions.lock().remove(name);
            open.session.closed();
            status(204)
        }
        Method::GET => {
            let pieces = open.aside.lock_owned().await;
            let rest = stream::unfold((pieces, false), async |(mut pieces, has_begun)| {
                let (bytes, ends) = pieces.recv().await?.into_bytes();
                Some((event(&bytes, (has_begun, ends)), (pieces, !ends)))
            });
            events(rest)
        }
        _ => open.take(&site, message, parts.headers).await,
    }
}

impl Site {
    fn open(&self) -> Open {
        let (outlet, pieces) = Outlet::new();
        Open { session: self.actor.open(outlet), aside: Arc::new(tokio::sync::Mutex::new(pieces)) }
    }

    fn only(&self) -> Open {
        let mut only = self.only.lock();
        only.take_if(|open| open.session.end().is_cancelled());
        only.get_or_insert_with(|| self.open()).clone()
    }

    /// A session that has not ended.
    fn found(&self, name: &str) -> Option<Open> {
        let mut sessions = self.sessions.lock();
        sessions.retain(|_, open| !open.session.end().is_cancelled());
        sessions.get(name).cloned()
    }
}

impl Open {
    async fn take(&self, site: &Site, message: Value, headers: HeaderMap) -> Response {
        let (outlet, mut pieces) = Outlet::new();
        let gone = CancellationToken::new();
        let is_request = message.get("method").is_some() && message.get("id").is_some();
        let received = Received { message, headers: Some(headers), gone: gone.clone() };
        let session = Arc::clone(&self.session);
        let mut taking = session.take(received, outlet);
        if !is_request {
            if (&mut taking).now_or_never().is_none() {
                site.tasks.spawn(taking);
            }
            return match pieces.try_recv() {
                Ok(Piece::Answer(_, code)) => status(code.as_u16()),
                _ => status(202),
            };
        }
        let guard = gone.drop_guard();
        site.tasks.spawn(taking);
        if site.actor.streams_always() {
            return Exchange { pieces, guard, has_begun: false }.stream(None);
        }
        match pieces.recv().await {
            Some(Piece::Answer(bytes, status)) => {
                guard.disarm();
                let json = Response::builder().status(status).header("content-type", "application/json");
                json.body(Body::from(bytes)).unwrap()
            }
            first => Exchange { pieces, guard, has_begun: false }.stream(first),
        }
    }
}

impl Exchange {
    fn stream(self, first: Option<Piece>) -> Response {
        let rest = stream::unfold((Some(self), first), async |(exchange, first)| {
            let mut exchange = exchange?;
            let piece = match first {
                Some(piece) => Some(piece),
                None => exchange.pieces.recv().await,
            };
            let Some(piece) = piece else {
                exchange.guard.disarm();
                return None;
            };
            let is_last = matches!(piece, Piece::Answer(..));
            let (bytes, ends) = piece.into_bytes();
            let chunk = event(&bytes, (exchange.has_begun, ends));
            exchange.has_begun = !ends;
            if is_last {
                exchange.guard.disarm();
                return Some((chunk, (None, None)));
            }
            Some((chunk, (Some(exchange), None)))
        });
        events(rest)
    }
}

fn status(code: u16) -> Response {
    Response::builder().status(StatusCode::from_u16(code).unwrap()).body(Body::empty()).unwrap()
}

fn events(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let response = Response::builder().header("content-type", "text/event-stream").header("x-accel-buffering", "no");
    response.body(Body::from_stream(chunks.map(Ok::<_, Infallible>))).unwrap()
}

/// An event for each line, or for part of one.
fn event(bytes: &[u8], (has_begun, ends): (bool, bool)) -> Bytes {
    const BEGIN: &[u8] = b": \n\nevent: message\ndata: ";
    if has_begun || !ends {
        let begin: &[u8] = if has_begun { b"" } else { BEGIN };
        return [begin, bytes, if ends { b"\n\n" } else { b"" }].concat().into();
    }
    let events = bytes.split(|byte| *byte == b'\n').map(|line| [BEGIN, line, b"\n\n"].concat());
    events.collect::<Vec<_>>().concat().into()
}
