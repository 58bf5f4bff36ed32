//! Extensions that the gateway knows nothing of: where they are declared, who may send their methods, and their part of a listen.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use lockkeeper::{
    gateway::Gateway,
    mcp::{Event, Method, Notification, Payload, Reply, Revision, listen::Filter},
    model::{Access, AllowedBackends, BackendSpec, GroupSpec, Groups, NameGlobs, Rights, ToolRules},
};
use serde_json::{Value, json};

use super::script::{Backend, Client, gateway_with, heard, id, mount, mount_as, settings, spec};

const SKILLS: &str = "io.modelcontextprotocol/skills";
const EVENTS: &str = "io.modelcontextprotocol/events";
const PAGES: &str = "io.modelcontextprotocol/ui";

/// A server with Skills and Events, by both names that the latter had, as `plain`, as `ruled` with rules for its tools, and as
/// `open`, where everybody may send the methods of Skills; and a group of all.
fn world() -> (Arc<Backend>, Arc<Gateway>) {
    let backend = Backend::with_tools(&["look"]);
    let about = r#"{"capabilities":{ "tools":{"listChanged":true}, "events":{"x":1.0},"tasks":{},"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true},"io.modelcontextprotocol/events":{}, "io.modelcontextprotocol/ui":{}}},"x":1.0}"#;
    about.clone_into(&mut backend.about.lock());
    let rules = ToolRules { deny: NameGlobs::parse(vec!["x".to_owned()]).unwrap(), ..ToolRules::default() };
    let allow_methods = NameGlobs::parse(vec!["skills/*".to_owned()]).unwrap();
    let mounts = vec![
        mount("plain", &backend),
        mount_as(&BackendSpec { tools: Some(Arc::new(rules)), ..spec("ruled") }, &backend),
        mount_as(&BackendSpec { allow_methods, ..spec("open") }, &backend),
    ];
    let servers = vec![id("plain"), id("open")];
    let groups: Groups = std::iter::once(GroupSpec { id: id("team"), servers, tools: None }).collect();
    let gateway = gateway_with(settings(), Vec::new());
    gateway.replace(mounts, &groups);
    (backend, gateway)
}

fn at(gateway: &Gateway, place: &str, access: Access) -> Client {
    let server = if place.is_empty() { Some(gateway.merged()) } else { gateway.single(&id(place)) };
    let mut rights = Rights::none();
    match access {
        Access::Full => rights.backends = AllowedBackends::All,
        Access::ReadOnly => ["plain", "ruled", "open"].iter().for_each(|name| rights.backends.allow(&id(name), access)),
    }
    Client::of(server.unwrap(), "ann", rights).speaking(Revision::V2026_07_28)
}

async fn capabilities(client: &Client) -> Value {
    let about: Value = serde_json::from_str(&client.ask(Method::Discover, "").await).unwrap();
    about["capabilities"].clone()
}

