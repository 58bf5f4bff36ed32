//! Groups of backends at endpoints of their own.

use std::sync::Arc;

use lockkeeper::{
    gateway::{Gateway, GatewaySettings},
    mcp::{Method, Revision},
    model::{
        Access, AllowedBackends, BackendSpec, GroupSpec, Groups, NameGlobs, Rights, ToolRules, tool_rules::Renaming,
    },
};

use super::script::{Backend, Client, gateway_with, heard, id, mount, mount_as, spec};

fn names(patterns: &[&str]) -> NameGlobs {
    NameGlobs::parse(patterns.iter().map(|&pattern| pattern.to_owned()).collect()).unwrap()
}

fn rules(allow: &[&str], deny: &[&str]) -> ToolRules {
    ToolRules { allow: Some(names(allow)), deny: names(deny), ..ToolRules::default() }
}

fn group(name: &str, servers: &[&str], tools: Option<ToolRules>) -> GroupSpec {
    GroupSpec { id: id(name), servers: servers.iter().map(|server| id(server)).collect(), tools }
}

/// Three backends `b1` to `b3`, each with the tools `get` and `set`, and their groups.
struct World {
    backends: Vec<Arc<Backend>>,
    gateway: Arc<Gateway>,
}

impl World {
    fn new(groups: impl IntoIterator<Item = GroupSpec>) -> Self {
        let backends: Vec<_> = (0..3).map(|_| Backend::with_tools(&["get", "set"])).collect();
        let gateway = gateway_with(GatewaySettings { page_size: 2, ..super::script::settings() }, Vec::new());
        let world = Self { backends, gateway };
        world.put(groups);
        world
    }

    fn put(&self, groups: impl IntoIterator<Item = GroupSpec>) {
        let named = self.backends.iter().enumerate();
        let mounts = named.map(|(at, backend)| mount(&format!("b{}", at + 1), backend)).collect();
        self.gateway.replace(mounts, &groups.into_iter().collect::<Groups>());
    }

    /// A client with all rights at a group.
    fn at(&self, name: &str) -> Client {
        Client::new(self.gateway.single(&id(name)).unwrap())
    }

    /// A client with these rights.
    fn with_rights(&self, name: &str, allowed: &[(&str, Access)]) -> Client {
        let allowed = allowed.iter().map(|(name, access)| ((*name).to_owned(), *access)).collect();
        let rights = Rights { backends: AllowedBackends::Only(allowed), admin: false };
        Client::of(self.gateway.single(&id(name)).unwrap(), "bob", rights)
    }

    fn called(&self) -> Vec<usize> {
        self.backends.iter().map(|backend| backend.asked("tools/call").len()).collect()
    }
}

