//! The transports of scripted servers: each carries messages between a client and an [`Actor`].

mod events;
mod lines;
mod streamable;
mod websocket;

use std::{fmt::Write as _, net::SocketAddr, path::PathBuf, sync::Arc};

use axum::{Router, extract::Request, response::Response};
use futures_util::future::BoxFuture;
use http::{HeaderMap, StatusCode, request::Parts};
use lockkeeper::model::{HttpSpec, SocketAddress, StdioSpec, TransportSpec};
use parking_lot::Mutex;
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    net::{TcpListener, UnixListener},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use self::lines::Peers;
use super::{outlet::Outlet, relay};

pub(crate) use super::relay::{Process, Program};

/// A server, independent of its transport.
pub(crate) trait Actor: Send + Sync + 'static {
    /// Begins a session with a client; `aside` takes messages that belong to no request.
    fn open(&self, aside: Outlet) -> Arc<dyn Session>;

    /// Begins a session with a client of its program, run by this process.
    fn open_program(&self, process: Process, aside: Outlet) -> Arc<dyn Session> {
        let _ = process;
        self.open(aside)
    }

    /// True if clients over Streamable HTTP have sessions; otherwise they all share one.
    fn has_sessions(&self) -> bool;

    /// True if even a single answer over Streamable HTTP is a stream.
    fn streams_always(&self) -> bool {
        self.has_sessions()
    }

    /// Checks an HTTP request before it is read; refuses it with a status.
    fn admit(&self, _: &Parts) -> Result<(), StatusCode> {
        Ok(())
    }

    /// Behaviour of its program on stdio.
    fn program(&self) -> Program {
        Program::default()
    }
}

/// A session of a server with one client.
pub(crate) trait Session: Send + Sync + 'static {
    /// Takes a message. Effects that must precede the next message happen at once; the future ends with the last of the
    /// others.
    fn take(self: Arc<Self>, received: Received, outlet: Outlet) -> BoxFuture<'static, ()>;

    /// Sees the raw line of a channel, before its message is taken.
    fn read(&self, line: &[u8]) {
        let _ = line;
    }

    /// Reports an HTTP request with a verb that this server lacks.
    fn misused(&self, verb: &str);

    /// Reports that the client has ended the session or its connection.
    fn closed(&self) {}

    /// True if it has stopped reading.
    fn is_deaf(&self) -> bool {
        false
    }

    /// Cancelled at the end of the session, by either side.
    fn end(&self) -> &CancellationToken;
}

/// A message to a server.
pub(crate) struct Received {
    pub(crate) message: Value,
    /// The headers of its HTTP request.
    pub(crate) headers: Option<HeaderMap>,
    /// Cancelled if the client closes that request early.
    pub(crate) gone: CancellationToken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    Stdio,
    Http,
    Sse,
    WebSocket,
    Unix,
    Tcp,
}

/// A server that listens until it is dropped.
pub(crate) struct Hosted {
    place: Place,
    tasks: Tasks,
}

/// A server over Streamable HTTP behind another server's port, which passes requests on to it.
pub(crate) struct Mounted {
    router: Router,
    tasks: Tasks,
}

/// The address of a server.
enum Place {
    Program { program: StdioSpec, _folder: TempDir },
    Socket { path: PathBuf, _folder: TempDir },
    Port(u16),
    Url(Carrier, String),
}

/// The tasks of a server.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<JoinSet<()>>>);

// === impl Carrier ===

impl Carrier {
    /// The carrier with this name in the matrix and its configuration.
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "stdio" => Self::Stdio,
            "http" => Self::Http,
            "sse" => Self::Sse,
            "ws" => Self::WebSocket,
            "unix" => Self::Unix,
            _ => panic!("no carrier {name}"),
        }
    }
}

// === impl Hosted ===