/// The declared extensions, and the methods that reach the server.
async fn told(backend: &Backend, client: &Client) -> (Vec<String>, Vec<&'static str>) {
    let capabilities = capabilities(client).await;
    let mut declared: Vec<String> =
        capabilities["extensions"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    declared.extend(capabilities.get("events").map(|_| "events".to_owned()));
    let mut sent = Vec::new();
    for method in ["skills/list", "events/list"] {
        let before = backend.asked(method).len();
        let answer = client.ask(Method::parse(method), "{}").await;
        let has_come = backend.asked(method).len() > before;
        assert_eq!(has_come, !answer.starts_with("error -32601"), "{answer}");
        if has_come {
            sent.push(method);
        }
    }
    (declared, sent)
}

#[tokio::test]
async fn an_extension_is_declared_to_those_who_may_send_its_methods_and_to_nobody_else() {
    let (backend, gateway) = world();
    let (all, pages) = (vec![EVENTS, SKILLS, PAGES, "events"], vec![PAGES]);
    let both = vec!["skills/list", "events/list"];
    for (place, access, declared, sent) in [
        ("plain", Access::Full, all.clone(), both.clone()),
        ("open", Access::Full, all, both),
        ("ruled", Access::Full, pages.clone(), vec![]),
        ("plain", Access::ReadOnly, pages.clone(), vec![]),
        ("ruled", Access::ReadOnly, pages.clone(), vec![]),
        ("open", Access::ReadOnly, vec![SKILLS, PAGES], vec!["skills/list"]),
        // no server of several gets them
        ("", Access::Full, pages.clone(), vec![]),
        ("team", Access::Full, pages.clone(), vec![]),
        ("", Access::ReadOnly, pages, vec![]),
    ] {
        let mut found = told(&backend, &at(&gateway, place, access)).await;
        found.0.sort_by_key(|name| declared.iter().position(|other| other == name));
        assert_eq!(found, (declared.into_iter().map(str::to_owned).collect(), sent), "{place} {access:?}");
    }
}

#[tokio::test]
async fn what_is_shown_passes_untouched() {
    let (backend, gateway) = world();
    assert_eq!(at(&gateway, "plain", Access::Full).ask(Method::Discover, "").await, *backend.about.lock());
    let narrow = at(&gateway, "ruled", Access::Full).ask(Method::Discover, "").await;
    assert_eq!(
        narrow,
        r#"{"capabilities":{ "tools":{"listChanged":true},"tasks":{},"extensions":{ "io.modelcontextprotocol/ui":{}}},"x":1.0}"#
    );
    // where nothing is left, nothing is declared
    let (backend, gateway) = world();
    *backend.about.lock() = r#"{"capabilities":{"extensions":{"x/y":{}},"logging":{}}}"#.to_owned();
    let narrow = at(&gateway, "ruled", Access::Full).ask(Method::Discover, "").await;
    assert_eq!(narrow, r#"{"capabilities":{"logging":{}}}"#);
}

/// The parameters of a listen for this, as the gateway writes them.
fn chosen(others: &Value) -> String {
    let others = others.as_object().unwrap().clone().into_iter().collect();
    let filter = Filter { others, lists: ["toolsListChanged"].into(), ..Filter::default() };
    String::from_utf8(filter.params().json().to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn members_of_a_filter_that_nobody_knows_pass_to_a_server_that_gets_everything() {
    let (backend, gateway) = world();
    *backend.answer.lock() = Some(Box::new(|call| {
        assert_eq!(call.method.as_str(), "subscriptions/listen");
        let say = |method: &str, params: &Value| {
            let params = Payload::of(Revision::V2026_07_28, params);
            Event::Notified(Notification { method: Method::parse(method), params })
        };
        let mut honoured: Value = call.params.view().unwrap();
        honoured["notifications"].as_object_mut().unwrap().remove("x/unwanted");
        honoured["notifications"]["toolsListChanged"] = true.into();
        let said = [
            say("notifications/subscriptions/acknowledged", &honoured),
            say("notifications/tools/list_changed", &json!({})),
            say("notifications/events/list_changed", &json!({ "x": 1 })),
        ];
        Reply::new(stream::iter(said).chain(stream::pending()))
    }));
    let others = json!({ "eventsListChanged": true, "methods": ["x"], "x/unwanted": {} });
    let passed = r#"{"notifications":{"eventsListChanged":true,"methods":["x"],"x/unwanted":{}}}"#;
    for (place, access, is_passed) in [
        ("plain", Access::Full, true),
        ("plain", Access::ReadOnly, false),
        ("ruled", Access::Full, false),
        ("", Access::Full, false),
        ("team", Access::Full, false),
    ] {
        let before = backend.asked("subscriptions/listen").len();
        let (acknowledged, rest) = heard(at(&gateway, place, access).call(Method::Listen, &chosen(&others))).await;
        let acknowledged: Value = serde_json::from_str(acknowledged.split_once(' ').unwrap().1).unwrap();
        let honoured = Filter::of(&Payload::of(Revision::V2026_07_28, &acknowledged));
        assert_eq!(honoured.lists.len(), 1, "{place}");
        let asked = backend.asked("subscriptions/listen").split_off(before);
        let own: Vec<_> = asked.iter().filter(|params| *params == passed).collect();
        assert_eq!((own.len(), honoured.others.len()), if is_passed { (1, 2) } else { (0, 0) }, "{place}: {asked:?}");
        if is_passed {
            assert_eq!(heard(rest).await.0, r#"notifications/events/list_changed {"x":1}"#);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_without_them_does_not_hold_a_listen_up() {
    let (backend, gateway) = world();
    let client = at(&gateway, "plain", Access::Full);
    let (acknowledged, rest) = heard(client.call(Method::Listen, &chosen(&json!({ "eventsListChanged": true })))).await;
    assert!(acknowledged.contains("toolsListChanged") && !acknowledged.contains("events"), "{acknowledged}");
    drop(rest);
    assert_eq!(backend.asked("subscriptions/listen").iter().filter(|params| params.contains("events")).count(), 1);
}
