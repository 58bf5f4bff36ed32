//! Verdicts: people with several scopes and keys at every server, and one who names what she may not see, through every door.

use std::{fmt::Write as _, sync::Arc};

use lockkeeper::{
    gateway::Gateway,
    mcp::{Method, Outcome, listen::Filter},
    model::{
        Access, AllowedBackends, BackendSpec, GroupSpec, Groups, NameGlobs, Rights, Scopes, Target, ToolRules,
        access::granted,
    },
};

use super::script::{Backend, Client, gateway_with, heard, id, mount, mount_as, settings, spec};

/// Questions to a server: a word for each, the method, and the name in it.
const ASKED: [(&str, &str, &str); 12] = [
    ("look", "tools/call", "look"),
    ("write", "tools/call", "write"),
    ("hide", "tools/call", "hide"),
    ("none", "tools/call", "none"),
    ("prompt", "prompts/get", "p"),
    ("resource", "resources/read", "x:1"),
    ("subscribe", "resources/subscribe", "x:1"),
    ("complete", "completion/complete", "ref/prompt"),
    ("complete-tool", "completion/complete", "ref/tool"),
    ("x/do", "x/do", ""),
    ("sample", "sampling/createMessage", ""),
    ("x-told", "notifications/x", ""),
];

const SERVERS: [&str; 3] = ["plain", "ruled", "open"];

/// The servers `plain`, `ruled` with rules for its tools, and `open` where everybody may send `x/do`; and the group `team` of
/// the first two, without a tool of the first.
struct World {
    backends: Vec<Arc<Backend>>,
    gateway: Arc<Gateway>,
    groups: Groups,
}

// === impl World ===

impl World {
    fn new() -> Self {
        let backends: Vec<_> = SERVERS.iter().map(|_| Backend::with_tools(&["look", "write", "hide"])).collect();
        let rules = |deny| ToolRules { deny: globs(deny), ..ToolRules::default() };
        let mounts = vec![
            mount("plain", &backends[0]),
            mount_as(&BackendSpec { tools: Some(Arc::new(rules("hide"))), ..spec("ruled") }, &backends[1]),
            mount_as(&BackendSpec { allow_methods: globs("x/do"), ..spec("open") }, &backends[2]),
        ];
        let servers = vec![id("plain"), id("ruled")];
        let groups: Groups =
            std::iter::once(GroupSpec { id: id("team"), servers, tools: Some(rules("plain__write")) }).collect();
        let gateway = gateway_with(settings(), Vec::new());
        gateway.replace(mounts, &groups);
        Self { backends, gateway, groups }
    }

    /// A client at the endpoint of a server or group, or at the merged one.
    fn at(&self, place: &str, user: &str, rights: Rights) -> Client {
        let server = if place.is_empty() { Some(self.gateway.merged()) } else { self.gateway.single(&id(place)) };
        Client::of(server.unwrap(), user, rights)
    }

    /// A client with a token of these scopes, through a key with these rights.
    fn with_token(&self, place: &str, scopes: &str, key: &str) -> Client {
        let target = if place.is_empty() { Target::Merged } else { Target::Backend(id(place)) };
        self.at(place, "ann", granted(&Scopes::parse(scopes).unwrap(), &target, &self.groups, &rights(key)))
    }

    /// The words of what reaches the server, and the tools that are listed of it.
    async fn reached(&self, client: &Client, place: &str, at: usize) -> String {
        let (server, backend) = (SERVERS[at], &self.backends[at]);
        let prefix = if place == server { String::new() } else { format!("{server}__") };
        let mut reached = Vec::new();
        for (word, method, name) in ASKED {
            let before = backend.asked(method).len();
            client.ask(Method::parse(method), &params(method, name, &prefix)).await;
            if backend.asked(method).len() > before {
                reached.push(word);
            }
        }
        let listed = client.ask(Method::ToolsList, "").await;
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap_or_default();
        let names = listed["tools"].as_array().into_iter().flatten().filter_map(|tool| tool["name"].as_str());
        let names: Vec<_> = names.filter_map(|name| name.strip_prefix(&*prefix)).collect();
        if reached.is_empty() && names.is_empty() {
            return String::new();
        }
        format!("{} ({})", reached.join(" "), names.join(" "))
    }
}

