//! Tasks have owners: a user and an app. Two users with all rights at one server, one of them hostile, and a store that the
//! gateways share.

use std::{
    collections::{BTreeMap, HashMap},
    slice,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, ready},
};
use lockkeeper::{
    app::stack::Stacks,
    gateway::{Gateway, GatewayDeps},
    layers::{StoreUnavailable, TaskOwnerDeps, TaskOwnerStore},
    mcp::{Call, Capabilities, ClientInfo, Event, Method, Payload, Reply, Revision, Server, observer::Observer},
    model::{
        BackendId, BackendSpec, Caller, ClientId, FoundTask, GroupSpec, Groups, OwnedTask, Owner, Requester, Rights,
        SessionId, StdioSpec, TaskHolder, TransportSpec,
    },
    support::{Clock, Digest, ManualClock, MemoryBudget, SeededRandom, Timestamp},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::script::{Backend, Client, background, id, mount_in, spec};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const UNKNOWN: &str = "error -32602 Unknown task: it does not exist, has expired, or is not yours";
const MAX_TASKS: usize = 1_000;

/// A store in memory that can fail.
struct Store {
    rows: Mutex<HashMap<(Digest, Digest), OwnedTask>>,
    searches: Mutex<usize>,
    fails: AtomicBool,
    clock: Arc<ManualClock>,
}

/// A server with tasks, numbered from 1, behind one or more gateways.
struct World {
    backend: Arc<Backend>,
    store: Arc<Store>,
    clock: Arc<ManualClock>,
    spec: BackendSpec,
}

// === impl Store ===

impl TaskOwnerStore for Store {
    fn add<'a>(&'a self, row: &'a OwnedTask, max: usize) -> BoxFuture<'a, Result<bool, StoreUnavailable>> {
        let mut rows = self.rows.lock();
        let owner = row.owner.digest();
        let count = rows.iter().filter(|((_, of), row)| *of == owner && row.expires > self.clock.now()).count();
        let outcome = match (self.fails.load(Ordering::SeqCst), count < max) {
            (true, _) => Err(StoreUnavailable),
            (false, has_room) => Ok(has_room),
        };
        if outcome == Ok(true) {
            rows.insert((row.task, owner), row.clone());
        }
        ready(outcome).boxed()
    }

    fn find<'a>(
        &'a self,
        tasks: &'a [Digest],
        owner: &'a Owner,
    ) -> BoxFuture<'a, Result<Vec<FoundTask>, StoreUnavailable>> {
        *self.searches.lock() += 1;
        if self.fails.load(Ordering::SeqCst) {
            return ready(Err(StoreUnavailable)).boxed();
        }
        let (rows, asker, now) = (self.rows.lock(), owner.digest(), self.clock.now());
        let found = |task: &Digest| {
            let rows = rows.iter().filter(|((of, _), row)| of == task && row.expires > now);
            let holders: Vec<(&Digest, &OwnedTask)> = rows.map(|((_, owner), row)| (owner, row)).collect();
            let own = holders.iter().find(|(owner, _)| **owner == asker);
            let own = own.map(|(_, row)| TaskHolder::Asker { expires: row.expires, has_ended: row.has_ended });
            (!holders.is_empty()).then(|| FoundTask { task: *task, holder: own.unwrap_or(TaskHolder::Others) })
        };
        ready(Ok(tasks.iter().filter_map(found).collect())).boxed()
    }

    fn set_ended<'a>(&'a self, task: &'a Digest, owner: &'a Owner) -> BoxFuture<'a, ()> {
        if let Some(row) = self.rows.lock().get_mut(&(*task, owner.digest())) {
            row.has_ended = true;
        }
        ready(()).boxed()
    }

    fn delete<'a>(&'a self, task: &'a Digest, owner: &'a Owner) -> BoxFuture<'a, ()> {
        self.rows.lock().remove(&(*task, owner.digest()));
        ready(()).boxed()
    }
}

// === impl World ===