async fn call(client: &Client, name: &str) -> String {
    client.ask(Method::ToolsCall, &format!(r#"{{"name":"{name}"}}"#)).await
}

fn unknown(name: &str) -> String {
    format!("error -32602 Unknown tool: {name}")
}

/// The names of all tools, page by page.
async fn all_tools(client: &Client) -> Vec<String> {
    let (mut names, mut params) = (Vec::new(), "{}".to_owned());
    loop {
        let page = client.ask(Method::ToolsList, &params).await;
        let page: serde_json::Value = serde_json::from_str(&page).unwrap();
        names.extend(page["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["nextCursor"].as_str() else { return names };
        params = format!(r#"{{"cursor":"{cursor}"}}"#);
    }
}

#[tokio::test]
async fn a_group_has_its_servers_in_its_order_and_no_other() {
    let world = World::new([group("work", &["b3", "b1"], None)]);
    for revision in [Revision::V2024_11_05, Revision::V2025_11_25, Revision::V2026_07_28] {
        let client = world.at("work").speaking(revision);
        assert_eq!(all_tools(&client).await, ["b3__get", "b3__set", "b1__get", "b1__set"]);
        assert!(call(&client, "b1__get").await.starts_with(r#"{"got":"#));
        assert_eq!(call(&client, "b2__get").await, unknown("b2__get"));
        let read = client.ask(Method::ResourcesRead, r#"{"uri":"b2+x:1"}"#).await;
        assert!(read.starts_with("error -3200") || read.starts_with("error -32602"), "{read}");
        let prompt = client.ask(Method::PromptsGet, r#"{"name":"b2__p"}"#).await;
        assert_eq!(prompt, "error -32602 Unknown prompt: b2__p");
        let task = client.ask(Method::TasksGet, r#"{"taskId":"b2.1"}"#).await;
        assert_eq!(task, "error -32602 Unknown task: it does not exist, has expired, or is not yours");
    }
    assert_eq!(world.called(), [3, 0, 0]);
    assert!(world.backends[1].asked("resources/read").is_empty());
}

#[tokio::test]
async fn a_tool_that_a_group_leaves_out_is_neither_listed_nor_called_there() {
    let rules = Some(rules(&["b1__*", "b2__get"], &["b1__set"]));
    let world = World::new([group("work", &["b1", "b2"], rules)]);
    for revision in [Revision::V2024_11_05, Revision::V2025_11_25, Revision::V2026_07_28] {
        let client = world.at("work").speaking(revision);
        assert_eq!(all_tools(&client).await, ["b1__get", "b2__get"]);
        for refused in ["b1__set", "b2__set", "b3__get"] {
            assert_eq!(call(&client, refused).await, unknown(refused));
        }
    }
    assert_eq!(world.called(), [0, 0, 0], "nothing of it reaches a server");
    call(&Client::new(world.gateway.merged()), "b1__set").await;
    call(&world.at("b1"), "set").await;
    call(&world.at("work"), "b1__get").await;
    assert_eq!(world.called(), [3, 0, 0], "elsewhere the tools are there");
}

#[tokio::test]
async fn a_tool_in_another_spelling_is_none_of_a_group_with_rules() {
    let world = World::new([group("work", &["b1"], Some(rules(&["*"], &["b1__set"]))), group("free", &["b1"], None)]);
    for name in ["b1__Set", "b1__set ", "b1__\u{ff53}et"] {
        assert_eq!(call(&world.at("work"), name).await, unknown(name));
        call(&world.at("free"), name).await;
    }
    assert_eq!(world.called(), [3, 0, 0], "without rules the server decides");
}

#[tokio::test]
async fn the_rules_of_a_group_count_whole_names_after_the_rules_of_the_server() {
    let long = "a_name_that_is_much_too_long_for_clients_that_take_sixty_four_characters_at_most";
    let backend = Backend::with_tools(&["old", long]);
    let rename = vec![Renaming::parse("old", "new").unwrap()];
    let own = ToolRules { rename, ..ToolRules::default() };
    let gateway = gateway_with(super::script::settings(), Vec::new());
    let tools = Some(rules(&["b1__new", "b1__*_at_most"], &[]));
    let denied = Some(rules(&["*"], &["b1__*_at_most"]));
    let groups = [group("work", &["b1"], tools), group("short", &["b1"], denied)];
    let first = mount_as(&BackendSpec { tools: Some(Arc::new(own)), ..spec("b1") }, &backend);
    gateway.replace(vec![first], &groups.into_iter().collect());
    let client = Client::new(gateway.single(&id("work")).unwrap());
    let listed = all_tools(&client).await;
    assert_eq!((listed.len(), listed[0].as_str()), (2, "b1__new"));
    assert!(listed[1].len() <= 64, "{listed:?}");
    let other = Client::new(gateway.single(&id("short")).unwrap());
    assert_eq!(all_tools(&other).await, ["b1__new"]);
    assert_eq!(call(&other, &listed[1]).await, unknown(&listed[1]), "not under its short name either");
    call(&client, &listed[1]).await;
    assert_eq!(backend.asked("tools/call"), [format!(r#"{{"name":"{long}"}}"#)]);
}

#[tokio::test]
async fn rights_to_a_group_or_to_its_servers_open_what_they_are_for() {
    use Access::{Full, ReadOnly};
    let world = World::new([group("work", &["b1", "b2"], None)]);
    let listed = async |allowed: &[(&str, Access)]| all_tools(&world.with_rights("work", allowed)).await.join(" ");
    assert_eq!(listed(&[("work", Full)]).await, "b1__get b1__set b2__get b2__set");
    assert_eq!(listed(&[("b2", Full), ("b3", Full)]).await, "b2__get b2__set");
    assert_eq!(listed(&[("work", ReadOnly), ("b1", Full)]).await, "b1__get b1__set");
    assert_eq!(listed(&[("b3", Full)]).await, "");
    // a right to the group is none anywhere else
    let own = world.with_rights("b1", &[("work", Full)]);
    assert_eq!(call(&own, "get").await, unknown("get"));
    let merged = Client { server: world.gateway.merged(), ..own };
    assert_eq!(all_tools(&merged).await, [""; 0]);
    assert_eq!(call(&merged, "b1__get").await, unknown("b1__get"));
}

#[tokio::test]
async fn a_cursor_of_one_group_is_none_of_another() {
    let filtered = Some(rules(&["*__get"], &[]));
    let world = World::new([group("work", &["b1", "b2", "b3"], None), group("play", &["b1", "b2", "b3"], filtered)]);
    let page = world.at("work").ask(Method::ToolsList, "{}").await;
    let page: serde_json::Value = serde_json::from_str(&page).unwrap();
    let params = format!(r#"{{"cursor":{}}}"#, page["nextCursor"]);
    let at = async |client: Client| client.ask(Method::ToolsList, &params).await;
    assert!(at(world.at("work")).await.contains("b2__get"));
    assert_eq!(at(world.at("play")).await, "error -32602 Invalid cursor");
    assert_eq!(at(Client::new(world.gateway.merged())).await, "error -32602 Invalid cursor");
}

#[tokio::test(start_paused = true)]
async fn a_listen_at_a_group_tells_of_its_servers_alone_and_of_another_group() {
    let world = World::new([group("work", &["b1", "b2"], None)]);
    let client = world.at("work");
    client.tools().await;
    let listen = client.call(Method::Listen, "");
    let told = tokio::task::unconstrained(async {
        let heard = heard(listen);
        tokio::pin!(heard);
        tokio::select! {
            biased;
            () = tokio::time::sleep(std::time::Duration::from_secs(5)) => {}
            _ = &mut heard => {}
        }
        world.backends[2].set_tools(&["get", "other"]);
        for session in [None, Some("session-1")] {
            world.backends[2].tell(session, Method::ToolsListChanged, "");
        }
        tokio::select! {
            biased;
            (told, _) = &mut heard => return told,
            () = tokio::time::sleep(std::time::Duration::from_secs(5)) => {}
        }
        world.put([group("work", &["b1", "b3"], None)]);
        heard.await.0
    })
    .await;
    assert_eq!(told, "notifications/tools/list_changed");
    assert_eq!(all_tools(&client).await, ["b1__get", "b1__set", "b3__get", "b3__other"]);
    world.put([]);
    assert_eq!(call(&client, "b1__get").await, unknown("b1__get"), "a group that is gone has no tools");
}

#[tokio::test]
async fn a_list_of_a_group_is_public_to_those_who_see_all_of_it() {
    let world = World::new([group("work", &["b1", "b2"], Some(rules(&["*__get"], &[])))]);
    let tools =
        r#"{"resultType":"complete","tools":[{"name":"get","inputSchema":{}}],"ttlMs":9,"cacheScope":"public"}"#;
    for backend in &world.backends {
        *backend.revision.lock() = Revision::V2026_07_28;
        backend.set("tools/list", &[tools]);
    }
    let scope = async |client: Client| {
        let listed = client.speaking(Revision::V2026_07_28).ask(Method::ToolsList, "{}").await;
        serde_json::from_str::<serde_json::Value>(&listed).unwrap()["cacheScope"].as_str().unwrap().to_owned()
    };
    assert_eq!(scope(world.at("work")).await, "public");
    assert_eq!(scope(world.with_rights("work", &[("work", Access::Full)])).await, "public");
    assert_eq!(scope(world.with_rights("work", &[("b1", Access::Full)])).await, "private");
}

#[tokio::test]
async fn what_a_client_mirrors_is_checked_for_the_tools_of_the_group_alone() {
    let world = World::new([group("work", &["b1"], Some(rules(&["*__get"], &[])))]);
    let tool = |name: &str| {
        let region = r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}"#;
        format!(r#"{{"name":"{name}","inputSchema":{region}}}"#)
    };
    *world.backends[0].revision.lock() = Revision::V2026_07_28;
    let tools = format!(r#"{{"resultType":"complete","tools":[{},{}]}}"#, tool("get"), tool("set"));
    world.backends[0].set("tools/list", &[&tools]);
    let mut client = world.at("work").speaking(Revision::V2026_07_28);
    assert_eq!(client.tools().await, "b1__get");
    client.context.mirror = Some(Arc::new([("region".to_owned(), Some("us".to_owned()))].into()));
    let call = async |name: &str| {
        let params = format!(r#"{{"name":"{name}","arguments":{{"region":"eu"}}}}"#);
        client.ask(Method::ToolsCall, &params).await
    };
    assert!(call("b1__get").await.starts_with("error -32020"), "they differ");
    assert_eq!(call("b1__set").await, unknown("b1__set"), "nothing tells that it is there");
    assert_eq!(world.called(), [0, 0, 0]);
}

#[tokio::test]
async fn notifications_subscriptions_and_tasks_reach_the_servers_of_the_group_alone() {
    let world = World::new([group("work", &["b1", "b2"], None)]);
    let client = world.at("work");
    client.tools().await;
    client.ask(Method::RootsListChanged, "{}").await;
    for (method, own, other) in [
        (Method::ResourcesSubscribe, r#"{"uri":"b1+x:1"}"#, r#"{"uri":"b3+x:1"}"#),
        (Method::TasksGet, r#"{"taskId":"b1.t"}"#, r#"{"taskId":"b3.t"}"#),
        (
            Method::Complete,
            r#"{"ref":{"type":"ref/prompt","name":"b1__p"}}"#,
            r#"{"ref":{"type":"ref/prompt","name":"b3__p"}}"#,
        ),
    ] {
        assert!(client.ask(method.clone(), own).await.starts_with('{'), "{method}");
        assert!(client.ask(method.clone(), other).await.starts_with("error"), "{method}");
    }
    let asked = |at: usize| {
        ["notifications/roots/list_changed", "resources/subscribe", "tasks/get", "completion/complete"]
            .map(|method| world.backends[at].asked(method).len())
    };
    assert_eq!([asked(0), asked(1), asked(2)], [[1, 1, 1, 1], [1, 0, 0, 0], [0; 4]]);
}
