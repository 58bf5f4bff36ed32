//! A scripted backend, and a client of the gateway.
#![expect(clippy::panic, reason = "a test that cannot go on says so by panicking")]

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use lockkeeper::{
    app::stack::Stacks,
    backend::SupervisedServer,
    gateway::{ConfiguredBackend, Gateway, GatewayDeps, GatewaySettings, ListStore},
    layers::TaskOwnerDeps,
    mcp::{
        Call, Capabilities, ClientInfo, Context, ErrorObject, Event, Method, Notification, Outcome, Payload, Reply,
        Revision, Server, Step,
        listen::{self, Filter},
        observer::{LifecycleEvent, Observer},
    },
    model::{
        BackendId, BackendSpec, Caller, Groups, LimitsConfig, Naming, Requester, Rights, SessionId, TransportSpec,
        UserId,
    },
    support::{Account, ManualClock, MemoryBudget, SeededRandom},
};
use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Makes the reply to one call.
pub(crate) type Answer = Box<dyn Fn(&Call) -> Reply + Send + Sync>;

/// A scripted backend.
pub(crate) struct Backend {
    /// Its version.
    pub(crate) revision: Mutex<Revision>,
    pub(crate) about: Mutex<String>,
    pub(crate) pages: Mutex<HashMap<&'static str, Vec<String>>>,
    pub(crate) failure: Mutex<Option<ErrorObject>>,
    pub(crate) answer: Mutex<Option<Answer>>,
    /// Its calls: method and parameters.
    pub(crate) calls: Mutex<Vec<(String, String)>>,
    /// The mirrored parameters of its tool calls, as `name=value`.
    pub(crate) mirrors: Mutex<Vec<String>>,
    /// The sessions of its calls: method and session.
    pub(crate) sessions: Mutex<Vec<(String, Option<String>)>>,
    /// Selects sessions in which it does not answer until it is awake.
    pub(crate) sleeps: Mutex<fn(&Context) -> bool>,
    /// True if it answers lists.
    pub(crate) awake: watch::Sender<bool>,
    /// True if it rejects listens.
    pub(crate) deaf: AtomicBool,
    /// The tasks that it acknowledges; `None`: it does not mention tasks.
    pub(crate) tasks: Mutex<Option<Vec<&'static str>>>,
    /// Notifications for listens: of the gateway (`None`) or of a session.
    pub(crate) tells: broadcast::Sender<(Option<String>, Notification)>,
}

/// A client of the gateway.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) server: Arc<dyn Server>,
    pub(crate) context: Context,
}

// === impl Backend ===

impl Backend {
    /// A backend with every capability and tools with these names.
    pub(crate) fn with_tools(names: &[&str]) -> Arc<Self> {
        let backend = Arc::new(Self {
            revision: Mutex::new(Revision::V2025_11_25),
            about: Mutex::new(about("tools,prompts,resources,completions,logging", "")),
            pages: Mutex::default(),
            failure: Mutex::default(),
            answer: Mutex::default(),
            calls: Mutex::default(),
            mirrors: Mutex::default(),
            sessions: Mutex::default(),
            sleeps: Mutex::new(|_| true),
            awake: watch::Sender::new(true),
            deaf: AtomicBool::new(false),
            tasks: Mutex::new(Some(Vec::new())),
            tells: broadcast::Sender::new(64),
        });
        backend.set_tools(names);
        backend
    }

    /// A backend of a version, with this list of tools.
    pub(crate) fn speaking(revision: Revision, list: &str) -> Arc<Self> {
        let backend = Self::with_tools(&[]);
        *backend.revision.lock() = revision;
        backend.set("tools/list", &[list]);
        backend
    }