impl World {
    /// A server of this version.
    fn of(revision: Revision) -> Self {
        let tools = r#"{"tools":[{"name":"job","inputSchema":{}}]}"#;
        let backend = Backend::speaking(revision, tools);
        let capabilities = json!({ "tools": {}, "tasks": { "requests": { "tools": { "call": {} } } }, "extensions": { EXTENSION: {} } });
        *backend.about.lock() = json!({ "capabilities": capabilities }).to_string();
        let is_modern = revision == Revision::V2026_07_28;
        let made = Mutex::new(0);
        *backend.answer.lock() = Some(Box::new(move |call| {
            let task = |id: &str, status: &str| json!({ "taskId": id, "status": status, "ttl": null, "ttlMs": null });
            let asked = call.params.string("taskId").unwrap_or_default();
            let status = if asked.ends_with('3') { "completed" } else { "working" };
            let mut result = match call.method {
                Method::ToolsCall => {
                    *made.lock() += 1;
                    let mut task = task(&made.lock().to_string(), "working");
                    task["resultType"] = "task".into();
                    if is_modern { task } else { json!({ "task": task }) }
                }
                Method::TasksList => {
                    json!({ "tasks": (1..=4).map(|id| task(&id.to_string(), "working")).collect::<Vec<_>>() })
                }
                _ => task(&asked, status),
            };
            if is_modern && call.method != Method::ToolsCall {
                result["resultType"] = "complete".into();
            }
            Reply::complete(Payload::of(revision, &result))
        }));
        let clock = Arc::new(ManualClock::new(Timestamp::from_seconds(1_000_000)));
        let (rows, searches, fails) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        let store = Arc::new(Store { rows, searches, fails, clock: Arc::clone(&clock) });
        Self { backend, store, clock, spec: spec("b1") }
    }

    /// A gateway in front of the server, with a group.
    fn gateway(&self) -> Arc<Gateway> {
        let store: Arc<dyn TaskOwnerStore> = Arc::<Store>::clone(&self.store);
        let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&self.clock);
        let deps = GatewayDeps {
            random: Arc::new(SeededRandom::new(1)),
            observer: Observer::none(),
            budget: MemoryBudget::unbounded(),
            list_store: None,
            tracker: TaskTracker::new(),
            cancel: CancellationToken::new(),
        };
        let task_owners = TaskOwnerDeps { store: Some(store), clock };
        let stacks = Stacks::new(task_owners, TaskTracker::new(), CancellationToken::new());
        let backend = mount_in(&stacks, &self.spec, &self.backend);
        let group = GroupSpec { id: BackendId::parse("work").unwrap(), servers: vec![id("b1")], tools: None };
        let groups = [group].into_iter().collect();
        Gateway::new(vec![backend], &groups, super::script::settings(), deps)
    }

    /// The number of requests about tasks that the server got.
    fn heard(&self) -> usize {
        self.backend.calls.lock().iter().filter(|(method, _)| method.starts_with("tasks/")).count()
    }

    async fn cancelled(&self) -> Vec<String> {
        let mut asked = self.backend.asked("tasks/cancel");
        while asked.is_empty() {
            tokio::task::yield_now().await;
            asked = self.backend.asked("tasks/cancel");
        }
        asked
    }
}

/// A client of this user, over this app, in this session.
fn client(server: Arc<dyn Server>, (user, app, session): (&str, &str, &str), revision: Revision) -> Client {
    let mut client = Client::of(server, user, Rights::all_backends());
    let caller = Caller::clone(&client.context.caller);
    client.context.caller = Arc::new(Caller { client: Some(ClientId::new(app)), ..caller });
    client.context.requester = Requester::Session(SessionId::new(session));
    let capabilities = Capabilities::new(json!({ "extensions": { EXTENSION: {} } }).to_string().into());
    client.context.client = Arc::new(ClientInfo { revision, capabilities, ..ClientInfo::gateway() });
    client
}

