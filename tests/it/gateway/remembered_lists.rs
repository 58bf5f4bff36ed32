//! Lists of an earlier process: shown until the server has answered, and to nobody else than before.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use lockkeeper::{
    gateway::{Gateway, KeptList, ListPlace, ListStore},
    mcp::{Method, Payload, Revision},
    model::{
        BackendId, BackendSpec, Disclosure, IdentityForm, IdentityHeader, NameGlobs, Rights, Share, StdioSpec, Target,
        ToolRules, TransportSpec, UserId, status::ToolCounts,
    },
};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::script::{Backend, Client, background, gateway_that_remembers, heard, id, mount_as, spec};

/// A store in memory: each list with the time at which it was stored.
#[derive(Default)]
struct MemoryStore {
    lists: Mutex<HashMap<ListPlace, (Payload, Instant)>>,
    loads: AtomicUsize,
}

impl ListStore for MemoryStore {
    fn load<'a>(&'a self, place: &'a ListPlace) -> BoxFuture<'a, Option<Payload>> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        std::future::ready(self.lists.lock().get(place).map(|(list, _)| list.clone())).boxed()
    }

    fn keep(&self, place: ListPlace, change: KeptList) {
        let (mut kept, now) = (self.lists.lock(), Instant::now());
        match change {
            KeptList::New(list) => drop(kept.insert(place, (list, now))),
            KeptList::Same => drop(kept.get_mut(&place).map(|(_, stored)| *stored = now)),
            KeptList::Gone => drop(kept.remove(&place)),
        }
    }
}

impl MemoryStore {
    /// The servers whose tools are kept, with the users who are shown them.
    fn owners(&self) -> Vec<(BackendId, Option<UserId>)> {
        let kept = self.lists.lock();
        let tools = kept.keys().filter(|place| place.method == Method::ToolsList);
        let mut owners: Vec<_> = tools.map(|place| (place.backend.clone(), place.user.clone())).collect();
        owners.sort();
        owners
    }
}

/// The configuration of a program that all users share.
fn program(name: &str) -> BackendSpec {
    let stdio = StdioSpec { command: name.to_owned(), args: Vec::new(), env: BTreeMap::new(), cwd: None };
    BackendSpec { transport: TransportSpec::Stdio(stdio), share: Share::All, ..spec(name) }
}

/// The same, told who calls.
fn program_of_users(name: &str) -> BackendSpec {
    let identity = Some(IdentityHeader { name: "user".to_owned(), form: IdentityForm::Plain });
    let disclosure = Some(Disclosure { identity, ..Disclosure::default() });
    BackendSpec { disclosure, share: Share::User, ..program(name) }
}

fn asleep(names: &[&str]) -> Arc<Backend> {
    let backend = Backend::with_tools(names);
    backend.awake.send_replace(false);
    backend
}

#[tokio::test(start_paused = true)]
async fn the_last_lists_are_shown_at_once_and_a_difference_is_notified() {
    let store = Arc::<MemoryStore>::default();
    let lists: Arc<dyn ListStore> = Arc::clone(&store) as _;
    let before = Backend::with_tools(&["read", "look"]);
    let mounts = || (program("files"), program("time"));
    {
        let (files, time) = mounts();
        let time = mount_as(&time, &Backend::with_tools(&["now"]));
        let gateway = gateway_that_remembers(&lists, vec![mount_as(&files, &before), time]);
        assert_eq!(Client::new(gateway.merged()).tools().await, "files__read files__look time__now");
    }
    let (files, time) = mounts();
    let (slow, same) = (asleep(&["read", "write"]), asleep(&["now"]));
    let gateway = gateway_that_remembers(&lists, vec![mount_as(&files, &slow), mount_as(&time, &same)]);
    let client = Client::new(gateway.merged());
    let began = Instant::now();
    assert_eq!(client.tools().await, "files__read files__look time__now");
    assert_eq!(Client::new(gateway.single(&id("files")).unwrap()).tools().await, "read look");
    assert_eq!(began.elapsed(), Duration::ZERO, "nobody waits for servers that start");
    let warning = "clients are shown its lists of an earlier run of the gateway until it answers";
    assert_eq!(gateway.warnings(&id("files")), [warning], "and the status says so");
    assert_eq!(gateway.counts(&id("files")).tools, 2);

    // what has changed since is notified, once, and what has not is not
    let listen = background(heard(client.call(Method::Listen, "")));
    tokio::task::yield_now().await;
    same.awake.send_replace(true);
    slow.awake.send_replace(true);
    assert_eq!(listen.await.unwrap().0, "notifications/tools/list_changed");
    assert_eq!(client.tools().await, "files__read files__write time__now");
    assert!(gateway.warnings(&id("files")).is_empty());
    assert_eq!(store.owners(), [(id("files"), None), (id("time"), None)]);
}

