//! The `frontend` module, tested through its router in memory, with a scripted server.

mod ambiguous;
mod broken_streams;
mod deferred_requests;
mod extensions;
mod handshake;
mod http_sse;
mod isolation;
mod json_alone;
mod limits;
mod meant_transports;
mod memory;
mod modern;
mod pass_through;
mod reader;
mod response_form;
mod resumption;
mod returning_clients;
mod rounds;
mod server_requests;
mod session_settings;
mod sessions;
mod stdio;
mod streams;
mod websocket;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use axum::{Router, body::Body};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Method as Verb, Request, Response, StatusCode};
use lockkeeper::{
    crossing::{self, Crossing},
    frontend::{BehindEndpoint, Deps, EndpointServers, Frontend, FrontendSettings, Routes},
    mcp::{
        Call, ErrorObject, Event, Message, Method, Notification, Outcome, Payload, Reply, Revision, Server,
        ServerOrigin, ServerRequest, listen::Filter, observer::RequesterObserver,
    },
    model::{BackendId, Caller, ClientId, LimitsConfig, ReplicaNumber, Requester, Serves, Target, UserId},
    resource::{Authorized, StreamLease},
    storage::Storage,
    support::{Account, Fence, Live, ManualClock, MemoryBudget, SealingKey, SeededRandom},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, broadcast, mpsc};
use tower::ServiceExt as _;

use self::reader::{Events, Reader, body, text};

/// The frontend, and everything around it.
struct World {
    front: Frontend,
    crossing: Crossing,
    router: Router,
    server: Arc<Scripted>,
    clock: Arc<ManualClock>,
    fence: Fence,
    storage: Storage,
    /// Unbounded until a test bounds it.
    budget: MemoryBudget,
    ended: Arc<Mutex<Vec<Requester>>>,
}

/// A server whose tools act by their names.
struct Scripted {
    name: &'static str,
    calls: Mutex<Vec<Call>>,
    /// Permits for calls of `hold`.
    gate: Arc<Semaphore>,
    /// Ends of calls to `hold`: `done` or `dropped`.
    fates: mpsc::UnboundedSender<&'static str>,
    fate: tokio::sync::Mutex<mpsc::UnboundedReceiver<&'static str>>,
    /// Outcome of `server/discover`.
    start: Mutex<Start>,
    /// Its `DiscoverResult`, unless the default will do.
    about: Mutex<Option<&'static str>>,
    /// Notifications for listens.
    told: broadcast::Sender<(Method, Value)>,
    /// Events for the next listen, in their place.
    heard: Mutex<Option<mpsc::UnboundedReceiver<Event>>>,
    /// Events for calls of `talk`, by name.
    talks: Mutex<BTreeMap<String, mpsc::UnboundedSender<Event>>>,
    /// Replies to calls of `play`, prompts and reads, in order.
    plays: Mutex<VecDeque<Reply>>,
    /// The subscriptions whose replies somebody holds.
    held: Arc<Mutex<Vec<String>>>,
    /// The origin of its requests.
    origin: ServerOrigin,
}

/// Start of a server.
#[derive(Clone, Copy)]
enum Start {
    Ready,
    /// After a permit of the gate.
    Slow,
    Broken,
}

struct Fate(mpsc::UnboundedSender<&'static str>, &'static str);

/// One client.
#[derive(Clone)]
struct Client {
    router: Router,
    admission: Authorized,
    path: &'static str,
    session: Option<String>,
    version: Option<&'static str>,
    /// Its `User-Agent`.
    agent: Option<&'static str>,
    /// The event after which it resumes.
    last_event: Option<&'static str>,
    reader: Reader,
}

// === impl World ===

impl World {
    async fn new() -> Self {
        Self::with(settings()).await
    }

    async fn with(settings: FrontendSettings) -> Self {
        let storage = crate::support::empty_storage().await;
        Self::on(storage, Arc::new(ManualClock::default()), settings, 1)
    }

