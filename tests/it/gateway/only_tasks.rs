//! Tools that run only as tasks: who has no tasks calls them all the same.

use std::sync::Arc;

use lockkeeper::{
    gateway::Gateway,
    mcp::{Method, Revision},
    model::{Access, Rights},
};

use super::script::{Backend, Client, background, gateway, id, mount};

/// One tool of each kind, of a server that has tasks.
fn chores() -> (Arc<Backend>, Arc<Gateway>) {
    let backend = Backend::with_tools(&[]);
    let about = r#"{"capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}}}"#;
    about.clone_into(&mut backend.about.lock());
    let tool = |name: &str, execution: &str| format!(r#"{{"name":"{name}","inputSchema":{{}}{execution}}}"#);
    let support = |word: &str| format!(r#","execution":{{"taskSupport":"{word}"}}"#);
    let tools = [
        tool("look", &support("required")),
        tool("some", &support("optional")),
        tool("never", &support("forbidden")),
        tool("plain", ""),
    ];
    backend.set("tools/list", &[&format!(r#"{{"tools":[{}]}}"#, tools.join(","))]);
    let gateway = gateway(vec![mount("b1", &backend)]);
    (backend, gateway)
}

const WITHOUT_TASKS: [Revision; 3] = [Revision::V2024_11_05, Revision::V2025_03_26, Revision::V2025_06_18];

#[tokio::test]
async fn a_client_without_tasks_calls_for_one_where_the_tool_runs_only_so() {
    let (backend, gateway) = chores();
    let mut read_only = Rights::none();
    read_only.backends.allow(&id("b1"), Access::ReadOnly);
    for revision in WITHOUT_TASKS {
        let merged = Client::new(gateway.merged()).speaking(revision);
        merged.ask(Method::ToolsCall, r#"{"name":"b1__look","arguments":{"a":1.0}}"#).await;
        let single = Client::new(gateway.single(&id("b1")).unwrap()).speaking(revision);
        single.ask(Method::ToolsCall, r#"{"name":"look"}"#).await;
        let limited = Client::of(gateway.single(&id("b1")).unwrap(), "bob", read_only.clone());
        limited.speaking(revision).ask(Method::ToolsCall, r#"{"name":"look"}"#).await;
        let called = std::mem::take(&mut *backend.calls.lock());
        let called: Vec<_> = called.iter().filter(|(method, _)| method == "tools/call").map(|(_, text)| text).collect();
        let short = r#"{"name":"look","task":{}}"#;
        assert_eq!(called, [r#"{"name":"look","arguments":{"a":1.0},"task":{}}"#, short, short], "{revision}");
    }
}

#[tokio::test]
async fn other_tools_and_clients_that_have_tasks_call_as_they_like() {
    let (backend, gateway) = chores();
    let old = Client::new(gateway.merged()).speaking(Revision::V2025_06_18);
    let new = Client::new(gateway.merged());
    for (client, name) in [(&old, "some"), (&old, "never"), (&old, "plain"), (&old, "unknown"), (&new, "look")] {
        client.ask(Method::ToolsCall, &format!(r#"{{"name":"b1__{name}"}}"#)).await;
        assert_eq!(backend.asked("tools/call").pop().unwrap(), format!(r#"{{"name":"{name}"}}"#));
    }
    new.ask(Method::ToolsCall, r#"{"name":"b1__look","task":{"ttl":1}}"#).await;
    assert_eq!(backend.asked("tools/call").pop().unwrap(), r#"{"name":"look","task":{"ttl":1}}"#);
}

#[tokio::test]
async fn a_call_waits_for_the_list_that_tells_where_nothing_is_known_yet() {
    let (backend, gateway) = chores();
    backend.awake.send_replace(false);
    let old = Client::new(gateway.merged()).speaking(Revision::V2025_06_18);
    let called = background(async move { old.ask(Method::ToolsCall, r#"{"name":"b1__look"}"#).await });
    let mut asked = backend.asked("server/discover");
    while asked.is_empty() {
        tokio::task::yield_now().await;
        asked = backend.asked("server/discover");
    }
    assert!(backend.asked("tools/call").is_empty());
    backend.awake.send_replace(true);
    assert_eq!(called.await.unwrap(), r#"{"got":{"name":"look","task":{}}}"#);
}

#[tokio::test]
async fn a_tool_that_becomes_one_is_called_so_from_the_change_on() {
    let (backend, gateway) = chores();
    let old = Client::new(gateway.merged()).speaking(Revision::V2025_06_18);
    old.ask(Method::ToolsCall, r#"{"name":"b1__plain"}"#).await;
    backend.set("tools/list", &[r#"{"tools":[{"name":"plain","execution":{"taskSupport":"required"}}]}"#]);
    let listen = old.call(Method::Listen, "");
    let told = background(super::script::heard(listen));
    // the gateway's own
    let listens = ("subscriptions/listen".to_owned(), None);
    while !backend.sessions.lock().contains(&listens) {
        tokio::task::yield_now().await;
    }
    backend.tell(None, Method::ToolsListChanged, "");
    told.await.unwrap();
    assert_eq!(old.ask(Method::ToolsCall, r#"{"name":"b1__plain"}"#).await, r#"{"got":{"name":"plain","task":{}}}"#);
}
