//! Scripted servers in this process, on HTTP and, through a program that does nothing but carry bytes, on stdio. What a
//! [`Plan`] does not answer, and everything that is no request, is the test's to see and to answer.

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
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::post,
};
use futures_util::{Stream, StreamExt as _, stream};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
    task::JoinSet,
};

use super::plan::{Plan, Said};

/// Carries the bytes of its standard input and output to and from a server in this process.
pub(super) const BRIDGE: &str = r#"
import os, socket, sys, threading
link = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
link.sendall(sys.argv[2].encode() + b"\n")
def up():
    while data := os.read(0, 65536):
        link.sendall(data)
    link.shutdown(socket.SHUT_WR)
threading.Thread(target=up, daemon=True).start()
while data := link.recv(65536):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
"#;

/// The servers, each under its name. They end with it.
pub(super) struct Servers {
    pub(super) http: u16,
    pub(super) lines: u16,
    _tasks: JoinSet<()>,
}

/// Something that a server got.
#[derive(Debug)]
pub(super) enum Came {
    Message(Heard),
    /// A connection, or a session, was ended.
    Closed,
}

/// A message of the gateway's.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) message: Value,
    /// None on stdio.
    pub(super) headers: Option<HeaderMap>,
    /// To the exchange on which it came: a line for each message, written at once.
    pub(super) here: UnboundedSender<String>,
    /// Outside of any exchange.
    pub(super) aside: Aside,
}

/// Where a server says what belongs to no exchange.
#[derive(Debug, Clone)]
pub(super) enum Aside {
    /// The standalone stream of a session.
    Session(UnboundedSender<String>),
    /// The listens that are open (2026-07-28).
    Listens(Listens),
    /// A server without sessions has no stream that is nobody's.
    Nowhere,
}

/// The listens at one server: the id of each, and its stream.
pub(super) type Listens = Arc<Mutex<Vec<(Value, UnboundedSender<String>)>>>;

struct Scripted {
    plan: Plan,
    came: UnboundedSender<Came>,
    listens: Listens,
}

/// What all servers share.
#[derive(Clone)]
struct Site {
    servers: Arc<HashMap<String, Scripted>>,
    sessions: Arc<Mutex<HashMap<String, Session>>>,
    last: Arc<AtomicU64>,
}

/// A session of HTTP: its standalone stream, until somebody reads it.
struct Session {
    aside: UnboundedSender<String>,
    unread: Option<UnboundedReceiver<String>>,
}

// === impl Servers ===

impl Servers {
    /// Begins to serve; what comes is told per name.
    pub(super) async fn start(plans: Vec<(String, Plan)>) -> (Self, HashMap<String, UnboundedReceiver<Came>>) {
        let (mut servers, mut came) = (HashMap::new(), HashMap::new());
        for (name, plan) in plans {
            let (sender, receiver) = mpsc::unbounded_channel();
            came.insert(name.clone(), receiver);
            servers.insert(name, Scripted { plan, came: sender, listens: Listens::default() });
        }
        let site = Site { servers: Arc::new(servers), sessions: Arc::default(), last: Arc::default() };
        let http = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let lines = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ports = (http.local_addr().unwrap().port(), lines.local_addr().unwrap().port());
        let mut tasks = JoinSet::new();
        let router = Router::new().route("/{name}", post(posted).get(opened).delete(ended)).with_state(site.clone());
        tasks.spawn(async move { axum::serve(http, router).await.unwrap() });
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((link, _)) = lines.accept().await {
                connections.spawn(connected(site.clone(), link));
            }
        });
        (Self { http: ports.0, lines: ports.1, _tasks: tasks }, came)
    }
}

// === impl Scripted ===

impl Scripted {
    /// Tells the test, and gives what is planned to be said.
    fn hear(&self, heard: Heard) -> Said {
        let Heard { message, here, .. } = &heard;
        if message["params"]["ref"]["name"] == "lockkeeper-probe" {
            // asked by the gateway, of servers whose version has no word for it
            let error = json!({ "code": -32601, "message": "Method not found" });
            return Said::Answer(200, json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }).to_string());
        }
        let said = self.plan.respond(message);
        if let Said::Opens(first) = &said {
            let _ = here.send(first.clone());
            let mut listens = self.listens.lock();
            listens.retain(|(_, stream)| !stream.is_closed());
            listens.push((message["id"].clone(), here.clone()));
        }
        let _ = self.came.send(Came::Message(heard));
        said
    }
}