#[tokio::test(start_paused = true)]
async fn oa_158_tools_are_counted_from_the_lists_at_hand() {
    let store = Arc::<MemoryStore>::default();
    let lists: Arc<dyn ListStore> = Arc::clone(&store) as _;
    let files = BackendSpec { read_only_tools: vec!["look".to_owned()], ..program("files") };
    let backend = asleep(&[]);
    let tool = |name: &str, more: &str| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}{more}}}"#);
    let hinted = r#","annotations":{"title":"x","readOnlyHint":true}"#;
    let denied = r#","annotations":{"readOnlyHint":false}"#;
    let tools = [tool("read", hinted), tool("look", ""), tool("write", ""), tool("drop", denied)].join(",");
    backend.set("tools/list", &[&format!(r#"{{"tools":[{tools}]}}"#)]);
    let user = UserId::new("ann");
    let counted = |gateway: &Gateway, server: &str| {
        let one = Target::Backend(id(server));
        let merged = gateway.tool_counts(&Target::Merged, &id(server), &user);
        assert_eq!(gateway.tool_counts(&one, &id(server), &user), merged);
        merged
    };
    let all = Some(ToolCounts { tools: 4, changing: 2, read_only: 1 });
    {
        let gateway = gateway_that_remembers(&lists, vec![mount_as(&files, &backend)]);
        settled().await;
        assert_eq!(counted(&gateway, "files"), None, "it has not answered");
        backend.awake.send_replace(true);
        Client::new(gateway.merged()).tools().await;
        assert_eq!(counted(&gateway, "files"), all);
        assert_eq!(counted(&gateway, "nobody"), None);
        settled().await;
    }
    // after a restart, before the server answers
    let gateway = gateway_that_remembers(&lists, vec![mount_as(&files, &asleep(&[]))]);
    settled().await;
    assert_eq!(counted(&gateway, "files"), all);
    // what the rules leave out does not count
    let ruled = ToolRules { deny: NameGlobs::parse(vec!["drop".to_owned()]).unwrap(), ..ToolRules::default() };
    let ruled = BackendSpec { tools: Some(Arc::new(ruled)), ..files.clone() };
    let gateway = gateway_that_remembers(&lists, vec![mount_as(&ruled, &backend)]);
    Client::new(gateway.merged()).tools().await;
    assert_eq!(counted(&gateway, "files"), Some(ToolCounts { tools: 3, changing: 1, read_only: 1 }));
}

#[tokio::test(start_paused = true)]
async fn a_list_is_kept_again_before_it_would_be_forgotten_and_read_only_after_a_start() {
    let store = Arc::<MemoryStore>::default();
    let lists: Arc<dyn ListStore> = Arc::clone(&store) as _;
    let files = BackendSpec { share: Share::User, ..program("files") };
    let gateway = gateway_that_remembers(&lists, vec![mount_as(&files, &Backend::with_tools(&["read"]))]);
    let client = |user: &str| Client::of(gateway.merged(), user, Rights::all_backends());
    client("ann").tools().await;
    settled().await;
    let loads = store.loads.load(Ordering::Relaxed);
    for user in ["eve", "bob"] {
        assert_eq!(client(user).tools().await, "files__read");
    }
    settled().await;
    assert_eq!(store.loads.load(Ordering::Relaxed), loads, "all are shown what this run has fetched");

    // the age of the one list of tools that is stored, in hours, after a user has asked for it once more
    let age_after = async |hours: u64| {
        tokio::time::advance(Duration::from_hours(hours)).await;
        client("ann").tools().await;
        settled().await;
        assert_eq!(store.owners(), [(id("files"), None)]);
        let lists = store.lists.lock();
        let (_, (_, stored)) = lists.iter().find(|(place, _)| place.method == Method::ToolsList).unwrap();
        stored.elapsed().as_secs() / 3600
    };
    assert_eq!(age_after(23).await, 23, "it has not changed");
    assert_eq!(age_after(2).await, 0, "and is stored again before it would be forgotten");
}

/// Waits for fetches in the background.
async fn settled() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_remembered_list_decides_nothing_about_a_call() {
    let lists: Arc<dyn ListStore> = Arc::<MemoryStore>::default();
    let files = program("files");
    let mirrored = r#"{"resultType":"complete","tools":[{"name":"look","inputSchema":{"type":"object",
        "properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}]}"#;
    let call = r#"{"name":"files__look","arguments":{"region":"eu"}}"#;
    {
        let before = Backend::speaking(Revision::V2026_07_28, mirrored);
        let client = Client::new(gateway_that_remembers(&lists, vec![mount_as(&files, &before)]).merged());
        client.tools().await;
        client.ask(Method::ToolsCall, call).await;
        assert_eq!(*before.mirrors.lock(), ["region=eu"]);
    }
    let slow = asleep(&["look"]);
    let gateway = gateway_that_remembers(&lists, vec![mount_as(&files, &slow)]);
    let client = Client::new(gateway.merged());
    assert_eq!(client.tools().await, "files__look");
    client.ask(Method::ToolsCall, call).await;
    assert_eq!(*slow.mirrors.lock(), [""], "it goes to its server, and nothing is mirrored by an old list");
    // and what the old list shows opens nothing to others
    let stranger = Client::of(gateway.merged(), "eve", Rights::none());
    assert_eq!(stranger.tools().await, "");
    assert!(stranger.ask(Method::ToolsCall, call).await.starts_with("error -32602"));
}

#[tokio::test(start_paused = true)]
async fn changed_rules_and_removed_servers_are_not_remembered() {
    let lists: Arc<dyn ListStore> = Arc::<MemoryStore>::default();
    {
        let both = [program("files"), program("time")];
        let mounts = both.iter().map(|spec| mount_as(spec, &Backend::with_tools(&["read", "write"]))).collect();
        Client::new(gateway_that_remembers(&lists, mounts).merged()).tools().await;
    }
    let deny = NameGlobs::parse(vec!["write".to_owned()]).unwrap();
    let rules = Some(Arc::new(ToolRules { deny, ..ToolRules::default() }));
    let files = BackendSpec { tools: rules, ..program("files") };
    let slow = asleep(&["read", "write"]);
    let gateway = gateway_that_remembers(&lists, vec![mount_as(&files, &slow)]);
    let client = Client::new(gateway.merged());
    let listed = background(async move { client.tools().await });
    tokio::task::yield_now().await;
    assert!(!listed.is_finished(), "what the rules leave out today is not shown");
    slow.awake.send_replace(true);
    assert_eq!(listed.await.unwrap(), "files__read");
}

#[tokio::test(start_paused = true)]
async fn the_lists_of_a_server_that_tells_callers_apart_are_their_users_own() {
    let store = Arc::<MemoryStore>::default();
    let lists: Arc<dyn ListStore> = Arc::clone(&store) as _;
    let mail = program_of_users("mail");
    {
        let gateway = gateway_that_remembers(&lists, vec![mount_as(&mail, &Backend::with_tools(&["inbox_of_ann"]))]);
        let ann = Client::of(gateway.merged(), "ann", Rights::all_backends());
        assert_eq!(ann.tools().await, "mail__inbox_of_ann");
    }
    assert_eq!(store.owners(), [(id("mail"), Some(UserId::new("ann")))], "nothing for everybody");
    let slow = asleep(&["inbox_of_eve"]);
    let gateway = gateway_that_remembers(&lists, vec![mount_as(&mail, &slow)]);
    let ann = Client::of(gateway.merged(), "ann", Rights::all_backends());
    assert_eq!(ann.tools().await, "mail__inbox_of_ann");
    let eve = Client::of(gateway.merged(), "eve", Rights::all_backends());
    let listed = background(async move { eve.tools().await });
    tokio::task::yield_now().await;
    assert!(!listed.is_finished(), "the list of another user is not shown");
    slow.awake.send_replace(true);
    assert_eq!(listed.await.unwrap(), "mail__inbox_of_eve");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_its_server_calls_private_is_kept_for_its_user_alone() {
    let store = Arc::<MemoryStore>::default();
    let lists: Arc<dyn ListStore> = Arc::clone(&store) as _;
    let private = r#"{"resultType":"complete","ttlMs":1000,"cacheScope":"private","tools":[{"name":"own","inputSchema":{"type":"object"}}]}"#;
    let backend = Backend::speaking(Revision::V2026_07_28, private);
    let files = BackendSpec { share: Share::User, ..program("files") };
    let gateway = gateway_that_remembers(&lists, vec![mount_as(&files, &backend)]);
    assert_eq!(Client::of(gateway.merged(), "ann", Rights::all_backends()).tools().await, "files__own");
    assert_eq!(store.owners(), [(id("files"), Some(UserId::new("ann")))]);
}
