//! HTTP+SSE (2024-11-05), with a scripted server: configured, and found in place of Streamable HTTP.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    response::Response,
};
use futures_util::{Stream, StreamExt as _, stream};
use http::{Method as Verb, StatusCode};
use lockkeeper::{
    mcp::{Event, Method},
    model::{BackendId, BackendSpec, HttpSpec, TransportSpec, status::BackendState},
    support::Secret,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    channel_script::{ScriptedEra, answers},
    scripted_http_server::named,
    scripted_servers::{client, failure, next, result, started, text, tool, until},
};

/// First bytes of a stream; the number of its session follows.
pub(super) const ENDPOINT: &str = "event: endpoint\ndata: /messages?session=";

/// A scripted server.
pub(super) struct Server {
    pub(super) url: String,
    inner: Arc<Inner>,
    _task: JoinSet<()>,
}

struct Inner {
    /// First bytes of each stream.
    greeting: String,
    /// Status of a POST to the URL of the stream.
    refusal: StatusCode,
    /// Number of requests with the configured credentials.
    authorized: AtomicUsize,
    /// Requests: verb, path, message.
    seen: Mutex<Vec<(Verb, String, Value)>>,
    /// The streams, by session.
    streams: Mutex<Vec<Option<mpsc::UnboundedSender<Bytes>>>>,
    /// True if it forgets the session of the next message.
    forgets: AtomicBool,
}

impl Server {
    pub(super) async fn start(greeting: &str, refusal: StatusCode) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/sse", listener.local_addr().unwrap());
        let (seen, streams, forgets) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        let authorized = AtomicUsize::new(0);
        let inner = Arc::new(Inner { greeting: greeting.to_owned(), refusal, authorized, seen, streams, forgets });
        let app = Router::new().fallback(serve).with_state(Arc::clone(&inner));
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, inner, _task: task }
    }

    fn spec(&self, transport: fn(HttpSpec) -> TransportSpec) -> BackendSpec {
        let headers = BTreeMap::from([("Authorization".to_owned(), Secret::new("Bearer configured"))]);
        let http = HttpSpec { headers, ..HttpSpec::new(self.url.parse().unwrap()) };
        BackendSpec::new(BackendId::parse("docs").unwrap(), transport(http))
    }

    fn count(&self, verb: &Verb, path: &str) -> usize {
        self.inner.seen.lock().iter().filter(|(seen, at, _)| seen == verb && at == path).count()
    }

    /// True if no request had credentials.
    pub(super) fn is_without_credentials(&self) -> bool {
        self.inner.authorized.load(Ordering::Acquire) == 0
    }

    fn methods(&self) -> Vec<String> {
        let seen = self.inner.seen.lock();
        seen.iter().filter_map(|(_, _, message)| message["method"].as_str()).map(str::to_owned).collect()
    }
}

async fn serve(State(inner): State<Arc<Inner>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let message: Value = serde_json::from_slice(&to_bytes(body, usize::MAX).await.unwrap()).unwrap_or_default();
    let is_authorized = parts.headers.get("authorization").is_some_and(|value| value == "Bearer configured");
    inner.authorized.fetch_add(usize::from(is_authorized), Ordering::AcqRel);
    let path = parts.uri.path_and_query().unwrap().to_string();
    inner.seen.lock().push((parts.method.clone(), path.clone(), message.clone()));
    let status = |status: StatusCode| Response::builder().status(status).body(Body::empty()).unwrap();
    match (&parts.method, path.as_str()) {
        (&Verb::GET, "/sse") => {
            let body = Body::from_stream(inner.open().map(Ok::<_, std::io::Error>));
            Response::builder().header("content-type", "text/event-stream; charset=utf-8").body(body).unwrap()
        }
        (&Verb::POST, "/sse") => status(inner.refusal),
        (&Verb::POST, path) => {
            let session = path.strip_prefix("/messages?session=").unwrap().parse().unwrap();
            if inner.forgets.swap(false, Ordering::AcqRel) {
                // its stream stays open, as behind a proxy
                return status(StatusCode::NOT_FOUND);
            }
            inner.answer(session, &message);
            status(StatusCode::ACCEPTED)
        }
        _ => status(StatusCode::NOT_FOUND),
    }
}