    fn on(storage: Storage, clock: Arc<ManualClock>, settings: FrontendSettings, seed: u64) -> Self {
        let server = Scripted::new("all");
        let ended = Arc::new(Mutex::new(Vec::new()));
        let git = BackendId::parse("git").unwrap();
        let deps = crossing::SuspensionDeps {
            clock: Arc::clone(&clock) as _,
            random: Arc::new(SeededRandom::new(seed + 100)),
            state_key: SealingKey::new([7; 32]),
            replica: ReplicaNumber::SOLE,
        };
        let crossing = Crossing::new(settings.limits.clone(), deps);
        let around = |target, server: Arc<Scripted>, behind| {
            let requests = crossing.around_endpoint(target, Arc::clone(&server) as _);
            Arc::new(EndpointServers { sessions: Arc::new(Repeated(Again(server))), requests, behind })
        };
        let routes = Routes {
            merged: around(Target::Merged, Arc::clone(&server), BehindEndpoint::Many),
            backends: BTreeMap::from([(
                git.clone(),
                around(Target::Backend(git), Scripted::new("git"), BehindEndpoint::One),
            )]),
        };
        let told = Arc::clone(&ended);
        let fence = Fence::always_open();
        let budget = MemoryBudget::unbounded();
        let deps = Deps {
            storage: storage.clone(),
            clock: Arc::clone(&clock) as _,
            random: Arc::new(SeededRandom::new(seed)),
            replica: ReplicaNumber::SOLE,
            fence: fence.clone(),
            budget: budget.clone(),
            observer: RequesterObserver::new(move |requester| told.lock().push(requester.clone())),
        };
        let front = Frontend::new(routes, settings, deps);
        Self { router: front.router(), front, crossing, server, clock, fence, storage, budget, ended }
    }

    /// The next process on the same store.
    fn restarted(&self) -> Self {
        Self::on(self.storage.clone(), Arc::clone(&self.clock), settings(), 2)
    }

    fn client(&self, user: &str) -> Client {
        let (router, admission) = (self.router.clone(), admission(user));
        let reader = Reader::default();
        Client { router, admission, path: "/mcp", session: None, version: None, agent: None, last_event: None, reader }
    }

    /// A client after the handshake.
    async fn ready(&self, user: &str, version: &'static str) -> Client {
        let mut client = self.client(user);
        client.open(version, json!({})).await;
        client
    }
}

/// The settings of a gateway without configuration.
fn settings() -> FrontendSettings {
    limited(LimitsConfig::default())
}

/// The same with other limits.
fn limited(limits: LimitsConfig) -> FrontendSettings {
    FrontendSettings::new(Live::new(limits), 20_000, BTreeSet::new(), Serves::BothEras)
}

fn admission(user: &str) -> Authorized {
    let caller = Caller { user: UserId::new(user), client: Some(ClientId::new("app")), ..Caller::gateway() };
    Authorized { caller: Arc::new(caller), lease: StreamLease { expires: None, revoked: Arc::default() } }
}

// === impl Scripted ===

impl Scripted {
    fn new(name: &'static str) -> Arc<Self> {
        let (fates, fate) = mpsc::unbounded_channel();
        Arc::new(Self {
            name,
            calls: Mutex::default(),
            gate: Arc::new(Semaphore::new(0)),
            fates,
            fate: tokio::sync::Mutex::new(fate),
            start: Mutex::new(Start::Ready),
            about: Mutex::default(),
            told: broadcast::channel(64).0,
            heard: Mutex::default(),
            talks: Mutex::default(),
            plays: Mutex::default(),
            held: Arc::default(),
            origin: ServerOrigin::new(BackendId::parse("b1").unwrap(), Account::unbounded()),
        })
    }

