//! An operator's rules for the tools of a server.

use std::{sync::Arc, time::Duration};

use lockkeeper::{
    gateway::Gateway,
    mcp::{ErrorObject, Method, Revision},
    model::{BackendSpec, NameGlobs, Rights, Share, ToolRules, WritingTools, tool_rules::Renaming},
};
use serde_json::{Value, json};

use super::script::{Backend, Client, gateway, id, mount, mount_as, spec};

/// The versions of both eras.
const VERSIONS: [Revision; 5] =
    [Revision::V2024_11_05, Revision::V2025_03_26, Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28];

fn names(patterns: &[&str]) -> NameGlobs {
    NameGlobs::parse(patterns.iter().map(|&pattern| pattern.to_owned()).collect()).unwrap()
}

/// A server under rules as `b1`, and another as `b2`.
fn ruled(backend: &Arc<Backend>, rules: ToolRules) -> Arc<Gateway> {
    let first = mount_as(&BackendSpec { tools: Some(Arc::new(rules)), ..spec("b1") }, backend);
    gateway(vec![first, mount("b2", &Backend::with_tools(&["look"]))])
}

/// A client of each version, at the merged endpoint and at the server's own, with the prefix of the names there.
fn clients(gateway: &Gateway) -> Vec<(Client, &'static str)> {
    let at = |revision| {
        [(gateway.merged(), "b1__"), (gateway.single(&id("b1")).unwrap(), "")]
            .map(|(server, prefix)| (Client::new(server).speaking(revision), prefix))
    };
    VERSIONS.into_iter().flat_map(at).collect()
}

async fn call(client: &Client, params: Value) -> String {
    client.ask(Method::ToolsCall, &params.to_string()).await
}

