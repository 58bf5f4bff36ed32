//! A server over plain HTTP that answers as its script says: with a response, or with bytes that need not be one.
//! Anything that the script leaves out is answered as by a plain MCP server with sessions. At its end, all messages
//! that it received are validated against the official schema of their version.

mod connection;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http::{HeaderMap, Method as Verb};
use lockkeeper::{
    mcp::Revision,
    model::{BackendId, BackendSpec, EraChoice, HttpSpec, TransportSpec},
    support::Secret,
};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
    task::JoinSet,
    time::timeout,
};

use crate::support::strict;

pub(crate) use self::connection::{Body, Response, Step};

/// Limit that ends a hang.
const SOON: Duration = Duration::from_mins(1);
/// The credentials that [`Peer::http`] configures.
pub(crate) const CONFIGURED: &str = "Bearer configured";

/// The server, which listens until it is dropped.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    inner: Arc<Inner>,
    _served: JoinSet<()>,
}

/// A request that the server received.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) verb: Verb,
    pub(crate) headers: HeaderMap,
    /// The message; null if there is none, or it does not parse.
    pub(crate) body: Value,
    /// The raw body.
    pub(crate) text: Bytes,
}

type Script = Box<dyn Fn(&Seen) -> Option<Answer> + Send + Sync>;

enum Answer {
    Response(Response),
    /// Bytes written in place of a response.
    Raw(Vec<Step>),
}

struct Inner {
    seen: watch::Sender<Vec<Seen>>,
    sessions: AtomicUsize,
    script: Script,
    /// Closed once GET requests are answered.
    streams: Semaphore,
}

// === impl Peer ===

impl Peer {
    pub(crate) async fn start(script: impl Fn(&Seen) -> Option<Response> + Send + Sync + 'static) -> Self {
        let peer = Self::start_without_streams(script).await;
        peer.answer_streams();
        peer
    }

    /// Like [`Peer::start`], but answers GET requests only after [`Peer::answer_streams`].
    pub(crate) async fn start_without_streams(
        script: impl Fn(&Seen) -> Option<Response> + Send + Sync + 'static,
    ) -> Self {
        Self::listen(Box::new(move |seen| script(seen).map(Answer::Response))).await
    }

    /// Like [`Peer::start`], with a script that writes bytes.
    pub(crate) async fn start_raw(script: impl Fn(&Seen) -> Option<Vec<Step>> + Send + Sync + 'static) -> Self {
        let peer = Self::listen(Box::new(move |seen| script(seen).map(Answer::Raw))).await;
        peer.answer_streams();
        peer
    }

    async fn listen(script: Script) -> Self {
        let (seen, sessions, streams) = (watch::Sender::default(), AtomicUsize::new(0), Semaphore::new(0));
        let inner = Arc::new(Inner { seen, sessions, script, streams });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = Arc::clone(&inner);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let inner = Arc::clone(&served);
                connections.spawn(async move { drop(connection::serve(stream, &inner).await) });
            }
        });
        Self { address, inner, _served: task }
    }

    /// Answers every GET request from now on.
    pub(crate) fn answer_streams(&self) {
        self.inner.streams.close();
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Its transport, with credentials.
    pub(crate) fn http(&self) -> HttpSpec {
        let headers = BTreeMap::from([("Authorization".to_owned(), Secret::new(CONFIGURED))]);
        HttpSpec { headers, ..HttpSpec::new(self.url().parse().unwrap()) }
    }

    /// The server `docs` over Streamable HTTP, with sessions.
    pub(crate) fn spec(&self) -> BackendSpec {
        let spec = BackendSpec::new(BackendId::parse("docs").unwrap(), TransportSpec::Http(self.http()));
        BackendSpec { era: EraChoice::Legacy, ..spec }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.inner.seen.borrow().clone()
    }

    /// The requests with this JSON-RPC method.
    pub(crate) fn seen_of(&self, method: &str) -> Vec<Seen> {
        self.inner.seen.borrow().iter().filter(|seen| seen.method() == method).cloned().collect()
    }

    /// The first request with this JSON-RPC method, once it arrives.
    pub(crate) async fn saw(&self, method: &str) -> Seen {
        let find = |all: &Vec<Seen>| all.iter().find(|seen| seen.method() == method).cloned();
        let mut seen = self.inner.seen.subscribe();
        let came = timeout(SOON, seen.wait_for(|all| find(all).is_some())).await;
        find(&came.unwrap_or_else(|_| panic!("{method} did not come")).unwrap()).unwrap()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        for Seen { headers, body, .. } in self.inner.seen.borrow().iter() {
            // without the header: an older version, or the handshake
            let version = headers.get("mcp-protocol-version").and_then(|version| version.to_str().ok());
            let version = version.and_then(Revision::parse).unwrap_or(Revision::ASSUMED);
            if !std::thread::panicking() && !body.is_null() {
                strict::to_server(version, None, body).unwrap_or_else(|fault| panic!("{fault}"));
            }
        }
    }
}

// === impl Seen ===

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

// === impl Inner ===

impl Inner {
    async fn answer(&self, seen: Seen) -> Answer {
        self.seen.send_modify(|all| all.push(seen.clone()));
        if seen.verb == Verb::GET {
            // fails once it is closed
            let _ = self.streams.acquire().await;
        }
        (self.script)(&seen).unwrap_or_else(|| Answer::Response(self.plain(&seen)))
    }

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

pub(crate) fn named(name: &str) -> Value {
    json!({ "name": name })
}

pub(crate) fn status(code: u16) -> Response {
    http::Response::builder().status(code).body(Body::empty()).unwrap()
}

/// A response with this media type.
pub(crate) fn typed(kind: &str, body: Body) -> Response {
    http::Response::builder().header("content-type", kind).body(body).unwrap()
}

pub(crate) fn reply(message: &Value) -> Response {
    json_of(message.to_string())
}

/// A response with this text, which need not be JSON.
pub(crate) fn json_of(text: String) -> Response {
    typed("application/json; charset=utf-8", Body::from(text))
}

pub(crate) fn event(message: &Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}

/// A whole stream of these events.
pub(crate) fn events(text: String) -> Response {
    typed("text/event-stream", Body::from(text))
}

/// A stream of these events that stays open.
pub(crate) fn open_events(text: String) -> Response {
    streamed(stream::iter([text]).chain(stream::pending()))
}

/// A stream of events as they arrive.
pub(crate) fn streamed(events: impl Stream<Item = String> + Send + 'static) -> Response {
    typed("text/event-stream", Body::from_stream(events.map(Ok)))
}