    /// The end of a call to `hold`.
    async fn fate(&self) -> &'static str {
        self.fate.lock().await.recv().await.unwrap()
    }

    /// Waits until `count` calls of `method` have arrived.
    async fn wait_for(&self, method: Method, count: usize) {
        while self.calls.lock().iter().filter(|call| call.method == method).count() < count {
            tokio::task::yield_now().await;
        }
    }

    /// Sends an event in the call of `talk` with this `name`.
    fn say(&self, name: &str, event: Event) {
        let _ = self.talks.lock()[name].send(event);
    }

    fn play(&self) -> Reply {
        self.plays.lock().pop_front().unwrap_or_else(|| Reply::failed(ErrorObject::internal("the play is over")))
    }

    fn discover(&self) -> Reply {
        let (start, gate) = (*self.start.lock(), Arc::clone(&self.gate));
        let result = json!({
            "supportedVersions": ["2026-07-28"],
            "capabilities": { "tools": { "listChanged": true }, "logging": {} },
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": self.name, "version": "1" } },
        });
        let result = match *self.about.lock() {
            Some(about) => Payload::new(Revision::V2026_07_28, about.into()),
            None => Payload::of(Revision::V2026_07_28, &result),
        };
        match start {
            Start::Ready => Reply::complete(result),
            Start::Slow => Reply::later(async move {
                gate.acquire_owned().await.unwrap().forget();
                Reply::complete(result)
            }),
            Start::Broken => Reply::failed(ErrorObject::internal("it does not start")),
        }
    }

    fn tool(&self, call: &Call) -> Reply {
        let params: Value = call.params.view().unwrap_or_default();
        let revision = call.params.revision;
        let said = json!({ "content": [], "said": params["arguments"]["say"] });
        let done = Event::Done(Outcome::Complete(Payload::of(revision, &said)));
        let progress = |params: &Value| {
            let token = &params["_meta"]["progressToken"];
            let params = Payload::of(revision, &json!({ "progressToken": token, "progress": 1 }));
            Event::Notified(Notification { method: Method::Progress, params })
        };
        match params["name"].as_str().unwrap_or_default() {
            "echo" => Reply::new(stream::iter([done])),
            "fail" => Reply::failed(ErrorObject::invalid_params("no such tool")),
            "progress" => Reply::new(stream::iter([progress(&params), done])),
            "hold" => {
                let (gate, mut fate) = (Arc::clone(&self.gate), Fate(self.fates.clone(), "dropped"));
                Reply::new(async_stream::stream! {
                    gate.acquire_owned().await.unwrap().forget();
                    fate.is_done();
                    yield done;
                })
            }
            "tick" => {
                let (gate, told) = (Arc::clone(&self.gate), progress(&params));
                let Event::Notified(told) = told else { return Reply::new(stream::iter([done])) };
                let mut fate = Fate(self.fates.clone(), "dropped");
                Reply::new(async_stream::stream! {
                    for step in 1..=3 {
                        gate.acquire().await.unwrap().forget();
                        let params = told.params.with("progress", &step.to_string());
                        yield Event::Notified(Notification { method: Method::Progress, params });
                    }
                    gate.acquire().await.unwrap().forget();
                    fate.is_done();
                    yield done;
                })
            }
            "talk" => {
                let (say, mut said) = mpsc::unbounded_channel();
                self.talks.lock().insert(params["arguments"]["name"].as_str().unwrap().to_owned(), say);
                Reply::new(stream::poll_fn(move |cx| said.poll_recv(cx)))
            }
            "play" => self.play(),
            "ask" => ask(revision, &params["arguments"], &self.origin),
            other => Reply::failed(ErrorObject::internal(&format!("the script has no tool `{other}`"))),
        }
    }
}

impl Fate {
    fn is_done(&mut self) {
        self.1 = "done";
    }
}

impl Drop for Fate {
    fn drop(&mut self) {
        let _ = self.0.send(self.1);
    }
}