#[tokio::test]
async fn a_tool_that_is_left_out_is_neither_listed_nor_called() {
    let backend = Backend::with_tools(&["read_file", "read_secret", "write_file"]);
    let rules = ToolRules { allow: Some(names(&["read_*"])), deny: names(&["*secret"]), ..ToolRules::default() };
    let gateway = ruled(&backend, rules);
    let (merged, own) = (Client::new(gateway.merged()), Client::new(gateway.single(&id("b1")).unwrap()));
    assert_eq!((merged.tools().await.as_str(), own.tools().await.as_str()), ("b1__read_file b2__look", "read_file"));
    for denied in ["read_secret", "write_file", "no_such_tool"] {
        assert_eq!(call(&own, json!({ "name": denied })).await, format!("error -32602 Unknown tool: {denied}"));
        let shown = format!("b1__{denied}");
        assert_eq!(call(&merged, json!({ "name": shown })).await, format!("error -32602 Unknown tool: {shown}"));
    }
    assert!(backend.asked("tools/call").is_empty(), "nothing of it reaches the server");
    call(&merged, json!({ "name": "b1__read_file" })).await;
    call(&own, json!({ "name": "read_file" })).await;
    assert_eq!(backend.asked("tools/call"), [r#"{"name":"read_file"}"#; 2]);
}

#[tokio::test]
async fn read_only_leaves_the_tools_that_say_that_they_change_nothing() {
    let backend = Backend::with_tools(&[]);
    let tools = r#"{"tools":[{"name":"look","annotations":{"readOnlyHint":true}},{"name":"write"},{"name":"odd","annotations":{"readOnlyHint":"true"}}]}"#;
    backend.set("tools/list", &[tools]);
    let gateway = ruled(&backend, ToolRules { read_only: WritingTools::LeftOut, ..ToolRules::default() });
    let client = Client::new(gateway.single(&id("b1")).unwrap());
    // before anybody has listed them
    assert_eq!(call(&client, json!({ "name": "write" })).await, "error -32602 Unknown tool: write");
    assert!(call(&client, json!({ "name": "look" })).await.starts_with(r#"{"got":"#));
    assert_eq!(client.tools().await, "look");
    for refused in ["write", "odd", "no_such_tool"] {
        assert_eq!(call(&client, json!({ "name": refused })).await, format!("error -32602 Unknown tool: {refused}"));
    }
    assert_eq!(backend.asked("tools/call"), [r#"{"name":"look"}"#]);
    // the same at the merged endpoint, under its name there
    let merged = Client::new(gateway.merged());
    assert_eq!(call(&merged, json!({ "name": "b1__write" })).await, "error -32602 Unknown tool: b1__write");
    let lists = backend.asked("tools/list").len();
    for number in 0..20 {
        call(&client, json!({ "name": format!("no_such_tool_{number}") })).await;
    }
    assert_eq!(backend.asked("tools/list").len(), lists, "names that are not there cost the server nothing");
}

#[tokio::test]
async fn a_name_that_two_tools_would_have_is_that_of_the_one_that_is_called() {
    let backend = Backend::with_tools(&["a", "b"]);
    let rename = vec![Renaming::parse("a", "b").unwrap()];
    let gateway = ruled(&backend, ToolRules { rename, ..ToolRules::default() });
    let client = Client::new(gateway.single(&id("b1")).unwrap());
    assert_eq!(client.tools().await, "b");
    call(&client, json!({ "name": "b" })).await;
    assert_eq!(backend.asked("tools/call"), [r#"{"name":"a"}"#]);
}

#[tokio::test]
async fn an_argument_with_a_default_is_not_required_and_null_is_no_argument() {
    let backend = Backend::with_tools(&[]);
    let tools = r#"{"tools":[{"name":"find","inputSchema":{"type":"object","required":["limit","text"]}}]}"#;
    backend.set("tools/list", &[tools]);
    let arguments = [("find".to_owned(), json!({ "limit": 10 }).as_object().unwrap().clone())].into();
    let gateway = ruled(&backend, ToolRules { arguments, ..ToolRules::default() });
    let client = Client::new(gateway.single(&id("b1")).unwrap());
    let listed = client.ask(Method::ToolsList, "{}").await;
    assert!(listed.contains(r#""required":["text"]"#), "{listed}");
    call(&client, json!({ "name": "find", "arguments": null })).await;
    let called: Value = serde_json::from_str(&backend.asked("tools/call").concat()).unwrap();
    assert_eq!(called["arguments"], json!({ "limit": 10 }));
}

#[tokio::test]
async fn names_descriptions_and_default_arguments_are_the_operators() {
    let backend = Backend::with_tools(&[]);
    let tools = r#"{"tools":[{"name":"browser_click","description":"old", "x":1.0},{"name":"look"}]}"#;
    backend.set("tools/list", &[tools]);
    let arguments = json!({ "limit": 10, "deep": { "a": [1] } }).as_object().unwrap().clone();
    let rules = ToolRules {
        rename: vec![Renaming::parse("browser_*", "web_*").unwrap()],
        descriptions: [("browser_click".to_owned(), "Clicks \"it\".".to_owned())].into(),
        arguments: [("browser_click".to_owned(), arguments)].into(),
        ..ToolRules::default()
    };
    let gateway = ruled(&backend, rules);
    let (merged, own) = (Client::new(gateway.merged()), Client::new(gateway.single(&id("b1")).unwrap()));
    assert_eq!(merged.tools().await, "b1__web_click b1__look b2__look");
    let listed = own.ask(Method::ToolsList, "{}").await;
    assert!(listed.contains(r#"{"name":"web_click","description":"Clicks \"it\".", "x":1.0,"#), "{listed}");
    call(&merged, json!({ "name": "b1__web_click", "arguments": { "limit": 3 } })).await;
    call(&own, json!({ "name": "web_click" })).await;
    call(&own, json!({ "name": "look", "arguments": {} })).await;
    assert_eq!(call(&own, json!({ "name": "browser_click" })).await, "error -32602 Unknown tool: browser_click");
    let called: Vec<Value> =
        backend.asked("tools/call").iter().map(|params| serde_json::from_str(params).unwrap()).collect();
    let deep = json!({ "a": [1] });
    assert_eq!(
        called,
        [
            json!({ "name": "browser_click", "arguments": { "limit": 3, "deep": deep } }),
            json!({ "name": "browser_click", "arguments": { "limit": 10, "deep": deep } }),
            json!({ "name": "look", "arguments": {} }),
        ]
    );
}

#[tokio::test]
async fn the_rules_hold_for_clients_of_each_version() {
    let backend = Backend::with_tools(&["read_a", "read_all", "write"]);
    let rules = || ToolRules {
        allow: Some(names(&["read_*"])),
        deny: names(&["*_all"]),
        rename: vec![Renaming::parse("read_*", "get_*").unwrap()],
        ..ToolRules::default()
    };
    // each client is the first of its gateway: no list is there yet
    for at in 0..VERSIONS.len() * 2 {
        let (client, prefix) = clients(&ruled(&backend, rules())).swap_remove(at);
        for denied in ["get_all", "read_all", "read_a", "write", "gone"] {
            let name = format!("{prefix}{denied}");
            assert_eq!(call(&client, json!({ "name": name })).await, format!("error -32602 Unknown tool: {name}"));
        }
        // the name that was checked is the one that the server reads
        client.ask(Method::ToolsCall, &format!(r#"{{"name":"write","name":"{prefix}get_a"}}"#)).await;
        call(&client, json!({ "name": format!("{prefix}get_a") })).await;
        assert!(client.tools().await.starts_with(&format!("{prefix}get_a")));
    }
    let called = backend.asked("tools/call");
    assert!(called.len() >= VERSIONS.len() * 2 && called.iter().all(|params| !params.contains("write")), "{called:?}");
}

/// Other spellings of `danger`, as lenient readers compare them.
const DANGER: [&str; 7] = ["Danger", "danger ", "DANGER", "\u{ff44}anger", "dan\u{ad}ger", "/danger", "danger\u{a0}"];

#[tokio::test]
async fn a_tool_in_another_spelling_is_refused_only_where_there_are_rules() {
    let (ruled, free) = (Backend::with_tools(&["look", "danger"]), Backend::with_tools(&["look", "danger"]));
    let denied = ToolRules { deny: names(&["danger"]), ..ToolRules::default() };
    let first = mount_as(&BackendSpec { tools: Some(Arc::new(denied)), ..spec("b1") }, &ruled);
    let gateway = gateway(vec![first, mount("b2", &free)]);
    for revision in VERSIONS {
        for name in DANGER {
            let name = name.to_owned();
            let client = Client::new(gateway.single(&id("b1")).unwrap()).speaking(revision);
            assert_eq!(call(&client, json!({ "name": name })).await, format!("error -32602 Unknown tool: {name}"));
            let merged = Client::new(gateway.merged()).speaking(revision);
            let shown = format!("b1__{name}");
            assert_eq!(call(&merged, json!({ "name": shown })).await, format!("error -32602 Unknown tool: {shown}"));
            call(&Client::new(gateway.single(&id("b2")).unwrap()).speaking(revision), json!({ "name": name })).await;
        }
    }
    assert!(ruled.asked("tools/call").is_empty());
    assert_eq!(free.asked("tools/call").len(), DANGER.len() * VERSIONS.len(), "without rules the server decides");
}

#[tokio::test]
async fn the_list_of_one_user_is_no_permission_for_another() {
    let backend = Backend::with_tools(&[]);
    let tools = |hint: &str| format!(r#"{{"tools":[{{"name":"write","annotations":{{"readOnlyHint":{hint}}}}}]}}"#);
    backend.set("tools/list", &[&tools("true")]);
    let rules = ToolRules { read_only: WritingTools::LeftOut, ..ToolRules::default() };
    let settings = BackendSpec { tools: Some(Arc::new(rules)), share: Share::User, ..spec("b1") };
    let first = mount_as(&settings, &backend);
    let gateway = gateway(vec![first]);
    let of = |user: &str| Client::of(gateway.single(&id("b1")).unwrap(), user, Rights::all_backends());
    assert_eq!(of("mallory").tools().await, "write");
    backend.set("tools/list", &[&tools("false")]);
    assert_eq!(call(&of("ann"), json!({ "name": "write" })).await, "error -32602 Unknown tool: write");
    assert!(call(&of("mallory"), json!({ "name": "write" })).await.starts_with(r#"{"got":"#));
    assert_eq!(backend.asked("tools/call").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_the_list_and_a_tool_that_comes_later_is_found_in_it() {
    let backend = Backend::with_tools(&["look"]);
    backend.awake.send_replace(false);
    let gateway = ruled(&backend, ToolRules { deny: names(&["write"]), ..ToolRules::default() });
    let client = Client::new(gateway.single(&id("b1")).unwrap());
    let mut waiting = Box::pin(call(&client, json!({ "name": "look" })));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    tokio::time::advance(Duration::from_secs(30)).await;
    assert!(futures_util::poll!(&mut waiting).is_pending() && backend.asked("tools/call").is_empty());
    backend.awake.send_replace(true);
    assert!(waiting.await.starts_with(r#"{"got":"#));
    // the server says nothing of another tool
    backend.set_tools(&["look", "grown"]);
    assert_eq!(call(&client, json!({ "name": "grown" })).await, "error -32602 Unknown tool: grown");
    tokio::time::advance(Duration::from_secs(10)).await;
    assert!(call(&client, json!({ "name": "grown" })).await.starts_with(r#"{"got":"#));
}

#[tokio::test]
async fn without_a_list_a_call_fails_for_the_reason_that_the_list_does() {
    let backend = Backend::with_tools(&["look"]);
    *backend.failure.lock() = Some(ErrorObject::internal("the server is down"));
    let gateway = ruled(&backend, ToolRules { deny: names(&["write"]), ..ToolRules::default() });
    let client = Client::new(gateway.single(&id("b1")).unwrap());
    let answer = call(&client, json!({ "name": "look" })).await;
    assert!(answer.starts_with("error -32603") && answer.contains("the server is down"), "{answer}");
    assert!(backend.asked("tools/call").is_empty());
}
