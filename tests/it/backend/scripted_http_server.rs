//! A scripted server over HTTP. At its end, all messages that it got are validated against the official schema of its
//! version.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    response::Response,
};
use http::{HeaderMap, Method as Verb};
use lockkeeper::{
    mcp::Revision,
    model::{BackendId, BackendSpec, EraChoice, HttpSpec, TransportSpec},
    support::Secret,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::JoinSet};

use super::scripted_servers::until;
use crate::support::strict;

/// One request that the server got.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) verb: Verb,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

type Script = Box<dyn Fn(&Seen) -> Option<Response> + Send + Sync>;

/// A server that answers by its script, and otherwise like a plain server with sessions.
pub(crate) struct Peer {
    url: String,
    inner: Arc<Inner>,
    _task: JoinSet<()>,
}

struct Inner {
    seen: Mutex<Vec<Seen>>,
    sessions: AtomicUsize,
    script: Script,
    /// The number of further GET requests to answer; others wait.
    streams: Semaphore,
}

impl Peer {
    pub(crate) async fn start(script: impl Fn(&Seen) -> Option<Response> + Send + Sync + 'static) -> Self {
        let peer = Self::start_without_streams(script).await;
        peer.answer_streams();
        peer
    }

    /// Like [`Peer::start`], but answers no GET request before [`Peer::answer_streams`].
    pub(crate) async fn start_without_streams(
        script: impl Fn(&Seen) -> Option<Response> + Send + Sync + 'static,
    ) -> Self {
        let (seen, sessions, script, streams) =
            (Mutex::default(), AtomicUsize::new(0), Box::new(script), Semaphore::new(0));
        let inner = Arc::new(Inner { seen, sessions, script, streams });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let app = Router::new().fallback(serve).with_state(Arc::clone(&inner));
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, inner, _task: task }
    }

    /// Answers every GET request from now on.
    pub(crate) fn answer_streams(&self) {
        self.inner.streams.close();
    }

    pub(crate) fn spec(&self) -> BackendSpec {
        let headers = BTreeMap::from([("Authorization".to_owned(), Secret::new("Bearer configured"))]);
        let http = HttpSpec { headers, ..HttpSpec::new(self.url.parse().unwrap()) };
        let spec = BackendSpec::new(BackendId::parse("docs").unwrap(), TransportSpec::Http(http));
        BackendSpec { era: EraChoice::Legacy, ..spec }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.inner.seen.lock().clone()
    }

    /// The requests of this JSON-RPC method.
    pub(crate) fn seen_of(&self, method: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.method() == method).collect()
    }

    pub(crate) async fn saw(&self, method: &str) -> Seen {
        until(method, || self.seen_of(method).into_iter().next()).await
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        for Seen { headers, body, .. } in self.seen() {
            // without the header: an older version, or the handshake
            let version = headers.get("mcp-protocol-version").and_then(|version| version.to_str().ok());
            let version = version.and_then(Revision::parse).unwrap_or(Revision::ASSUMED);
            if !std::thread::panicking() && !body.is_null() {
                strict::to_server(version, None, &body).unwrap_or_else(|fault| panic!("{fault}"));
            }
        }
    }
}

impl Seen {
    pub(crate) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(crate) fn is_tool(&self, name: &str) -> bool {
        self.body["params"]["name"] == name
    }

    pub(crate) fn result(&self, result: &Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": self.body["id"], "result": result })
    }
}

async fn serve(State(inner): State<Arc<Inner>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let seen = Seen { verb: parts.method, headers: parts.headers, body };
    inner.seen.lock().push(seen.clone());
    if seen.verb == Verb::GET {
        // fails once it is closed
        let _ = inner.streams.acquire().await;
    }
    (inner.script)(&seen).unwrap_or_else(|| inner.plain(&seen))
}

impl Inner {
    fn plain(&self, seen: &Seen) -> Response {
        match (&seen.verb, seen.method()) {
            (&Verb::GET, _) => status(405),
            (&Verb::DELETE, _) => status(204),
            (_, "initialize") => {
                let number = self.sessions.fetch_add(1, Ordering::SeqCst) + 1;
                let mut response = reply(&seen.result(&greeting("2025-11-25")));
                response.headers_mut().insert("mcp-session-id", format!("s{number}").parse().unwrap());
                response
            }
            (_, "tools/call") => reply(&seen.result(&text_of(seen.header("mcp-session-id").unwrap_or("none")))),
            _ => status(202),
        }
    }
}

pub(crate) fn greeting(version: &str) -> Value {
    json!({ "protocolVersion": version, "capabilities": { "logging": {} }, "serverInfo": { "name": "scripted", "version": "7" } })
}

pub(crate) fn text_of(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

pub(crate) fn status(code: u16) -> Response {
    Response::builder().status(code).body(Body::empty()).unwrap()
}

pub(crate) fn reply(message: &Value) -> Response {
    let response = Response::builder().header("content-type", "application/json; charset=utf-8");
    response.body(Body::from(message.to_string())).unwrap()
}

pub(crate) fn events(text: String) -> Response {
    Response::builder().header("content-type", "text/event-stream").body(Body::from(text)).unwrap()
}

/// A stream of these events that stays open.
pub(crate) fn open_events(text: String) -> Response {
    use futures_util::{StreamExt as _, stream};
    let chunks = stream::iter([Ok::<_, std::io::Error>(text)]).chain(stream::pending());
    Response::builder().header("content-type", "text/event-stream").body(Body::from_stream(chunks)).unwrap()
}

pub(crate) fn event(message: &Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}

pub(crate) fn named(name: &str) -> Value {
    json!({ "name": name })
}