/// A tool that sends the server request in the argument `method`, and may withdraw it.
fn ask(revision: Revision, arguments: &Value, origin: &ServerOrigin) -> Reply {
    let method = Method::parse(arguments["method"].as_str().unwrap_or("elicitation/create"));
    let mode = arguments["mode"].as_str().unwrap_or("form");
    let withdraw = arguments["withdraw"] == true;
    // the server speaks the newest version of its era, whatever its clients speak
    let revision = if arguments["schema"].is_null() { revision } else { Revision::NEWEST_LEGACY };
    let mut params = match &method {
        Method::Elicit if mode == "url" => {
            json!({ "message": "name?", "mode": mode, "url": "https://example.com/", "elicitationId": "e" })
        }
        Method::Elicit => {
            json!({ "message": "name?", "mode": mode, "requestedSchema": { "type": "object", "properties": {} } })
        }
        Method::CreateMessage => json!({ "messages": [], "maxTokens": 1 }),
        _ => json!({}),
    };
    if !arguments["schema"].is_null() {
        params["requestedSchema"] = arguments["schema"].clone();
    }
    let (question, answered) = ServerRequest::new(method, Payload::of(revision, &params).written_by(origin));
    Reply::new(async_stream::stream! {
        yield Event::Asked(question);
        if withdraw {
            drop(answered);
            std::future::pending::<()>().await;
            return;
        }
        let answer = match answered.wait().await {
            Some(Ok(answer)) => json!({ "content": [], "answer": answer.view::<Value>().unwrap() }),
            Some(Err(error)) => json!({ "content": [], "code": error.code() }),
            None => json!({ "content": [], "answer": null }),
        };
        yield Event::Done(Outcome::Complete(Payload::of(revision, &answer)));
    })
}

/// The same server for clients with a session, behind the decorators of a server without sessions.
struct Repeated(Again);

/// A subscription, until its reply is dropped.
struct Held {
    uri: String,
    all: Arc<Mutex<Vec<String>>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        let at = all.iter().position(|uri| *uri == self.uri).unwrap();
        all.remove(at);
    }
}

/// The same server for further rounds.
#[derive(Clone)]
struct Again(Arc<Scripted>);

impl Server for Repeated {
    fn call(&self, call: Call) -> Reply {
        let first = self.0.call(call.clone());
        match call.method {
            Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead => {
                crossing::repeated(first, self.0.clone(), call)
            }
            _ => first,
        }
    }
}

impl Server for Again {
    fn call(&self, call: Call) -> Reply {
        self.0.call(call)
    }
}

impl Server for Scripted {
    fn call(&self, call: Call) -> Reply {
        self.calls.lock().push(call.clone());
        match &call.method {
            Method::Discover => self.discover(),
            Method::ToolsCall => self.tool(&call),
            Method::PromptsGet | Method::ResourcesRead | Method::Complete => self.play(),
            Method::ToolsList if !self.plays.lock().is_empty() => self.play(),
            Method::Listen => {
                if let Some(mut heard) = self.heard.lock().take() {
                    return Reply::new(stream::poll_fn(move |cx| heard.poll_recv(cx)));
                }
                let (mut told, revision) = (self.told.subscribe(), call.params.revision);
                let mut filter = Filter::of(&call.params);
                filter.lists.retain(|list| *list == "toolsListChanged");
                filter.tasks.clear();
                let acknowledged = (!call.params.is_absent()).then(|| filter.acknowledged());
                Reply::new(async_stream::stream! {
                    if let Some(acknowledged) = acknowledged {
                        yield acknowledged;
                    }
                    while let Ok((method, params)) = told.recv().await {
                        let params = Payload::of(revision, &params);
                        yield Event::Notified(Notification { method, params });
                    }
                    std::future::pending::<()>().await;
                })
            }
            Method::ResourcesSubscribe if call.params.string("uri").is_some_and(|uri| uri.starts_with("no:")) => {
                Reply::failed(ErrorObject::invalid_params("no such resource"))
            }
            Method::ResourcesSubscribe => {
                let uri = call.params.string("uri").unwrap_or_default();
                self.held.lock().push(uri.clone());
                let held = Held { uri, all: Arc::clone(&self.held) };
                let granted = Event::Done(Outcome::Complete(Payload::empty(call.params.revision)));
                Reply::new(async_stream::stream! {
                    yield granted;
                    drop(held);
                })
            }
            Method::ResourcesUnsubscribe => Reply::complete(Payload::empty(call.params.revision)),
            method if method.is_notification() => Reply::complete(Payload::absent(call.params.revision)),
            Method::Other(_) if !self.plays.lock().is_empty() => self.play(),
            method => Reply::failed(ErrorObject::method_not_found(method.as_str())),
        }
    }
}

