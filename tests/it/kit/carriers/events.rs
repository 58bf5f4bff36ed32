//! HTTP+SSE (2024-11-05): one event stream for each client, which posts its messages to the address in the first event.

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
use futures_util::{FutureExt as _, StreamExt as _, stream};
use parking_lot::Mutex;
use tokio::net::TcpListener;

use super::{Actor, Session, Tasks, deliver};
use crate::kit::outlet::{Outlet, Piece, Pieces};

struct Site {
    actor: Arc<dyn Actor>,
    tasks: Tasks,
    last: AtomicU64,
    open: Mutex<HashMap<String, Open>>,
}

/// A session, and its stream.
type Open = (Arc<dyn Session>, Outlet);

/// A client's stream, and the end of its session.
struct Events {
    site: Arc<Site>,
    number: String,
    session: Arc<dyn Session>,
    pieces: Pieces,
    has_begun: bool,
}

pub(super) async fn serve(listener: TcpListener, actor: Arc<dyn Actor>, tasks: Tasks) {
    let site = Site { actor, tasks, last: AtomicU64::new(0), open: Mutex::default() };
    axum::serve(listener, Router::new().fallback(answer).with_state(Arc::new(site))).await.unwrap();
}

async fn answer(State(site): State<Arc<Site>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if let Err(status) = site.actor.admit(&parts) {
        return Response::builder().status(status).body(Body::empty()).unwrap();
    }
    if parts.method == http::Method::GET {
        return opened(site);
    }
    let session = parts.uri.query().and_then(|query| query.strip_prefix("session=")).unwrap_or_default().to_owned();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let found = site.open.lock().get(&session).cloned();
    let status = match found {
        Some((session, outlet)) => {
            if !session.is_deaf() {
                deliver(&session, &body, (&outlet, &site.tasks)).now_or_never();
            }
            202
        }
        None => 404,
    };
    Response::builder().status(status).body(Body::empty()).unwrap()
}

fn opened(site: Arc<Site>) -> Response {
    let (outlet, pieces) = Outlet::new();
    let session = site.actor.open(outlet.clone());
    let number = site.last.fetch_add(1, Ordering::Relaxed).to_string();
    site.open.lock().insert(number.clone(), (Arc::clone(&session), outlet));
    let first = Bytes::from(format!("event: endpoint\ndata: messages?session={number}\n\n"));
    let events = Events { site, number, session, pieces, has_begun: false };
    let rest = stream::unfold(events, async |mut events| {
        let piece = tokio::select! {
            biased;
            piece = events.pieces.recv() => piece?,
            () = events.session.end().cancelled() => return None,
        };
        Some((events.bytes(piece), events))
    });
    let chunks = stream::iter([first]).chain(rest).map(Ok::<_, Infallible>);
    Response::builder()
        .header("content-type", "text/event-stream; charset=utf-8")
        .body(Body::from_stream(chunks))
        .unwrap()
}

impl Events {
    fn bytes(&mut self, piece: Piece) -> Bytes {
        if let Piece::Raw(bytes) = piece {
            return bytes;
        }
        let (bytes, ends) = piece.into_bytes();
        let begin: &[u8] = if self.has_begun { b"" } else { b"event: message\ndata: " };
        self.has_begun = !ends;
        [begin, &bytes, if ends { b"\n\n" } else { b"" }].concat().into()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.site.open.lock().remove(&self.number);
        self.session.end().cancel();
        self.session.closed();
    }
}