impl Inner {
    /// Opens a session.
    fn open(&self) -> impl Stream<Item = Bytes> + Send + use<> {
        let (sender, events) = mpsc::unbounded_channel();
        let mut streams = self.streams.lock();
        let has_endpoint = self.greeting == ENDPOINT;
        let end = if has_endpoint { format!("{}\n\n", streams.len()) } else { String::new() };
        sender.send(Bytes::from(format!("{}{end}", self.greeting))).unwrap();
        // without an endpoint the stream ends
        streams.push(has_endpoint.then_some(sender));
        stream::unfold(events, |mut events| async { Some((events.recv().await?, events)) })
    }

    /// Answers on the stream of the session.
    fn answer(&self, session: usize, message: &Value) {
        let send = |bytes: &[u8]| {
            if let Some(stream) = &self.streams.lock()[session] {
                let _ = stream.send(Bytes::copy_from_slice(bytes));
            }
        };
        let name = message["params"]["name"].as_str().unwrap_or_default();
        if name == "cut" {
            // a part of an event, then nothing
            send(b"data: {\"jsonrpc\":");
            self.streams.lock()[session] = None;
            return;
        }
        if name == "noise" {
            send("\u{feff}: a comment\n\nevent: ping\ndata: 1\n\ndata: no message\n\ndata:\n\n".as_bytes());
        }
        if name == "big" {
            let text = "x".repeat(10 << 20);
            let log = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "data": text } });
            send(format!("data: {log}\n\n").as_bytes());
        }
        for answer in answers(ScriptedEra::Legacy, message) {
            send(format!("event: message\r\ndata: {answer}\r\n\r\n").as_bytes());
        }
        if name == "flood" {
            send(b"data: ");
            for _ in 0..17 {
                send(&vec![b'x'; 1 << 20]);
            }
        }
    }

    /// The number of open streams.
    fn open_streams(&self) -> usize {
        self.streams.lock().iter().flatten().filter(|stream| !stream.is_closed()).count()
    }
}

