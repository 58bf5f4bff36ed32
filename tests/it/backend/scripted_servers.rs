//! Shared by the tests of this folder: scripted servers, and the gateway's side of them.

use std::{
    collections::BTreeMap,
    sync::{Arc, mpsc},
    time::Duration,
};

use bytes::Bytes;
use futures_util::StreamExt as _;
use lockkeeper::{
    backend::{BackendDeps, Supervisor},
    mcp::{
        Call, Capabilities, ClientInfo, Context, ErrorObject, Event, Method, Notification, Outcome, Payload, Reply,
        Revision, Server,
        observer::{LifecycleEvent, Observer},
    },
    model::{
        BackendId, BackendSpec, Caller, EraChoice, KnownEra, LimitsConfig, RequestNumber, Requester, ServerAccess,
        SessionId, UserId,
    },
    support::{Account, Clock, Digest, Fence, Latch, Live, ManualClock, MemoryBudget},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;

use crate::{
    kit::{
        carriers::{Actor, Program},
        programs::{Journal, ProgramServer},
        scripted::{Gate, Script, ScriptedServer},
    },
    support::{depends_on_speed, strict},
};

/// Time limit for something that happens at once. It ends a hang; tests do not depend on the speed of the machine.
pub(crate) const SOON: Duration = Duration::from_mins(1);

/// The advice below the last output of a failed program: [`start`] sets a proxy that programs do not get.
pub(crate) const PROXY_ADVICE: &str = "http_proxy of the gateway's environment is not passed on: if the program needs that \
    to start, add http_proxy = \"${http_proxy}\" to its `env`";

/// Scripted servers on stdio, with a journal for each name.
#[derive(Default)]
pub(crate) struct Scripts {
    servers: Mutex<Vec<ProgramServer>>,
    journals: Mutex<BTreeMap<String, Journal>>,
}

impl Scripts {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A backend with this name and the usual tools, which accepts every version with sessions.
    pub(crate) fn spec(&self, name: &str) -> BackendSpec {
        self.serve(name, everyday(Script::everyday()))
    }

    /// A backend with this name and this server, whose era is legacy.
    pub(crate) fn serve(&self, name: &str, server: impl Actor) -> BackendSpec {
        let server = ProgramServer::with_journal(server, self.journal(name));
        let spec = BackendSpec::new(BackendId::parse(name).unwrap(), server.transport());
        self.servers.lock().push(server);
        BackendSpec { era: EraChoice::Legacy, ..spec }
    }

    pub(crate) fn journal(&self, name: &str) -> Journal {
        self.journals.lock().entry(name.to_owned()).or_default().clone()
    }

    /// The input of the server with this name so far.
    pub(crate) fn log(&self, name: &str) -> String {
        self.journal(name).text()
    }

    /// Waits until the input of the server with this name contains `text`.
    pub(crate) async fn logged(&self, name: &str, text: &str) -> String {
        let journal = self.journal(name);
        let logged = tokio::time::timeout(SOON, journal.until(|log| log.contains(text))).await;
        logged.unwrap_or_else(|_| panic!("`{text}` did not come into the log of `{name}`"))
    }
}

impl Drop for Scripts {
    /// Validates all input of its servers against the official schema of its version.
    fn drop(&mut self) {
        for journal in self.journals.lock().values() {
            // a line that is no message is a note of the kit
            for message in journal.text().lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
                if !std::thread::panicking() && message.is_object() {
                    // a request of 2026-07-28 carries its version
                    let stated = &message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
                    let revision = stated.as_str().and_then(Revision::parse).unwrap_or(Revision::NEWEST_LEGACY);
                    strict::to_server(revision, None, &message).unwrap_or_else(|fault| panic!("{fault}"));
                }
            }
        }
    }
}

/// A server with sessions and this script, whose program says something when it dies.
pub(crate) fn everyday(script: Script) -> ScriptedServer {
    let program = Program { last_words: "last words".to_owned(), ..Program::default() };
    ScriptedServer::scripted(Revision::NEWEST_LEGACY, script).run_as(program)
}

/// The usual server, which speaks only this version.
pub(crate) fn speaking(version: &str) -> ScriptedServer {
    everyday(Script::everyday().greeting(&greeting_in(version)))
}

/// The result of a handshake in this version.
pub(crate) fn greeting_in(version: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": { "tools": { "listChanged": true }, "logging": {}, "tasks": {} },
        "serverInfo": { "name": "scripted", "version": "7" },
        "instructions": "Be kind.",
    })
}

/// The usual server, whose handshake waits at this gate.
pub(crate) fn gated(gate: &Gate) -> ScriptedServer {
    everyday(Script::everyday().first("initialize", json!(["gate"]))).behind(gate)
}

/// Polls until `probe` returns something, since other processes send no signal.
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

/// A clock that moves only when a test advances it, even while servers are awaited. Not for [`until`].
pub(crate) struct HeldTime(
    #[expect(dead_code, reason = "dropping it ends the task that holds the time")] mpsc::Sender<()>,
);

impl Drop for HeldTime {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}

/// Stops the clock. Tokio's paused clock would advance by itself as soon as all tasks wait for other processes.
pub(crate) fn hold_time() -> HeldTime {
    tokio::time::pause();
    let (held, released) = mpsc::channel();
    // ends a hang, since timeouts do not fire then
    tokio::task::spawn_blocking(move || released.recv_timeout(SOON * 5));
    HeldTime(held)
}

/// Advances a stopped clock enough to wake everything that waits for `duration`: timers count whole milliseconds.
pub(crate) async fn pass(duration: Duration) {
    tokio::time::advance(duration + Duration::from_millis(1)).await;
}