// === impl Client ===

impl Client {
    /// The same as another app of its user.
    fn of_app(mut self, app: &str) -> Self {
        let caller = Caller { client: Some(ClientId::new(app)), ..Caller::clone(&self.admission.caller) };
        self.admission.caller = Arc::new(caller);
        self
    }

    /// Makes the handshake.
    async fn open(&mut self, version: &'static str, capabilities: Value) -> Value {
        let response = self.send(initialize(version, capabilities)).await;
        assert_eq!(response.status(), StatusCode::OK);
        self.session = Some(response.headers()["mcp-session-id"].to_str().unwrap().to_owned());
        let result = body(response).await;
        let response = self.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        assert_eq!(response.status(), StatusCode::ACCEPTED);
        result
    }

    async fn send(&self, message: Value) -> Response<Body> {
        self.reader.asks(&message);
        self.post(message.to_string()).await
    }

    async fn post(&self, text: impl Into<Body>) -> Response<Body> {
        self.request(Verb::POST, text.into(), |_| ()).await
    }

    async fn get(&self) -> Response<Body> {
        self.request(Verb::GET, Body::empty(), |_| ()).await
    }

    /// Resumes the stream of the event `id`.
    async fn resume(&self, id: &str) -> Response<Body> {
        self.request(Verb::GET, Body::empty(), |headers| {
            headers.insert("last-event-id", id.parse().unwrap());
        })
        .await
    }

    async fn delete(&self) -> Response<Body> {
        self.request(Verb::DELETE, Body::empty(), |_| ()).await
    }

    /// A request with correct headers, modified by `change`.
    async fn request(&self, verb: Verb, text: Body, change: impl FnOnce(&mut HeaderMap)) -> Response<Body> {
        let mut request = Request::builder().method(verb).uri(self.path).body(text).unwrap();
        let headers = request.headers_mut();
        headers.insert("accept", "application/json, text/event-stream".parse().unwrap());
        headers.insert("content-type", "application/json".parse().unwrap());
        if let Some(session) = &self.session {
            headers.insert("mcp-session-id", session.parse().unwrap());
        }
        if let Some(version) = self.version {
            headers.insert("mcp-protocol-version", version.parse().unwrap());
        }
        if let Some(agent) = self.agent {
            headers.insert("user-agent", agent.parse().unwrap());
        }
        if let Some(event) = self.last_event {
            headers.insert("last-event-id", event.parse().unwrap());
        }
        change(headers);
        request.extensions_mut().insert(self.admission.clone());
        let mut response = self.router.clone().oneshot(request).await.unwrap();
        response.extensions_mut().insert(self.reader.clone());
        response
    }
}

#[expect(clippy::needless_pass_by_value, reason = "calls read better so")]
fn initialize(version: &str, capabilities: Value) -> Value {
    let params = json!({
        "protocolVersion": version, "capabilities": capabilities, "clientInfo": { "name": "test", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
}

/// A call of the tool `name`.
#[expect(clippy::needless_pass_by_value, reason = "calls read better so")]
fn call(id: impl Into<Value>, name: &str, arguments: Value) -> Value {
    let params = json!({ "name": name, "arguments": arguments, "_meta": { "progressToken": "p" } });
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": params })
}

#[test]
fn a_message_is_what_the_test_writes() {
    let text = Bytes::from(call(1, "echo", json!({})).to_string());
    assert!(matches!(Message::parse(&text), Ok(Message::Request { .. })));
}