#[tokio::test]
async fn a_session_lasts_as_long_as_its_stream() {
    let peer = Server::start(ENDPOINT, StatusCode::NOT_FOUND).await;
    let (supervisor, server) = started(peer.spec(TransportSpec::Sse)).await;
    let status = supervisor.status().remove(0);
    assert_eq!(status.state, BackendState::Ready);
    assert_eq!((status.transport.as_str(), status.protocol_version.as_deref()), ("http+sse", Some("2025-06-18")));
    let asked = json!({ "name": "x", "_meta": { "progressToken": "p" } });
    let mut reply = tool(&server, client("one", "{}"), &asked);
    let Event::Notified(told) = next(&mut reply).await else { panic!("progress comes first") };
    assert_eq!((told.method, told.params.string("progressToken").as_deref()), (Method::Progress, Some("p")));
    assert!(result(reply).await.contains("over a channel"));
    let mut reply = tool(&server, client("one", r#"{"elicitation":{}}"#), &named("ask"));
    let Event::Asked(question) = next(&mut reply).await else { panic!("the server asks") };
    assert_eq!(question.method, Method::Elicit);
    drop(reply);
    until("the cancellation", || peer.methods().contains(&"notifications/cancelled".to_owned()).then_some(())).await;
    assert_eq!(peer.inner.authorized.load(Ordering::Acquire), peer.inner.seen.lock().len());
    // nothing but the stream is asked of its own URL
    assert_eq!(peer.count(&Verb::POST, "/sse"), 0);
    supervisor.shutdown().await;
    until("the end of the streams", || (peer.inner.open_streams() == 0).then_some(())).await;
}

#[tokio::test]
async fn a_server_that_refuses_streamable_http_is_reached_over_its_stream() {
    for refusal in [StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED, StatusCode::BAD_REQUEST] {
        let peer = Server::start(ENDPOINT, refusal).await;
        let (supervisor, server) = started(peer.spec(TransportSpec::Http)).await;
        assert_eq!(supervisor.status()[0].transport, "http+sse");
        assert_eq!(text(tool(&server, client("one", "{}"), &named("x"))).await, "over a channel");
        assert_eq!(text(tool(&server, client("two", "{}"), &named("x"))).await, "over a channel");
        // the probe and one handshake; later sessions know
        assert_eq!(peer.count(&Verb::POST, "/sse"), 2, "{refusal}");
        supervisor.shutdown().await;
    }
}

#[tokio::test]
async fn credentials_and_load_are_no_reason_to_try_a_stream() {
    for refusal in [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS] {
        let peer = Server::start(ENDPOINT, refusal).await;
        let (supervisor, _server) = started(peer.spec(TransportSpec::Http)).await;
        assert!(matches!(supervisor.status()[0].state, BackendState::Failed { .. }), "{refusal}");
        assert_eq!(peer.count(&Verb::GET, "/sse"), 0, "{refusal}");
        supervisor.shutdown().await;
    }
}

#[tokio::test]
async fn messages_are_sent_to_no_other_origin() {
    for (greeting, reason) in [
        ("event: endpoint\ndata: http://127.0.0.2:1/messages\n\n", "wants messages at http://127.0.0.2:1"),
        ("event: endpoint\ndata: http://[\n\n", "holds no URI"),
        ("data: {}\n\n", ""),
    ] {
        let peer = Server::start(greeting, StatusCode::NOT_FOUND).await;
        let (supervisor, _server) = started(peer.spec(TransportSpec::Sse)).await;
        let BackendState::Failed { reason: told, .. } = supervisor.status()[0].state.clone() else {
            panic!("{greeting}: {:?}", supervisor.status()[0].state)
        };
        let expected = if reason.is_empty() { "without an `endpoint` event" } else { reason };
        assert!(told.contains(expected), "{told}");
        assert_eq!(peer.inner.seen.lock().iter().filter(|(verb, ..)| verb == Verb::POST).count(), 0);
        supervisor.shutdown().await;
    }
}

#[tokio::test]
async fn noise_on_the_stream_harms_no_call_and_large_events_arrive() {
    let peer = Server::start(ENDPOINT, StatusCode::NOT_FOUND).await;
    let (_supervisor, server) = started(peer.spec(TransportSpec::Sse)).await;
    for name in ["noise", "big", "x"] {
        assert_eq!(text(tool(&server, client("one", "{}"), &named(name))).await, "over a channel", "{name}");
    }
    assert_eq!(peer.count(&Verb::GET, "/sse"), 2, "the base session and one for the client");
}

#[tokio::test]
async fn a_lost_session_is_opened_again() {
    let peer = Server::start(ENDPOINT, StatusCode::NOT_FOUND).await;
    let (_supervisor, server) = started(peer.spec(TransportSpec::Sse)).await;
    let lost = failure(tool(&server, client("one", "{}"), &named("cut"))).await;
    assert!(lost.message().contains("was lost") && lost.may_pass(), "{lost}");
    assert!(String::from_utf8_lossy(lost.json()).contains(r#""retryable":false"#), "{lost}");
    assert_eq!(text(tool(&server, client("one", "{}"), &named("x"))).await, "over a channel");
    // a call that a forgotten session refuses did not run: it is repeated in a new one
    peer.inner.forgets.store(true, Ordering::Release);
    assert_eq!(text(tool(&server, client("one", "{}"), &named("x"))).await, "over a channel");
    until("the end of the forgotten session", || (peer.inner.open_streams() == 2).then_some(())).await;
    let _flooded = text(tool(&server, client("one", "{}"), &named("flood"))).await;
    until("the end of the flood", || (peer.inner.open_streams() == 1).then_some(())).await;
    assert_eq!(text(tool(&server, client("one", "{}"), &named("x"))).await, "over a channel");
    assert_eq!(peer.inner.open_streams(), 2);
}