const ANN: (&str, &str, &str) = ("ann", "app", "s1");
const ANN_LATER: (&str, &str, &str) = ("ann", "app", "s2");
const ANN_ELSEWHERE: (&str, &str, &str) = ("ann", "other-app", "s3");
const BOB: (&str, &str, &str) = ("bob", "app", "s4");

/// Creates a task; returns its id as the client sees it, or the error.
async fn made(client: &Client, tool: &str) -> String {
    let answer = client.ask(Method::ToolsCall, &json!({ "name": tool, "task": {} }).to_string()).await;
    let Ok(result) = serde_json::from_str::<Value>(&answer) else { return answer };
    let task = if result["task"].is_object() { &result["task"] } else { &result };
    task["taskId"].as_str().unwrap().to_owned()
}

async fn about(client: &Client, method: Method, id: &str) -> String {
    let params = json!({ "taskId": id, "inputResponses": { "pay": { "action": "accept" } } });
    client.ask(method, &params.to_string()).await
}

/// The tasks that a listen acknowledges, and the rest of it.
async fn listened(client: &Client, id: &str) -> (Vec<String>, Reply) {
    let filter = json!({ "notifications": { "taskIds": [id] } }).to_string();
    let mut listen = client.call(Method::Listen, &filter);
    let Some(Event::Notified(told)) = listen.next_event().await else { panic!("an acknowledgement") };
    (lockkeeper::mcp::listen::task_ids(&told.params), listen)
}