/// The parameters that name this at a server whose names have this prefix.
fn params(method: &str, name: &str, prefix: &str) -> String {
    let uri = prefix.strip_suffix("__").map_or_else(|| name.to_owned(), |server| format!("{server}+{name}"));
    match method {
        "resources/read" | "resources/subscribe" => format!(r#"{{"uri":"{uri}"}}"#),
        "completion/complete" => {
            format!(r#"{{"ref":{{"type":"{name}","name":"{prefix}p"}},"argument":{{"name":"a","value":""}}}}"#)
        }
        _ => format!(r#"{{"name":"{prefix}{name}"}}"#),
    }
}

fn globs(pattern: &str) -> NameGlobs {
    NameGlobs::parse(vec![pattern.to_owned()]).unwrap()
}

/// Rights by name: `*` for all, `:read` after a name for the right to read.
fn rights(text: &str) -> Rights {
    let mut rights = Rights::none();
    for word in text.split_whitespace() {
        match (word, word.strip_suffix(":read")) {
            ("*", _) => rights.backends = AllowedBackends::All,
            (_, Some(name)) => rights.backends.allow(&id(name), Access::ReadOnly),
            (name, None) => rights.backends.allow(&id(name), Access::Full),
        }
    }
    rights
}

#[tokio::test]
async fn scopes_and_rights_decide_alike_at_every_endpoint() {
    let world = World::new();
    let mut table = String::new();
    for (scopes, key) in [
        ("mcp:use", "*"),
        ("mcp:use", "plain:read ruled:read open:read"),
        ("mcp:plain:read mcp:open", "*"),
        ("mcp:use", "plain"),
        ("mcp:plain", "ruled"),
        ("mcp:team", "team"),
        ("mcp:team:read", "*"),
        ("mcp:use", ""),
    ] {
        for place in ["", "plain", "ruled", "open", "team"] {
            let client = world.with_token(place, scopes, key);
            for (at, server) in SERVERS.iter().enumerate() {
                let there = place == *server || matches!((place, *server), ("", _) | ("team", "plain" | "ruled"));
                let reached = if there { world.reached(&client, place, at).await } else { String::new() };
                if !reached.is_empty() {
                    writeln!(table, "{scopes} by [{key}] at /{place} {server}: {reached}").unwrap();
                }
            }
        }
    }
    // a scope and a key that have nothing in common, and a key without rights, reach nothing
    insta::assert_snapshot!(table, @r"
    mcp:use by [*] at / plain: look write hide none prompt resource subscribe complete x-told (look write hide)
    mcp:use by [*] at / ruled: look write prompt resource subscribe complete (look write)
    mcp:use by [*] at / open: look write hide none prompt resource subscribe complete x-told (look write hide)
    mcp:use by [*] at /plain plain: look write hide none prompt resource subscribe complete complete-tool x/do sample x-told (look write hide)
    mcp:use by [*] at /ruled ruled: look write prompt resource subscribe complete complete-tool sample (look write)
    mcp:use by [*] at /open open: look write hide none prompt resource subscribe complete complete-tool x/do sample x-told (look write hide)
    mcp:use by [*] at /team plain: look hide prompt resource subscribe complete (look hide)
    mcp:use by [*] at /team ruled: look write prompt resource subscribe complete (look write)
    mcp:use by [plain:read ruled:read open:read] at / plain: look prompt resource subscribe complete (look)
    mcp:use by [plain:read ruled:read open:read] at / ruled: look prompt resource subscribe complete (look)
    mcp:use by [plain:read ruled:read open:read] at / open: look prompt resource subscribe complete (look)
    mcp:use by [plain:read ruled:read open:read] at /plain plain: look prompt resource subscribe complete (look)
    mcp:use by [plain:read ruled:read open:read] at /ruled ruled: look prompt resource subscribe complete (look)
    mcp:use by [plain:read ruled:read open:read] at /open open: look prompt resource subscribe complete x/do (look)
    mcp:use by [plain:read ruled:read open:read] at /team plain: look prompt resource subscribe complete (look)
    mcp:use by [plain:read ruled:read open:read] at /team ruled: look prompt resource subscribe complete (look)
    mcp:plain:read mcp:open by [*] at / plain: look prompt resource subscribe complete (look)
    mcp:plain:read mcp:open by [*] at / open: look write hide none prompt resource subscribe complete x-told (look write hide)
    mcp:plain:read mcp:open by [*] at /plain plain: look prompt resource subscribe complete (look)
    mcp:plain:read mcp:open by [*] at /open open: look write hide none prompt resource subscribe complete complete-tool x/do sample x-told (look write hide)
    mcp:plain:read mcp:open by [*] at /team plain: look prompt resource subscribe complete (look)
    mcp:use by [plain] at / plain: look write hide none prompt resource subscribe complete x-told (look write hide)
    mcp:use by [plain] at /plain plain: look write hide none prompt resource subscribe complete complete-tool x/do sample x-told (look write hide)
    mcp:use by [plain] at /team plain: look hide prompt resource subscribe complete (look hide)
    mcp:team by [team] at /team plain: look hide prompt resource subscribe complete (look hide)
    mcp:team by [team] at /team ruled: look write prompt resource subscribe complete (look write)
    mcp:team:read by [*] at /team plain: look prompt resource subscribe complete (look)
    mcp:team:read by [*] at /team ruled: look prompt resource subscribe complete (look)
    ");
}

/// The doors of an endpoint with these names, and the answers there.
async fn answers(client: &Client, server: &str, prefix: &str) -> Vec<String> {
    let mut answers = Vec::new();
    let uri = if prefix.is_empty() { "x:1".to_owned() } else { format!("{server}+x:1") };
    let task = if prefix.is_empty() { "t".to_owned() } else { format!("{server}.t") };
    let asked = ASKED.map(|(_, method, name)| (method, params(method, name, prefix)));
    let tasks = ["tasks/get", "tasks/result", "tasks/cancel", "tasks/update"];
    let tasks = tasks.map(|method| (method, format!(r#"{{"taskId":"{task}"}}"#)));
    let more = [
        ("resources/unsubscribe", format!(r#"{{"uri":"{uri}"}}"#)),
        ("completion/complete", format!(r#"{{"ref":{{"type":"ref/resource","uri":"{uri}"}}}}"#)),
        ("logging/setLevel", r#"{"level":"debug"}"#.to_owned()),
        ("notifications/roots/list_changed", String::new()),
        ("server/discover", String::new()),
    ];
    let lists = ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "tasks/list"];
    let lists = lists.map(|method| (method, String::new()));
    for (method, params) in asked.into_iter().chain(tasks).chain(more).chain(lists) {
        let answer = client.ask(Method::parse(method), &params).await;
        answers.push(format!("{method}: {}", answer.replace(server, "SERVER")));
    }
    answers
}

#[tokio::test]
async fn a_person_who_names_a_hidden_server_gets_what_one_that_does_not_exist_gets_and_reaches_nothing() {
    let world = World::new();
    let ann = world.at("", "ann", Rights::all_backends());
    assert!(ann.tools().await.contains("ruled__look"));
    let before = world.backends[1].sessions.lock().len();
    let bob = || rights("plain:read open");
    for place in ["", "team"] {
        let client = world.at(place, "bob", bob());
        let hidden = answers(&client, "ruled", "ruled__").await;
        let unknown = answers(&client, "nobody", "nobody__").await;
        assert_eq!(hidden, unknown, "{place:?}");
        assert!(hidden.iter().all(|answer| !answer.contains("ruled")), "{hidden:?}");
        // a listen is acknowledged without what it may not hear
        let asked = listen_params("ruled");
        let (acknowledged, _rest) = heard(client.call(Method::Listen, &asked)).await;
        let (for_nobody, _rest) = heard(client.call(Method::Listen, &listen_params("nobody"))).await;
        assert_eq!(acknowledged, for_nobody);
        assert!(!acknowledged.contains("x:1") && !acknowledged.contains(".t"), "{acknowledged}");
    }
    // at the endpoint of the hidden server everything is alike, whatever it names
    let client = world.at("ruled", "bob", bob());
    for answer in answers(&client, "ruled", "").await {
        let refused = ["Unknown tool: ", "Unknown server: it is not configured, or not for you"];
        let is_notification = answer.starts_with("notifications/");
        assert!(is_notification || refused.iter().any(|text| answer.contains(text)), "{answer}");
    }
    let listens = client.call(Method::Listen, &listen_params("ruled")).outcome();
    assert!(matches!(listens.await, Outcome::Failed(_)));
    // the gateway itself asks without a session
    let calls = world.backends[1].sessions.lock()[before..].to_vec();
    assert!(calls.iter().all(|(_, session)| session.is_none()), "{calls:?}");
    // and a server that he may read gets nothing else
    answers(&world.at("", "bob", bob()), "plain", "plain__").await;
    answers(&world.at("plain", "bob", bob()), "plain", "").await;
    assert_eq!(world.backends[0].asked("tools/call"), vec![r#"{"name":"look"}"#; 2]);
    assert!(world.backends[0].asked("sampling/createMessage").is_empty());
}

fn listen_params(server: &str) -> String {
    let filter = Filter {
        lists: ["toolsListChanged", "promptsListChanged", "resourcesListChanged"].into(),
        resources: [format!("{server}+x:1")].into(),
        tasks: [format!("{server}.t")].into(),
        ..Filter::default()
    };
    String::from_utf8(filter.params().json().to_vec()).unwrap()
}