    pub(crate) fn set_tools(&self, names: &[&str]) {
        let tools: Vec<String> = names.iter().map(|name| format!(r#"{{"name":"{name}"}}"#)).collect();
        self.set("tools/list", &[&format!(r#"{{"tools":[{}]}}"#, tools.join(","))]);
    }

    pub(crate) fn set(&self, method: &'static str, pages: &[&str]) {
        self.pages.lock().insert(method, pages.iter().map(|&page| page.to_owned()).collect());
    }

    pub(crate) fn tell(&self, session: Option<&str>, method: Method, params: &str) {
        let told = Notification { method, params: payload(params) };
        let _ = self.tells.send((session.map(str::to_owned), told));
    }

    pub(crate) fn asked(&self, method: &str) -> Vec<String> {
        self.calls.lock().iter().filter(|(name, _)| name == method).map(|(_, params)| params.clone()).collect()
    }

    /// A payload in its version.
    pub(crate) fn wrote(&self, text: &str) -> Payload {
        Payload::new(*self.revision.lock(), Bytes::copy_from_slice(text.as_bytes()))
    }

    fn offers(&self, call: &Call) -> Outcome {
        if let Some(error) = self.failure.lock().clone() {
            return Outcome::Failed(error);
        }
        if call.method == Method::Discover {
            let about = Bytes::from(self.about.lock().clone());
            return Outcome::Complete(Payload::new(Revision::V2026_07_28, about));
        }
        let at: usize = call.params.string("cursor").map_or(0, |cursor| cursor.parse().unwrap());
        let pages = self.pages.lock();
        match pages.get(call.method.as_str()).and_then(|pages| pages.get(at)) {
            Some(page) => Outcome::Complete(self.wrote(page)),
            None => Outcome::Failed(ErrorObject::method_not_found(call.method.as_str())),
        }
    }

    fn listened(&self, call: &Call) -> Reply {
        let ids = listen::task_ids(&call.params);
        let tasks = self.tasks.lock().clone().filter(|_| !ids.is_empty());
        let acknowledged =
            tasks.map(|tasks| listen::honouring(tasks.into_iter().filter(|id| ids.iter().any(|i| i == id))));
        let resources = listen::resources(&call.params).into_iter().filter(|uri| !uri.starts_with("no:"));
        let resources = Filter { resources: resources.collect(), ..Filter::default() };
        let subscribed = (!listen::resources(&call.params).is_empty()).then(|| resources.acknowledged());
        let session = call.context.requester.session().map(|session| session.as_str().to_owned());
        let told = tokio_stream::wrappers::BroadcastStream::new(self.tells.subscribe());
        let told = told.filter_map(move |told| {
            let told = told.ok().filter(|(to, _)| *to == session).map(|(_, told)| Event::Notified(told));
            std::future::ready(told)
        });
        Reply::new(stream::iter(acknowledged.or(subscribed)).chain(told))
    }
}

/// A shared backend, so that the test can change it while the gateway uses it.
pub(crate) struct Shared(pub(crate) Arc<Backend>);

impl Server for Shared {
    fn call(&self, call: Call) -> Reply {
        let backend = Arc::clone(&self.0);
        let params = String::from_utf8(call.params.json().to_vec()).unwrap();
        let session = call.context.requester.session().map(|session| session.as_str().to_owned());
        backend.sessions.lock().push((call.method.to_string(), session));
        backend.calls.lock().push((call.method.to_string(), params.clone()));
        if call.method == Method::ToolsCall {
            let mirror = call.context.mirror.iter().flat_map(|mirror| mirror.iter());
            let stated = mirror.map(|(name, value)| format!("{name}={}", value.clone().unwrap()));
            backend.mirrors.lock().push(stated.collect::<Vec<_>>().join(" "));
        }
        match call.method {
            Method::Listen if backend.deaf.load(Ordering::SeqCst) => {
                Reply::failed(ErrorObject::method_not_found(call.method.as_str()))
            }
            Method::Listen => backend.listened(&call),
            Method::Discover
            | Method::ToolsList
            | Method::PromptsList
            | Method::ResourcesList
            | Method::ResourceTemplatesList => Reply::later(async move {
                let sleeps = *backend.sleeps.lock();
                if sleeps(&call.context) {
                    backend.awake.subscribe().wait_for(|awake| *awake).await.unwrap();
                }
                Reply::done(backend.offers(&call))
            }),
            _ => match &*backend.answer.lock() {
                Some(answer) => answer(&call),
                None => Reply::complete(backend.wrote(&format!(r#"{{"got":{params}}}"#))),
            },
        }
    }
}

// === impl Client ===

impl Client {
    /// A client with this session, of a user with all rights.
    pub(crate) fn new(server: Arc<dyn Server>) -> Self {
        Self::of(server, "alice", Rights::all_backends())
    }

    pub(crate) fn of(server: Arc<dyn Server>, user: &str, rights: Rights) -> Self {
        let caller = Caller { user: UserId::new(user), client: None, grant: None, key: None, rights };
        let context = Context {
            caller: Arc::new(caller),
            requester: Requester::Session(SessionId::new("session-1")),
            ..Context::of_gateway(ClientInfo::gateway(), Account::unbounded())
        };
        Self { server, context }
    }

    /// The same client with these capabilities.
    pub(crate) fn able(mut self, capabilities: &'static str) -> Self {
        let capabilities = Capabilities::new(Bytes::from_static(capabilities.as_bytes()));
        self.context.client = Arc::new(ClientInfo { capabilities, ..ClientInfo::gateway() });
        self
    }

    /// The same client in another version.
    pub(crate) fn speaking(mut self, revision: Revision) -> Self {
        self.context.client = Arc::new(ClientInfo { revision, ..ClientInfo::clone(&self.context.client) });
        self
    }

    pub(crate) fn call(&self, method: Method, params: &str) -> Reply {
        self.server.call(Call { method, params: payload(params), context: self.context.clone() })
    }

    /// The text of the result, or `error <code> <message> <data>`.
    pub(crate) async fn ask(&self, method: Method, params: &str) -> String {
        match self.call(method, params).outcome().await {
            Outcome::Complete(result) => String::from_utf8(result.json().to_vec()).unwrap(),
            Outcome::Failed(error) => {
                let object: serde_json::Value = serde_json::from_slice(error.json()).unwrap();
                let data = object.get("data").map(|data| format!(" {data}")).unwrap_or_default();
                format!("error {} {}{data}", error.code(), error.message())
            }
            Outcome::InputRequired(_) => panic!("an outcome"),
        }
    }

    /// The names of the tools, in order.
    pub(crate) async fn tools(&self) -> String {
        let text = self.ask(Method::ToolsList, "").await;
        let result: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
        let tools = result["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
    }
}

/// The next notification: its method and parameters.
pub(crate) async fn heard(reply: Reply) -> (String, Reply) {
    match reply.next().await {
        Step::Notified(told, rest) => {
            (format!("{} {}", told.method, String::from_utf8_lossy(told.params.json())).trim().to_owned(), rest)
        }
        other => panic!("a notification, not {other:?}"),
    }
}

/// Runs a future beside the test.
pub(crate) fn background<F>(future: F) -> tokio::task::JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    TaskTracker::new().spawn(future)
}

pub(crate) fn payload(text: &str) -> Payload {
    Payload::new(Revision::V2025_11_25, Bytes::copy_from_slice(text.as_bytes()))
}

pub(crate) fn about(capabilities: &str, instructions: &str) -> String {
    let capabilities: Vec<String> = capabilities.split(',').map(|name| format!(r#""{name}":{{}}"#)).collect();
    format!(
        r#"{{"supportedVersions":[],"capabilities":{{{}}},"instructions":"{instructions}","x":1.0}}"#,
        capabilities.join(",")
    )
}

pub(crate) fn id(name: &str) -> BackendId {
    BackendId::parse(name).unwrap()
}

/// The configuration of a backend in tests: without heartbeats, and with one tool for readers.
pub(crate) fn spec(name: &str) -> BackendSpec {
    let read_only_tools = vec!["look".to_owned()];
    BackendSpec { heartbeat: None, read_only_tools, ..BackendSpec::new(id(name), TransportSpec::Demo) }
}

pub(crate) fn mount(name: &str, backend: &Arc<Backend>) -> ConfiguredBackend {
    mount_as(&spec(name), backend)
}

/// The same under other settings.
pub(crate) fn mount_as(spec: &BackendSpec, backend: &Arc<Backend>) -> ConfiguredBackend {
    let task_owners = TaskOwnerDeps { store: None, clock: Arc::new(ManualClock::default()) };
    let stacks = Stacks::new(task_owners, TaskTracker::new(), CancellationToken::new());
    mount_in(&stacks, spec, backend)
}

/// The same with layers of these stacks.
pub(crate) fn mount_in(stacks: &Stacks, spec: &BackendSpec, backend: &Arc<Backend>) -> ConfiguredBackend {
    let server = Arc::new(Shared(Arc::clone(backend)));
    let supervised = SupervisedServer { id: spec.id.clone(), generation: 0, server, announcer: None };
    stacks.around_server(spec, supervised, None)
}

/// The server of a supervisor.
pub(crate) fn mount_supervised(spec: &BackendSpec, supervised: SupervisedServer) -> ConfiguredBackend {
    let task_owners = TaskOwnerDeps { store: None, clock: Arc::new(ManualClock::default()) };
    Stacks::new(task_owners, TaskTracker::new(), CancellationToken::new()).around_server(spec, supervised, None)
}

pub(crate) fn gateway_with(settings: GatewaySettings, mounts: Vec<ConfiguredBackend>) -> Arc<Gateway> {
    gateway_that_tells(settings, mounts).0
}

/// A gateway, and the `DiscoverResult` of its backends.
pub(crate) fn gateway_that_tells(
    settings: GatewaySettings,
    mounts: Vec<ConfiguredBackend>,
) -> (Arc<Gateway>, watch::Receiver<HashMap<BackendId, Payload>>) {
    let (server_infos, told) = watch::channel(HashMap::<BackendId, Payload>::new());
    let observer = Observer::new(move |event| {
        if let LifecycleEvent::ServerDescribed(backend, result) = event {
            server_infos.send_modify(|all| drop(all.insert(backend.clone(), result.clone())));
        }
    });
    let (tracker, cancel) = (TaskTracker::new(), CancellationToken::new());
    let budget = MemoryBudget::unbounded();
    let random = Arc::new(SeededRandom::new(1));
    let deps = GatewayDeps { random, observer, budget, list_store: None, tracker, cancel };
    (Gateway::new(mounts, &Groups::default(), settings, deps), told)
}

/// A gateway that keeps the lists of its backends in this store.
pub(crate) fn gateway_that_remembers(store: &Arc<dyn ListStore>, mounts: Vec<ConfiguredBackend>) -> Arc<Gateway> {
    let deps = GatewayDeps {
        random: Arc::new(SeededRandom::new(1)),
        observer: Observer::none(),
        budget: MemoryBudget::unbounded(),
        list_store: Some(Arc::clone(store)),
        tracker: TaskTracker::new(),
        cancel: CancellationToken::new(),
    };
    Gateway::new(mounts, &Groups::default(), settings(), deps)
}

/// The settings of a gateway without configuration.
pub(crate) fn settings() -> GatewaySettings {
    GatewaySettings::new(Naming::Prefixed, LimitsConfig::default().tool_name_length)
}

pub(crate) fn gateway(mounts: Vec<ConfiguredBackend>) -> Arc<Gateway> {
    gateway_with(settings(), mounts)
}