#[tokio::test(start_paused = true)]
async fn oa_115_a_task_is_reached_by_its_user_and_app_only_at_every_endpoint_and_in_every_pair() {
    let methods = [Method::TasksGet, Method::TasksResult, Method::TasksUpdate, Method::TasksCancel];
    for server in [Revision::V2025_11_25, Revision::V2026_07_28] {
        for version in [Revision::V2025_11_25, Revision::V2026_07_28] {
            let world = World::of(server);
            *world.backend.tasks.lock() = Some(vec!["1", "2", "3"]);
            let gateway = world.gateway();
            let single = |name: &str| gateway.single(&id(name)).unwrap();
            for (endpoint, tool) in [(gateway.merged(), "b1__job"), (single("work"), "b1__job"), (single("b1"), "job")]
            {
                let at = |who| client(Arc::clone(&endpoint), who, version);
                let task = made(&at(ANN), tool).await;
                let heard = world.heard();
                for stranger in [BOB, ANN_ELSEWHERE] {
                    for method in methods.clone() {
                        assert_eq!(about(&at(stranger), method.clone(), &task).await, UNKNOWN, "{method} {version}");
                    }
                    let (acknowledged, _listen) = listened(&at(stranger), &task).await;
                    assert!(acknowledged.is_empty(), "{acknowledged:?}");
                }
                for unknown in ["b1.none", "none"] {
                    assert_eq!(about(&at(BOB), Method::TasksGet, unknown).await, UNKNOWN);
                }
                assert_eq!(world.heard(), heard, "without a word to the server");
                for own in [ANN, ANN_LATER] {
                    assert!(!about(&at(own), Method::TasksGet, &task).await.starts_with("error"), "{version} {server}");
                    assert_eq!(listened(&at(own), &task).await.0, slice::from_ref(&task));
                }
                assert_eq!(world.heard(), heard + 2);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn oa_115_a_list_of_tasks_has_the_callers_own() {
    let world = World::of(Revision::V2025_11_25);
    let gateway = world.gateway();
    let at = |who| client(gateway.single(&id("b1")).unwrap(), who, Revision::V2025_11_25);
    for who in [ANN, BOB, ANN] {
        made(&at(who), "job").await;
    }
    let listed = async |who| {
        let page: Value = serde_json::from_str(&at(who).ask(Method::TasksList, "{}").await).unwrap();
        let ids = page["tasks"].as_array().unwrap().iter().map(|task| task["taskId"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(listed(ANN_LATER).await, ["1", "3"]);
    assert_eq!(listed(BOB).await, ["2"]);
    assert!(listed(ANN_ELSEWHERE).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn oa_115_messages_about_tasks_reach_only_listens_of_their_owner() {
    let world = World::of(Revision::V2025_11_25);
    let gateway = world.gateway();
    let at = |who| client(gateway.merged(), who, Revision::V2025_11_25);
    let (mut own, mut foreign) = (at(ANN).call(Method::Listen, ""), at(BOB).call(Method::Listen, ""));
    assert!(own.next_event().now_or_never().is_none() && foreign.next_event().now_or_never().is_none());
    assert_eq!(made(&at(ANN), "b1__job").await, "b1.1");
    let related = r#"{"level":"info","data":"secret","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"1"}}}"#;
    for session in ["s1", "s4"] {
        world.backend.tell(Some(session), Method::TaskStatus, r#"{"taskId":"1","status":"working"}"#);
        world.backend.tell(Some(session), Method::TaskStatus, r#"{"taskId":"9","status":"working"}"#);
        world.backend.tell(Some(session), Method::LoggingMessage, related);
        world.backend.tell(Some(session), Method::LoggingMessage, r#"{"level":"info","data":"for all"}"#);
    }
    let heard = async |listen: &mut Reply, count| {
        let mut heard = Vec::new();
        while heard.len() < count {
            let Some(Event::Notified(told)) = listen.next_event().await else { panic!("a notification") };
            heard.push(told.params.string("taskId").or(told.params.string("data")).unwrap());
        }
        heard
    };
    assert_eq!(heard(&mut own, 3).await, ["b1.1", "secret", "for all"]);
    assert_eq!(heard(&mut foreign, 1).await, ["for all"]);
}

#[tokio::test(start_paused = true)]
async fn oa_115_an_app_finds_its_tasks_after_a_restart_and_at_another_replica() {
    let world = World::of(Revision::V2026_07_28);
    let (one, other) = (world.gateway(), world.gateway());
    let at = |gateway: &Arc<Gateway>, who| client(gateway.merged(), who, Revision::V2026_07_28);
    // asked before it exists: that it is unknown is not remembered
    assert_eq!(about(&at(&other, ANN), Method::TasksGet, "b1.1").await, UNKNOWN);
    let task = made(&at(&one, ANN), "b1__job").await;
    drop(one);
    for gateway in [&other, &world.gateway()] {
        assert_eq!(about(&at(gateway, BOB), Method::TasksGet, &task).await, UNKNOWN);
        assert!(about(&at(gateway, ANN_LATER), Method::TasksGet, &task).await.contains("working"));
        let searches = *world.store.searches.lock();
        assert!(about(&at(gateway, ANN), Method::TasksGet, &task).await.contains("working"));
        assert_eq!(*world.store.searches.lock(), searches, "memory answers");
    }
}

#[tokio::test(start_paused = true)]
async fn oa_115_a_task_is_kept_for_its_ttl_and_a_minute() {
    let world = World::of(Revision::V2025_11_25);
    *world.backend.answer.lock() = Some(Box::new(|call: &Call| {
        let task = json!({ "taskId": "1", "status": "working", "ttl": 60_000 });
        let result = if call.method == Method::ToolsCall { json!({ "task": task }) } else { task };
        Reply::complete(Payload::of(Revision::V2025_11_25, &result))
    }));
    let ann = client(world.gateway().merged(), ANN, Revision::V2025_11_25);
    made(&ann, "b1__job").await;
    world.clock.advance(Duration::from_secs(119));
    assert!(about(&ann, Method::TasksGet, "b1.1").await.contains("working"));
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(about(&ann, Method::TasksGet, "b1.1").await, UNKNOWN);
}

#[tokio::test(start_paused = true)]
async fn oa_115_guesses_of_one_caller_ask_the_store_a_limited_number_of_times() {
    let world = World::of(Revision::V2025_11_25);
    let gateway = world.gateway();
    let at = |who| client(gateway.merged(), who, Revision::V2025_11_25);
    for guess in 0..200 {
        assert_eq!(about(&at(BOB), Method::TasksGet, &format!("b1.{guess}")).await, UNKNOWN);
    }
    assert_eq!(*world.store.searches.lock(), 60);
    world.clock.advance(Duration::from_secs(1));
    for _ in 0..3 {
        about(&at(BOB), Method::TasksGet, "b1.x").await;
    }
    assert_eq!(*world.store.searches.lock(), 61);
    about(&at(ANN), Method::TasksGet, "b1.x").await;
    assert_eq!(*world.store.searches.lock(), 62, "another caller has a limit of its own");
    assert_eq!(world.heard(), 0);
}

#[tokio::test(start_paused = true)]
async fn oa_115_a_task_whose_owner_cannot_be_stored_is_cancelled_and_its_call_fails() {
    for version in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let world = World::of(version);
        let ann = client(world.gateway().merged(), ANN, version);
        world.store.fails.store(true, Ordering::SeqCst);
        let failed = made(&ann, "b1__job").await;
        assert!(failed.starts_with("error -32603 The task at server `b1` was cancelled"), "{failed}");
        assert!(!failed.contains(r#""taskId""#), "{failed}");
        assert_eq!(world.cancelled().await, [r#"{"taskId":"1"}"#]);
        let lost = about(&ann, Method::TasksGet, "b1.1").await;
        assert!(lost.starts_with("error -32603 The gateway cannot look up whose task this is"), "{lost}");
        world.store.fails.store(false, Ordering::SeqCst);
        assert_eq!(about(&ann, Method::TasksGet, "b1.1").await, UNKNOWN);
        assert_eq!(made(&ann, "b1__job").await, "b1.2");
    }
}

#[tokio::test(start_paused = true)]
async fn oa_115_a_call_that_is_dropped_before_its_task_is_stored_cancels_the_task() {
    struct Slow(Arc<Store>);
    impl TaskOwnerStore for Slow {
        fn add<'a>(&'a self, _: &'a OwnedTask, _: usize) -> BoxFuture<'a, Result<bool, StoreUnavailable>> {
            std::future::pending().boxed()
        }

        fn find<'a>(
            &'a self,
            tasks: &'a [Digest],
            owner: &'a Owner,
        ) -> BoxFuture<'a, Result<Vec<FoundTask>, StoreUnavailable>> {
            self.0.find(tasks, owner)
        }

        fn set_ended<'a>(&'a self, task: &'a Digest, owner: &'a Owner) -> BoxFuture<'a, ()> {
            self.0.set_ended(task, owner)
        }

        fn delete<'a>(&'a self, task: &'a Digest, owner: &'a Owner) -> BoxFuture<'a, ()> {
            self.0.delete(task, owner)
        }
    }
    let world = World::of(Revision::V2025_11_25);
    let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&world.clock);
    let deps = GatewayDeps {
        random: Arc::new(SeededRandom::new(1)),
        observer: Observer::none(),
        budget: MemoryBudget::unbounded(),
        list_store: None,
        tracker: TaskTracker::new(),
        cancel: CancellationToken::new(),
    };
    let task_owners = TaskOwnerDeps { store: Some(Arc::new(Slow(Arc::clone(&world.store)))), clock };
    let stacks = Stacks::new(task_owners, TaskTracker::new(), CancellationToken::new());
    let backend = mount_in(&stacks, &world.spec, &world.backend);
    let gateway = Gateway::new(vec![backend], &Groups::default(), super::script::settings(), deps);
    let ann = client(gateway.merged(), ANN, Revision::V2025_11_25);
    let mut reply = ann.call(Method::ToolsCall, r#"{"name":"b1__job","task":{}}"#);
    assert!(reply.next_event().now_or_never().is_none(), "the id is held back");
    drop(reply);
    assert_eq!(world.cancelled().await, [r#"{"taskId":"1"}"#]);
    assert_eq!(about(&ann, Method::TasksGet, "b1.1").await, UNKNOWN);
}

#[tokio::test(start_paused = true)]
async fn oa_115_one_owner_with_too_many_tasks_affects_nobody_else_and_ended_ones_leave_first() {
    let world = World::of(Revision::V2025_11_25);
    let gateway = world.gateway();
    let at = |who| client(gateway.merged(), who, Revision::V2025_11_25);
    let of_bob = made(&at(BOB), "b1__job").await;
    for _ in 0..MAX_TASKS {
        assert!(made(&at(ANN), "b1__job").await.starts_with("b1."));
    }
    let refused = made(&at(ANN), "b1__job").await;
    assert!(refused.starts_with("error -32603") && refused.contains("1000 tasks"), "{refused}");
    assert_eq!(world.cancelled().await, [r#"{"taskId":"1002"}"#]);
    assert!(made(&at(BOB), "b1__job").await.starts_with("b1."), "another owner has a limit of its own");
    assert!(about(&at(BOB), Method::TasksGet, &of_bob).await.contains("working"));
    // the server says that this one has ended
    assert!(about(&at(ANN), Method::TasksGet, "b1.13").await.contains("completed"));
    assert!(made(&at(ANN), "b1__job").await.starts_with("b1."));
    assert_eq!(about(&at(ANN), Method::TasksGet, "b1.13").await, UNKNOWN);
    assert!(about(&at(ANN), Method::TasksGet, "b1.2").await.contains("working"));
}

#[tokio::test(start_paused = true)]
async fn oa_115_a_server_that_tells_callers_apart_decides_about_tasks_of_unknown_owner_only() {
    // each session has a process of its own
    let process = StdioSpec { command: "server".to_owned(), args: Vec::new(), env: BTreeMap::new(), cwd: None };
    let spec = BackendSpec { transport: TransportSpec::Stdio(process), ..spec("b1") };
    let world = World { spec, ..World::of(Revision::V2025_11_25) };
    let gateway = world.gateway();
    let at = |who| client(gateway.merged(), who, Revision::V2025_11_25);
    let task = made(&at(ANN), "b1__job").await;
    assert_eq!(about(&at(BOB), Method::TasksGet, &task).await, UNKNOWN);
    assert!(about(&at(ANN), Method::TasksGet, "b1.from-before").await.contains("working"));
    let stored = async {
        while world.store.rows.lock().len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    stored.await;
    assert_eq!(about(&at(BOB), Method::TasksGet, "b1.from-before").await, UNKNOWN, "it has an owner now");
}

#[tokio::test(start_paused = true)]
async fn oa_115_calls_made_twice_at_once_have_a_task_each_and_a_task_given_twice_is_one() {
    let world = World::of(Revision::V2025_11_25);
    let ann = client(world.gateway().merged(), ANN, Revision::V2025_11_25);
    let (one, two) = (ann.clone(), ann.clone());
    let (one, two) = (
        background(async move { made(&one, "b1__job").await }),
        background(async move { made(&two, "b1__job").await }),
    );
    let mut tasks = [one.await.unwrap(), two.await.unwrap()];
    tasks.sort();
    assert_eq!(tasks, ["b1.1", "b1.2"]);
    *world.backend.answer.lock() = Some(Box::new(|_: &Call| {
        Reply::complete(Payload::of(Revision::V2025_11_25, &json!({ "task": { "taskId": "1", "status": "working" } })))
    }));
    assert_eq!(made(&ann, "b1__job").await, "b1.1");
    assert_eq!(world.store.rows.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn oa_115_a_request_about_tasks_that_no_version_defines_is_checked_too() {
    let world = World::of(Revision::V2025_11_25);
    let gateway = world.gateway();
    let at = |who| client(gateway.single(&id("b1")).unwrap(), who, Revision::V2025_11_25);
    let task = made(&at(ANN), "job").await;
    let delete = || Method::parse("tasks/delete");
    assert_eq!(about(&at(BOB), delete(), &task).await, UNKNOWN);
    assert!(world.backend.asked("tasks/delete").is_empty());
    assert!(!about(&at(ANN), delete(), &task).await.starts_with("error"));
}