pub(crate) fn start(specs: Vec<BackendSpec>) -> Supervisor {
    start_knowing(specs, Vec::new(), Arc::new(ManualClock::default()))
}

/// Like [`start`], with eras that were detected before, at this time.
pub(crate) fn start_knowing(specs: Vec<BackendSpec>, eras: Vec<KnownEra>, clock: Arc<dyn Clock>) -> Supervisor {
    start_observed(specs, eras, clock, Observer::none())
}

/// Like [`start`], with this many processes that start at once.
pub(crate) fn start_in_turns(specs: Vec<BackendSpec>, parallel_starts: usize) -> Supervisor {
    let limits = LimitsConfig { parallel_starts: Some(parallel_starts), ..LimitsConfig::default() };
    start_with(specs, |deps| BackendDeps { limits: Live::new(limits), ..deps })
}

fn start_observed(
    specs: Vec<BackendSpec>,
    eras: Vec<KnownEra>,
    clock: Arc<dyn Clock>,
    observer: Observer,
) -> Supervisor {
    start_with(specs, |deps| BackendDeps { eras, clock, observer, ..deps })
}

/// Starts backends with dependencies that differ from the usual ones.
#[expect(clippy::disallowed_methods, reason = "the test stands for `config` here")]
pub(crate) fn start_with(specs: Vec<BackendSpec>, change: impl FnOnce(BackendDeps) -> BackendDeps) -> Supervisor {
    let path = std::env::var("PATH").unwrap_or_default();
    // the proxy does not exist: loopback addresses must be reached without it
    let proxy = "http://127.0.0.1:1";
    let environment = [("PATH", path.as_str()), ("HOME", "/tmp"), ("LOCKKEEPER_SECRET", "x"), ("http_proxy", proxy)];
    let deps = BackendDeps {
        signer: None,
        budget: MemoryBudget::unbounded(),
        limits: Live::new(LimitsConfig { parallel_starts: Some(64), ..LimitsConfig::default() }),
        access: ServerAccess::none(),
        clock: Arc::new(ManualClock::default()),
        eras: Vec::new(),
        observer: Observer::none(),
        fence: Fence::always_open(),
        sole_client: None,
        home: Latch::opened(),
        launcher: Some(env!("CARGO_BIN_EXE_lockkeeper").into()),
        environment: environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        shutdown: CancellationToken::new(),
    };
    Supervisor::start(specs, change(deps)).unwrap()
}

/// One started backend, ready or not.
pub(crate) async fn started(spec: BackendSpec) -> (Supervisor, Arc<dyn Server>) {
    let supervisor = start(vec![spec]);
    assert!(supervisor.ready(SOON).await, "the server has not settled");
    let server = supervisor.servers().remove(0).server;
    (supervisor, server)
}

/// Like [`started`], with the client sessions that it loses.
pub(crate) async fn started_and_lost(spec: BackendSpec) -> (Supervisor, Arc<dyn Server>, UnboundedReceiver<SessionId>) {
    let (sender, lost) = unbounded_channel();
    let observer = Observer::new(move |event| {
        if let LifecycleEvent::SessionLost(session) = event {
            let _ = sender.send(session.clone());
        }
    });
    let supervisor = start_observed(vec![spec], Vec::new(), Arc::new(ManualClock::default()), observer);
    assert!(supervisor.ready(SOON).await, "the server has not settled");
    let server = supervisor.servers().remove(0).server;
    (supervisor, server, lost)
}

/// The gateway as requester.
pub(crate) fn gateway() -> Context {
    context(Requester::Gateway, "{}")
}

/// A client session with these capabilities.
pub(crate) fn client(session: &str, capabilities: &'static str) -> Context {
    context(Requester::Session(SessionId::new(session)), capabilities)
}

/// A request without a session, identified by a name.
pub(crate) fn request(name: &str) -> Requester {
    let digest = Digest::sha256(name);
    let bytes = digest.as_bytes().first_chunk().copied().unwrap();
    Requester::Request(RequestNumber::new(u64::from_be_bytes(bytes)))
}

/// A session of this user's client with these capabilities.
pub(crate) fn person(user: &str, session: &str, capabilities: &'static str) -> Context {
    let caller = Caller { user: UserId::new(user), ..Caller::gateway() };
    Context { caller: Arc::new(caller), ..client(session, capabilities) }
}

/// The same client in an older version, without tasks.
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
    Context { requester, ..Context::of_gateway(client, Account::unbounded()) }
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

/// The result of a call, unparsed.
pub(crate) async fn result(reply: Reply) -> String {
    match tokio::time::timeout(SOON, reply.outcome()).await.expect("an outcome") {
        Outcome::Complete(payload) => String::from_utf8(payload.json().to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The rest of a reply to a subscription, which holds it.
pub(crate) async fn granted(reply: Reply) -> Reply {
    match tokio::time::timeout(SOON, reply.outcome_and_rest()).await.expect("an outcome") {
        (Outcome::Complete(payload), held) if payload.json() == "{}" => held,
        (other, _) => panic!("{other:?}"),
    }
}

/// The text in a tool's result.
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

/// The next event of a reply, which stays open. Progress about the start of the server is skipped.
pub(crate) async fn next(reply: &mut Reply) -> Event {
    loop {
        let event = tokio::time::timeout(SOON, reply.next()).await.expect("an event in time").expect("an event");
        let starts = |told: &Notification| told.params.view().is_some_and(|params: Value| depends_on_speed(&params));
        if !matches!(&event, Event::Notified(told) if starts(told)) {
            return event;
        }
    }
}