impl Hosted {
    /// Starts listening. Needs the test's runtime.
    pub(crate) fn start(carrier: Carrier, actor: Arc<dyn Actor>) -> Self {
        let tasks = Tasks::default();
        let place = match carrier {
            Carrier::Stdio | Carrier::Unix => {
                let folder = TempDir::new().unwrap();
                let path = folder.path().join("socket");
                let program = relay::program(&path, &actor.program());
                let peers = if carrier == Carrier::Stdio { Peers::Programs } else { Peers::Clients };
                tasks.spawn(lines::serve(UnixListener::bind(&path).unwrap(), peers, actor, tasks.clone()));
                match carrier {
                    Carrier::Stdio => Place::Program { program, _folder: folder },
                    _ => Place::Socket { path, _folder: folder },
                }
            }
            Carrier::Tcp => {
                let (listener, address) = listener();
                tasks.spawn(lines::serve_tcp(listener, actor, tasks.clone()));
                Place::Port(address.port())
            }
            Carrier::Http => {
                let (listener, address) = listener();
                tasks.spawn(streamable::serve(listener, actor, tasks.clone()));
                Place::Url(carrier, format!("http://{address}/mcp"))
            }
            Carrier::Sse => {
                let (listener, address) = listener();
                tasks.spawn(events::serve(listener, actor, tasks.clone()));
                Place::Url(carrier, format!("http://{address}/sse"))
            }
            Carrier::WebSocket => {
                let (listener, address) = listener();
                tasks.spawn(websocket::serve(listener, actor, tasks.clone()));
                Place::Url(carrier, format!("ws://{address}/mcp"))
            }
        };
        Self { place, tasks }
    }

    /// The transport to it.
    pub(crate) fn transport(&self) -> TransportSpec {
        match &self.place {
            Place::Program { program, .. } => TransportSpec::Stdio(program.clone()),
            Place::Socket { path, .. } => TransportSpec::Socket(SocketAddress::Unix(path.clone())),
            Place::Port(port) => {
                TransportSpec::Socket(SocketAddress::Tcp { host: "localhost".to_owned(), port: *port })
            }
            Place::Url(carrier, url) => {
                let http = HttpSpec::new(url.parse().unwrap());
                match carrier {
                    Carrier::Sse => TransportSpec::Sse(http),
                    Carrier::WebSocket => TransportSpec::WebSocket(http),
                    Carrier::Stdio | Carrier::Http | Carrier::Unix | Carrier::Tcp => TransportSpec::Http(http),
                }
            }
        }
    }

    pub(crate) fn url(&self) -> &str {
        let Place::Url(_, url) = &self.place else { panic!("no server over HTTP") };
        url
    }

    /// The origin of a server over HTTP.
    pub(crate) fn origin(&self) -> &str {
        self.url().rsplit_once('/').unwrap().0
    }

    /// The same as lines of the server's section.
    pub(crate) fn lines(&self) -> String {
        let mut lines = String::new();
        match &self.place {
            Place::Program { program: StdioSpec { command, args, .. }, .. } => {
                writeln!(lines, "command = {command:?}\nargs = {args:?}").unwrap();
            }
            Place::Socket { path, .. } => writeln!(lines, "url = \"unix:{}\"", path.display()).unwrap(),
            Place::Port(port) => writeln!(lines, "url = \"tcp://localhost:{port}\"").unwrap(),
            Place::Url(_, url) => writeln!(lines, "url = {url:?}").unwrap(),
        }
        lines
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        self.tasks.0.lock().abort_all();
    }
}

// === impl Mounted ===

impl Mounted {
    pub(crate) fn new(actor: Arc<dyn Actor>) -> Self {
        let tasks = Tasks::default();
        Self { router: streamable::router(actor, tasks.clone()), tasks }
    }

    pub(crate) async fn answer(&self, request: Request) -> Response {
        self.router.clone().oneshot(request).await.unwrap()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.tasks.0.lock().abort_all();
    }
}

// === impl Tasks ===

impl Tasks {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    (TcpListener::from_std(listener).unwrap(), address)
}

/// Exchanges messages with a client on a channel until either side or the session ends. Messages sent before that end
/// are delivered first.
async fn converse(session: &Arc<dyn Session>, hear: impl Future<Output = ()>, say: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        () = say => {}
        () = hear => {}
        () = session.end().cancelled() => {}
    }
    session.end().cancel();
    session.closed();
}

/// Passes a line of a channel to the session; waits forever once the session has stopped reading.
async fn deliver(session: &Arc<dyn Session>, line: &[u8], (outlet, tasks): (&Outlet, &Tasks)) {
    heard(session).await;
    session.read(line);
    let message = serde_json::from_slice(line).unwrap();
    let received = Received { message, headers: None, gone: CancellationToken::new() };
    tasks.spawn(Arc::clone(session).take(received, outlet.clone()));
    heard(session).await;
}

async fn heard(session: &Arc<dyn Session>) {
    if session.is_deaf() {
        std::future::pending::<()>().await;
    }
}