/// A process of stdio, which says first whose it is.
async fn connected(site: Site, link: TcpStream) {
    let (read, mut write) = link.into_split();
    let mut lines = BufReader::new(read).lines();
    let Ok(Some(name)) = lines.next_line().await else { return };
    let server = &site.servers[&name];
    let (say, mut said) = mpsc::unbounded_channel::<String>();
    let aside =
        if server.plan.is_modern() { Aside::Listens(Arc::clone(&server.listens)) } else { Aside::Session(say.clone()) };
    let listen = async {
        while let Ok(Some(line)) = lines.next_line().await {
            let message = serde_json::from_str(&line).unwrap();
            let heard = Heard { message, headers: None, here: say.clone(), aside: aside.clone() };
            match server.hear(heard) {
                Said::Answer(_, answer) => drop(say.send(answer)),
                Said::Ends => return,
                Said::Opens(_) | Said::Nothing => {}
            }
        }
    };
    let speak = async {
        while let Some(message) = said.recv().await {
            let _ = write.write_all(format!("{message}\n").as_bytes()).await;
        }
    };
    tokio::select! {
        () = listen => {}
        () = speak => {}
    }
    let _ = site.servers[&name].came.send(Came::Closed);
}

async fn posted(State(site): State<Site>, Path(name): Path<String>, headers: HeaderMap, body: Bytes) -> Response {
    let Some(server) = site.servers.get(&name) else { return StatusCode::NOT_FOUND.into_response() };
    let message: Value = serde_json::from_slice(&body).unwrap();
    let opens = message["method"] == "initialize" && server.plan.has_session_id();
    let session = if opens { Some(site.open()) } else { id(&headers) };
    let aside = match &session {
        Some(_) if !opens && !server.plan.has_session_id() => return StatusCode::BAD_REQUEST.into_response(),
        None if !server.plan.is_modern() && !server.plan.has_session_id() => Some(Aside::Nowhere),
        _ if server.plan.is_modern() || message["method"] == "server/discover" => {
            Some(Aside::Listens(Arc::clone(&server.listens)))
        }
        Some(id) => site.sessions.lock().get(id).map(|session| Aside::Session(session.aside.clone())),
        None => None,
    };
    let Some(aside) = aside else { return StatusCode::NOT_FOUND.into_response() };
    let is_request = message.get("method").is_some() && message.get("id").is_some();
    let (here, said) = mpsc::unbounded_channel();
    let mut response = match server.hear(Heard { message, headers: Some(headers), here, aside }) {
        Said::Answer(status, answer) => {
            let status = StatusCode::from_u16(status).unwrap();
            (status, [("content-type", "application/json")], answer).into_response()
        }
        Said::Ends => StatusCode::BAD_GATEWAY.into_response(),
        Said::Opens(_) | Said::Nothing if is_request => events(said),
        Said::Opens(_) | Said::Nothing => StatusCode::ACCEPTED.into_response(),
    };
    if opens && let Some(id) = session {
        response.headers_mut().insert("mcp-session-id", id.parse().unwrap());
    }
    response
}

async fn opened(State(site): State<Site>, headers: HeaderMap) -> Response {
    let mut sessions = site.sessions.lock();
    match id(&headers).and_then(|id| sessions.get_mut(&id)?.unread.take()) {
        Some(said) => events(said),
        None => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

async fn ended(State(site): State<Site>, Path(name): Path<String>, headers: HeaderMap) -> StatusCode {
    let _ = site.servers[&name].came.send(Came::Closed);
    id(&headers).map(|id| site.sessions.lock().remove(&id));
    StatusCode::NO_CONTENT
}

fn id(headers: &HeaderMap) -> Option<String> {
    Some(headers.get("mcp-session-id")?.to_str().unwrap().to_owned())
}

fn events(said: UnboundedReceiver<String>) -> Response {
    ([("content-type", "text/event-stream")], Body::from_stream(written(said))).into_response()
}

fn written(said: UnboundedReceiver<String>) -> impl Stream<Item = Result<String, Infallible>> {
    let messages = stream::unfold(said, async |mut said| said.recv().await.map(|messages| (messages, said)));
    messages.map(|messages| {
        let events = messages.lines().map(|message| format!("event: message\ndata: {message}\n\n"));
        Ok(events.collect::<String>())
    })
}

// === impl Aside ===

impl Aside {
    /// Says it on the standalone stream, or on every listen under its id; how many hear it.
    pub(super) fn say(&self, message: &Value) -> usize {
        match self {
            Self::Nowhere => 0,
            Self::Session(stream) => usize::from(stream.send(message.to_string()).is_ok()),
            Self::Listens(listens) => {
                let listens = listens.lock();
                let heard = listens.iter().filter(|(id, stream)| {
                    let mut message = message.clone();
                    message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] = id.clone();
                    stream.send(message.to_string()).is_ok()
                });
                heard.count()
            }
        }
    }
}

// === impl Site ===

impl Site {
    /// A fresh session, and its id.
    fn open(&self) -> String {
        let id = format!("S{}", self.last.fetch_add(1, Ordering::Relaxed));
        let (aside, unread) = mpsc::unbounded_channel();
        self.sessions.lock().insert(id.clone(), Session { aside, unread: Some(unread) });
        id
    }
}
