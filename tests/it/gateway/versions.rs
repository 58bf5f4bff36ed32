//! Lists of servers of several versions, for clients of several versions.

use std::sync::Arc;

use insta::assert_snapshot;
use lockkeeper::{
    gateway::{Gateway, GatewaySettings},
    mcp::{Call, ErrorObject, Facts, Method, Outcome, Payload, Reply, Revision, translate},
    model::{Access, Rights},
};
use proptest::prelude::*;

use super::script::{Backend, Client, background, gateway, gateway_with, id, mount};

const MODERN: Revision = Revision::V2026_07_28;

/// A tool with everything that only 2026-07-28 allows.
const NEW: &str = r#"{"resultType":"complete","tools":[{ "name":"look","inputSchema":{"type":"object","properties":{"a":true}},"outputSchema":{"type":"array"}}],"ttlMs":300000,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"srv","version":"3"}}}"#;
const OLD: &str = r#"{"tools":[{"name":"b", "inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]}"#;

fn new() -> Arc<Backend> {
    Backend::speaking(MODERN, NEW)
}

fn mixed() -> Arc<Gateway> {
    let old = Backend::speaking(Revision::V2025_11_25, OLD);
    gateway(vec![mount("b1", &new()), mount("b2", &old)])
}

/// A page of tools of modern servers with different hints.
fn hinted(name: &str, hints: &str) -> Arc<Backend> {
    let tool = format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#);
    Backend::speaking(MODERN, &format!(r#"{{"resultType":"complete","tools":[{tool}],{hints}}}"#))
}

async fn hints(client: &Client, params: &str) -> String {
    let result: serde_json::Value = serde_json::from_str(&client.ask(Method::ToolsList, params).await).unwrap();
    format!("{} {}", result["ttlMs"], result["cacheScope"].as_str().unwrap_or_default())
}

#[tokio::test]
async fn each_client_reads_a_merged_list_in_its_own_version() {
    let gateway = mixed();
    let listed = async |revision| {
        let client = Client::new(gateway.merged()).speaking(revision);
        let Outcome::Complete(list) = client.call(Method::ToolsList, "").outcome().await else { panic!("a list") };
        assert_eq!(list.revision, revision);
        String::from_utf8(list.json().to_vec()).unwrap()
    };
    // G05: entries of the other version are translated, those of this one are untouched
    assert_snapshot!(listed(MODERN).await.replace(env!("CARGO_PKG_VERSION"), "V"), @r#"{"resultType":"complete","tools":[{ "name":"b1__look","inputSchema":{"type":"object","properties":{"a":true}},"outputSchema":{"type":"array"}},{"name":"b2__b", "inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"lockkeeper","title":"Lockkeeper","version":"V"}}}"#);
    assert_snapshot!(listed(Revision::V2025_11_25).await, @r#"{"tools":[{ "name":"b1__look","inputSchema":{"type":"object","properties":{"a":{}}},"outputSchema":{"type":"object","properties":{"result":{"type":"array"}},"required":["result"]}},{"name":"b2__b", "inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]}"#);
    assert_snapshot!(listed(Revision::V2025_06_18).await, @r#"{"tools":[{ "name":"b1__look","inputSchema":{"type":"object","properties":{"a":{}}},"outputSchema":{"type":"object","properties":{"result":{"type":"array"}},"required":["result"]}},{"name":"b2__b", "inputSchema":{"type":"object"}}]}"#);
    assert_eq!(listed(MODERN).await, listed(MODERN).await);
}

#[tokio::test]
async fn a_strict_client_gets_only_members_of_its_version() {
    let mut client = Client::new(mixed().merged()).speaking(Revision::V2025_03_26);
    client.context.profile = translate::Profile::Strict;
    assert_snapshot!(client.ask(Method::ToolsList, "").await, @r#"{"tools":[{ "name":"b1__look","inputSchema":{"type":"object","properties":{"a":{}}}},{"name":"b2__b", "inputSchema":{"type":"object"}}]}"#);
}

#[tokio::test(start_paused = true)]
async fn a_merged_list_has_the_narrowest_cache_hints_of_its_parts() {
    let long = hinted("a", r#""ttlMs":300000,"cacheScope":"public""#);
    let short = hinted("b", r#""ttlMs":60000,"cacheScope":"public""#);
    let asked = |other: &Arc<Backend>| {
        Client::new(gateway(vec![mount("b1", &long), mount("b2", other)]).merged()).speaking(MODERN)
    };
    assert_eq!(hints(&asked(&short), "").await, "60000 public");
    assert_eq!(hints(&asked(&hinted("b", r#""ttlMs":900000,"cacheScope":"private""#)), "").await, "300000 private");
    assert_eq!(hints(&asked(&Backend::with_tools(&["b"])), "").await, "0 private");
    // a server without tools declares none
    let none = Backend::with_tools(&[]);
    *none.about.lock() = super::script::about("prompts", "");
    assert_eq!(hints(&asked(&none), "").await, "300000 public");
    let down = hinted("b", "");
    *down.failure.lock() = Some(ErrorObject::internal("unreachable"));
    assert_eq!(hints(&asked(&down), "").await, "5000 public");
}

#[tokio::test]
async fn a_list_that_depends_on_rights_is_private() {
    let (one, two) =
        (hinted("look", r#""ttlMs":9,"cacheScope":"public""#), hinted("b", r#""ttlMs":9,"cacheScope":"public""#));
    let gateway = gateway(vec![mount("b1", &one), mount("b2", &two)]);
    *one.about.lock() =
        r#"{"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"srv"}}}"#.to_owned();
    let mut rights = Rights::none();
    rights.backends.allow(&id("b1"), Access::Full);
    let bob = |rights: &Rights, server| Client::of(server, "bob", rights.clone()).speaking(MODERN);
    assert_eq!(hints(&Client::new(gateway.merged()).speaking(MODERN), "").await, "9 public");
    assert_eq!(hints(&bob(&rights, gateway.merged()), "").await, "9 private");
    assert_eq!(hints(&bob(&rights, gateway.single(&id("b1")).unwrap()), "").await, "9 public");
    let mut rights = Rights::none();
    rights.backends.allow(&id("b1"), Access::ReadOnly);
    assert_snapshot!(bob(&rights, gateway.single(&id("b1")).unwrap()).ask(Method::ToolsList, "").await,
        @r#"{"resultType":"complete","tools":[{"name":"look","inputSchema":{"type":"object"}}],"ttlMs":9,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"srv"}}}"#);
}

#[tokio::test(start_paused = true)]
async fn all_pages_of_a_list_have_the_same_cache_scope() {
    let one = Backend::speaking(MODERN, r#"{"tools":[{"name":"a"},{"name":"b"}],"ttlMs":9,"cacheScope":"public"}"#);
    let settings = GatewaySettings { page_size: 1, ..super::script::settings() };
    let client = Client::new(gateway_with(settings, vec![mount("b1", &one)]).merged()).speaking(MODERN);
    let first: serde_json::Value = serde_json::from_str(&client.ask(Method::ToolsList, "").await).unwrap();
    let cursor = format!(r#"{{"cursor":{}}}"#, first["nextCursor"]);
    assert_eq!((first["cacheScope"].as_str(), hints(&client, &cursor).await.as_str()), (Some("public"), "9 public"));
    // the list changed between the pages
    one.set("tools/list", &[r#"{"tools":[{"name":"a"},{"name":"b"}],"ttlMs":9,"cacheScope":"private"}"#]);
    tokio::time::sleep(std::time::Duration::from_mins(2)).await;
    client.ask(Method::ToolsList, "").await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(hints(&client, "").await, "9 private");
    assert_eq!(client.ask(Method::ToolsList, &cursor).await, "error -32602 Invalid cursor");
}

#[tokio::test]
async fn a_page_of_one_servers_list_names_that_server() {
    let old = Backend::with_tools(&["a", "b"]);
    let about = r#"{"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"srv"}}}"#;
    *old.about.lock() = about.to_owned();
    let settings = GatewaySettings { page_size: 1, ..super::script::settings() };
    let gateway = gateway_with(settings, vec![mount("b1", &old)]);
    let client = Client::new(gateway.single(&id("b1")).unwrap()).speaking(MODERN);
    let Outcome::Complete(page) = client.call(Method::ToolsList, "").outcome().await else { panic!("a page") };
    assert_eq!((page.revision, page.server()), (Revision::V2025_11_25, Some(r#"{"name":"srv"}"#)));
}

#[tokio::test]
async fn the_capabilities_of_a_modern_server_pass_unchanged() {
    let (one, two, old) = (new(), new(), Backend::with_tools(&["old"]));
    *one.about.lock() = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{"mimeTypes":["a"]},"x/y":{"a":1,"b":2},"x/z":{}},"experimental":7},"ttlMs":9,"cacheScope":"public"}"#.to_owned();
    *two.about.lock() = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"x/y":{"b":2,"a":1},"x/z":{"b":1},"io.modelcontextprotocol/tasks":{}}}}"#.to_owned();
    let gateway = gateway(vec![mount("b1", &one), mount("b2", &two), mount("b3", &old)]);
    *old.about.lock() = r#"{"capabilities":{"extensions":{"x/z":{}},"experimental":{"x":{}}}}"#.to_owned();
    let client = Client::new(gateway.merged()).speaking(MODERN);
    let result: serde_json::Value = serde_json::from_str(&client.ask(Method::Discover, "").await).unwrap();
    assert_snapshot!(result["capabilities"], @r#"{"experimental":{"x":{}},"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{"mimeTypes":["a"]}},"resources":{"listChanged":true,"subscribe":true},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}},"tools":{"listChanged":true}}"#);
    let single = Client::new(gateway.single(&id("b1")).unwrap()).speaking(MODERN);
    assert_eq!(single.ask(Method::Discover, "").await, *one.about.lock());
    // a list that the server does not declare is not requested
    assert!(single.ask(Method::PromptsList, "").await.starts_with("error -32601"));
}

#[tokio::test]
async fn pages_of_a_modern_server_are_merged_into_one_list() {
    let one = new();
    let page = |name: &str, more: &str| {
        format!(r#"{{"resultType":"complete","tools":[{{"name":"{name}","inputSchema":{{}}}}]{more}}}"#)
    };
    let first = page("a", r#","nextCursor":"1","ttlMs":9,"cacheScope":"public""#);
    one.set("tools/list", &[&first, &page("b", r#","ttlMs":5,"cacheScope":"public""#)]);
    let gateway = gateway(vec![mount("b1", &one)]);
    let single = Client::new(gateway.single(&id("b1")).unwrap()).speaking(MODERN);
    assert_snapshot!(single.ask(Method::ToolsList, "").await, @r#"{"resultType":"complete","tools":[{"name":"a","inputSchema":{"type":"object"}},{"name":"b","inputSchema":{"type":"object"}}],"ttlMs":5,"cacheScope":"public"}"#);
    assert_eq!(Client::new(gateway.merged()).tools().await, "b1__a b1__b");
}

/// The result of a modern tool, for a client of `revision`.
async fn called(gateway: &Arc<Gateway>, revision: Revision, name: &str) -> String {
    let client = Client::new(gateway.merged()).speaking(revision);
    let outcome = client.call(Method::ToolsCall, &format!(r#"{{"name":"{name}"}}"#)).outcome().await;
    let facts = Facts::new(translate::Kind::Result, &Method::ToolsCall);
    let Ok(Outcome::Complete(result)) = outcome.into_revision(revision, &facts) else { panic!("a result") };
    String::from_utf8(result.json().to_vec()).unwrap()
}

#[tokio::test]
async fn a_result_is_wrapped_if_its_schema_was() {
    let one = Backend::speaking(
        MODERN,
        r#"{"resultType":"complete","tools":[{"name":"any","inputSchema":{},"outputSchema":{"anyOf":[{"type":"object"}]}},{"name":"object","inputSchema":{},"outputSchema":{"type":"object"}}]}"#,
    );
    *one.answer.lock() = Some(Box::new(|_| {
        let result =
            r#"{"resultType":"complete","content":[{"type":"resource_link","uri":"a:b"}],"structuredContent":{"v":1}}"#;
        Reply::complete(Payload::new(MODERN, result.into()))
    }));
    let old = Backend::with_tools(&["any"]);
    let gateway = gateway(vec![mount("b1", &one), mount("b2", &old)]);
    // R10, with a URI that is rewritten on the way; nothing was listed yet
    assert_snapshot!(called(&gateway, Revision::V2025_11_25, "b1__any").await, @r#"{"content":[{"type":"resource_link","uri":"b1+a:b"}],"structuredContent":{"result":{"v":1}}}"#);
    assert_snapshot!(called(&gateway, Revision::V2025_06_18, "b1__object").await, @r#"{"content":[{"type":"resource_link","uri":"b1+a:b"}],"structuredContent":{"v":1}}"#);
    assert_snapshot!(called(&gateway, MODERN, "b1__any").await, @r#"{"resultType":"complete","content":[{"type":"resource_link","uri":"b1+a:b"}],"structuredContent":{"v":1}}"#);
    assert_snapshot!(called(&gateway, Revision::V2025_06_18, "b2__any").await, @r#"{"got":{"name":"any"}}"#);
}

#[tokio::test]
async fn a_result_of_an_unknown_tool_waits_for_the_list() {
    let one = new();
    *one.answer.lock() = Some(Box::new(|call: &Call| {
        let structured =
            if call.params.string("name").as_deref() == Some("look") { r#","structuredContent":{}"# } else { "" };
        let result = format!(r#"{{"resultType":"complete","content":[]{structured}}}"#);
        Reply::complete(Payload::new(MODERN, result.into()))
    }));
    one.awake.send_replace(false);
    let gateway = gateway(vec![mount("b1", &one)]);
    assert_eq!(called(&gateway, Revision::V2025_11_25, "b1__other").await, r#"{"content":[]}"#);
    let waiting = background({
        let gateway = Arc::clone(&gateway);
        async move { called(&gateway, Revision::V2025_11_25, "b1__look").await }
    });
    while one.asked("tools/call").len() < 2 {
        tokio::task::yield_now().await;
    }
    one.awake.send_replace(true);
    assert_eq!(waiting.await.unwrap(), r#"{"content":[],"structuredContent":{"result":{}}}"#);
}

proptest! {
    #[test]
    fn a_modern_servers_own_list_reaches_a_modern_client_byte_for_byte(
        space in "[ \\n\\t]{0,3}", number in "-?[1-9][0-9]{0,30}(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,3})?",
        name in "[a-zA-Z_.]{1,80}", text in "[a-z\\\\u0041 é🦀]{0,12}",
    ) {
        let text = serde_json::Value::from(text).to_string();
        let list = format!(
            "{{{space}\"ttlMs\":{space}7,\"x\":{number},\"tools\":[{space}{{\"name\":\"{name}\",{space}\"n\":{number},\"n\":{text}, \
             \"outputSchema\":false,\"inputSchema\":{{\"type\":\"object\"}}}},\
             {space}{{\"name\":{text},\"inputSchema\":{{{space}\"type\":\"object\"}}}}]{space},\"cacheScope\":\"public\",\"resultType\":\"complete\"}}{space}"
        );
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome = runtime.block_on(async {
            let gateway = gateway(vec![mount("b1", &Backend::speaking(MODERN, &list))]);
            let client = Client::new(gateway.single(&id("b1")).unwrap()).speaking(MODERN);
            client.call(Method::ToolsList, "").outcome().await
        });
        prop_assert_eq!(outcome, Outcome::Complete(Payload::new(MODERN, list.into())));
    }
}
