//! What the tests of this room share: scripted servers, and the gateway's side of them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, mpsc},
    time::Duration,
};

use bytes::Bytes;
use futures_util::StreamExt as _;
use lockkeeper::{
    backend::{BackendDeps, SlotLimits, Supervisor},
    mcp::{
        Call, CancelReason, Capabilities, ClientInfo, Context, ErrorObject, Event, Method, Notification, Outcome,
        Payload, Reply, Revision, Server,
        observer::{LifecycleEvent, Observer},
        translate::Profile,
    },
    model::{
        BackendId, BackendSpec, Caller, EraChoice, KnownEra, RequestNumber, Requester, SessionId, StdioSpec,
        TransportSpec, UserId,
    },
    support::{Clock, Digest, ManualClock},
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;

use crate::support::{is_a_start, strict};

/// How long a test waits for something that happens at once. It ends a hang: how fast the machine is, no test asks.
pub(crate) const SOON: Duration = Duration::from_mins(1);

/// The line below the last words of a program that fails: [`start`] sets a proxy that programs do not get.
pub(crate) const PROXY_ADVICE: &str = "http_proxy of the gateway's environment is not passed on: if the program needs the \
    network to start, add http_proxy = \"${http_proxy}\" to its `env`";

/// Scripted servers on stdio, and the files that they write.
pub(crate) struct Scripts(TempDir);

impl Scripts {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A backend of this name, which is the scripted server with these options.
    pub(crate) fn spec(&self, name: &str, options: &[&str]) -> BackendSpec {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/backend/server.py");
        let mut args = vec![script.to_owned(), self.path(name).display().to_string()];
        args.extend(options.iter().map(|option| (*option).to_owned()));
        let stdio = StdioSpec { command: "python3".to_owned(), args, env: BTreeMap::new(), cwd: None };
        let spec = BackendSpec::new(BackendId::parse(name).unwrap(), TransportSpec::Stdio(stdio));
        BackendSpec { era: EraChoice::Legacy, ..spec }
    }

    /// What the server of this name has read so far.
    pub(crate) fn log(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Waits until the server of this name has read something that contains `text`.
    pub(crate) async fn logged(&self, name: &str, text: &str) -> String {
        until(&format!("`{text}` in the log of `{name}`"), || Some(self.log(name)).filter(|log| log.contains(text)))
            .await
    }

    /// The number after `word` in the log of the server of this name.
    pub(crate) async fn number(&self, name: &str, word: &str) -> i32 {
        let log = self.logged(name, word).await;
        let line = log.lines().find_map(|line| line.strip_prefix(word)).unwrap();
        line.trim().parse().unwrap()
    }
}

impl Drop for Scripts {
    /// All that its servers got is held to the official schema of the version that it is in.
    fn drop(&mut self) {
        let files = fs::read_dir(self.0.path()).unwrap().map(|file| file.unwrap().path());
        // a pipe would be waited for
        for file in files.filter(|path| path.is_file()) {
            // what is no message is a note of the server's own
            let log = fs::read_to_string(file).unwrap_or_default();
            for message in log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
                if !std::thread::panicking() && message.is_object() {
                    // a request says itself that it is of 2026-07-28
                    let stated = &message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
                    let revision = stated.as_str().and_then(Revision::parse).unwrap_or(Revision::NEWEST_LEGACY);
                    strict::to_server(revision, None, &message).unwrap_or_else(|fault| panic!("{fault}"));
                }
            }
        }
    }
}

/// A pipe that a server waits at until the test writes into it.
pub(crate) fn mkfifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Waits until `probe` gives something. Other processes give no signal to wait for.
pub(crate) async fn until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + SOON;
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Time that stands still until a test advances it, also while servers are waited for. Not for [`until`].
pub(crate) struct HeldTime(
    #[expect(dead_code, reason = "dropping it ends the task that holds the time")] mpsc::Sender<()>,
);

impl Drop for HeldTime {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}

/// Holds the time. Tokio's paused clock would go on by itself as soon as all tasks wait for other processes.
pub(crate) fn hold_time() -> HeldTime {
    tokio::time::pause();
    let (held, released) = mpsc::channel();
    // it ends a hang, as the timeouts do then
    tokio::task::spawn_blocking(move || released.recv_timeout(SOON * 5));
    HeldTime(held)
}

/// Lets so much of a held time pass that whatever waits for `duration` is woken: timers count in whole milliseconds.
pub(crate) async fn pass(duration: Duration) {
    tokio::time::advance(duration + Duration::from_millis(1)).await;
}

pub(crate) fn start(specs: Vec<BackendSpec>) -> Supervisor {
    start_knowing(specs, Vec::new(), Arc::new(ManualClock::default()))
}

/// The same with what was found out about eras before, at this time.
pub(crate) fn start_knowing(specs: Vec<BackendSpec>, eras: Vec<KnownEra>, clock: Arc<dyn Clock>) -> Supervisor {
    start_observed(specs, eras, clock, Observer::none())
}

#[expect(clippy::disallowed_methods, reason = "the test stands for `config` here")]
fn start_observed(
    specs: Vec<BackendSpec>,
    eras: Vec<KnownEra>,
    clock: Arc<dyn Clock>,
    observer: Observer,
) -> Supervisor {
    let path = std::env::var("PATH").unwrap_or_default();
    // the proxy is not there: loopback addresses must be reached without it
    let proxy = "http://127.0.0.1:1";
    let environment = [("PATH", path.as_str()), ("HOME", "/tmp"), ("LOCKKEEPER_SECRET", "x"), ("http_proxy", proxy)];
    let deps = BackendDeps {
        sessions: 64,
        slot_limits: SlotLimits::default(),
        clock,
        eras,
        observer,
        environment: environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        shutdown: CancellationToken::new(),
    };
    Supervisor::start(specs, deps).unwrap()
}

/// One started backend, ready or not.
pub(crate) async fn started(spec: BackendSpec) -> (Supervisor, Arc<dyn Server>) {
    let supervisor = start(vec![spec]);
    assert!(supervisor.ready(SOON).await, "the backend has not settled");
    let server = supervisor.servers().remove(0).1;
    (supervisor, server)
}

/// The same, and the client sessions that it loses.
pub(crate) async fn started_and_lost(spec: BackendSpec) -> (Supervisor, Arc<dyn Server>, UnboundedReceiver<SessionId>) {
    let (sender, lost) = unbounded_channel();
    let observer = Observer::new(move |event| {
        if let LifecycleEvent::SessionLost(session) = event {
            let _ = sender.send(session.clone());
        }
    });
    let supervisor = start_observed(vec![spec], Vec::new(), Arc::new(ManualClock::default()), observer);
    assert!(supervisor.ready(SOON).await, "the backend has not settled");
    let server = supervisor.servers().remove(0).1;
    (supervisor, server, lost)
}

/// The gateway itself, asking.
pub(crate) fn gateway() -> Context {
    context(Requester::Gateway, "{}")
}

/// A client's session with these capabilities.
pub(crate) fn client(session: &str, capabilities: &'static str) -> Context {
    context(Requester::Session(SessionId::new(session)), capabilities)
}

/// A request without a session, known by a name.
pub(crate) fn request(name: &str) -> Requester {
    let digest = Digest::sha256(name);
    let bytes = digest.as_bytes().first_chunk().copied().unwrap();
    Requester::Request(RequestNumber::new(u64::from_be_bytes(bytes)))
}

/// A session of this user's client, with these capabilities.
pub(crate) fn person(user: &str, session: &str, capabilities: &'static str) -> Context {
    let caller = Caller { user: UserId::new(user), ..Caller::gateway() };
    Context { caller: Arc::new(caller), ..client(session, capabilities) }
}

/// The same client in an older version, which has no tasks.
pub(crate) fn without_tasks(context: Context) -> Context {
    let client = ClientInfo { revision: Revision::V2025_06_18, ..ClientInfo::clone(&context.client) };
    Context { client: Arc::new(client), ..context }
}

fn context(requester: Requester, capabilities: &'static str) -> Context {
    let client = ClientInfo {
        revision: Revision::NEWEST_LEGACY,
        implementation: Bytes::from_static(br#"{"name":"tester","version":"1.0"}"#),
        capabilities: Capabilities::new(Bytes::from_static(capabilities.as_bytes())),
    };
    Context {
        caller: Arc::new(Caller::gateway()),
        requester,
        mirror: None,
        client: Arc::new(client),
        profile: Profile::default(),
        cancel_reason: CancelReason::default(),
        revoked: None,
    }
}

pub(crate) fn call(server: &Arc<dyn Server>, context: Context, method: Method, params: &Value) -> Reply {
    let params = if params.is_null() {
        Payload::absent(Revision::NEWEST_LEGACY)
    } else {
        Payload::of(Revision::NEWEST_LEGACY, params)
    };
    server.call(Call { method, params, context })
}

pub(crate) fn tool(server: &Arc<dyn Server>, context: Context, params: &Value) -> Reply {
    call(server, context, Method::ToolsCall, params)
}

/// The result of a call, as it was written.
pub(crate) async fn result(reply: Reply) -> String {
    match tokio::time::timeout(SOON, reply.outcome()).await.expect("an outcome") {
        Outcome::Complete(payload) => String::from_utf8(payload.json().to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The text that a tool gave.
pub(crate) async fn text(reply: Reply) -> String {
    let result: Value = serde_json::from_str(&result(reply).await).unwrap();
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

pub(crate) async fn failure(reply: Reply) -> ErrorObject {
    match tokio::time::timeout(SOON, reply.outcome()).await.expect("an outcome") {
        Outcome::Failed(error) => error,
        other => panic!("{other:?}"),
    }
}

/// The next event of a reply, which stays alive. That the server is still starting is passed over.
pub(crate) async fn next(reply: &mut Reply) -> Event {
    loop {
        let event = tokio::time::timeout(SOON, reply.next()).await.expect("an event in time").expect("an event");
        let starts = |told: &Notification| told.params.view().is_some_and(|params: Value| is_a_start(&params));
        if !matches!(&event, Event::Notified(told) if starts(told)) {
            return event;
        }
    }
}
