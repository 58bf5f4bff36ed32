//! Lists and `server/discover`, merged and single.

use std::{sync::Arc, time::Duration};

use insta::assert_snapshot;
use lockkeeper::{
    gateway::{ConfiguredBackend, Gateway, GatewaySettings},
    mcp::{ErrorObject, Method, Revision},
    model::{Access, BackendSpec, Groups, Naming, Requester, Rights, Share},
};

use super::script::{
    Backend, Client, about, background, gateway, gateway_that_tells, gateway_with, heard, id, mount, mount_as, payload,
    spec,
};

fn two() -> (Arc<Backend>, Arc<Backend>, Arc<Gateway>) {
    let (one, two) = (Backend::with_tools(&["look", "write"]), Backend::with_tools(&["look"]));
    let gateway = gateway(vec![mount("b1", &one), mount("b2", &two)]);
    (one, two, gateway)
}

#[tokio::test]
async fn tools_of_all_backends_are_listed_in_configured_order() {
    let (one, _, gateway) = two();
    one.set(
        "tools/list",
        &[r#"{"tools":[{ "name" : "look", "x":1.00 }],"nextCursor":"1"}"#, r#"{"tools":[{"name":"a.b"}]}"#],
    );
    let client = Client::new(gateway.merged());
    assert_snapshot!(client.ask(Method::ToolsList, "{}").await,
        @r#"{"tools":[{ "name" : "b1__look", "x":1.00 ,"inputSchema":{"type":"object"}},{"name":"b1__a_b_2e7336dc","inputSchema":{"type":"object"}},{"name":"b2__look","inputSchema":{"type":"object"}}]}"#);
}

#[tokio::test]
async fn prompts_resources_and_templates_are_merged_too() {
    let (one, two, gateway) = two();
    one.set("prompts/list", &[r#"{"prompts":[{"name":"p"}]}"#]);
    one.set("resources/list", &[r#"{"resources":[{"uri":"file:///a","name":"a"}]}"#]);
    two.set("resources/list", &[r#"{"resources":[{"uri":"ui://w/a.html"},{"uri":"https://x/"}]}"#]);
    two.set("resources/templates/list", &[r#"{"resourceTemplates":[{"uriTemplate":"db://{t}"}]}"#]);
    let client = Client::new(gateway.merged());
    assert_snapshot!(client.ask(Method::PromptsList, "").await, @r#"{"prompts":[{"name":"b1__p"}]}"#);
    assert_snapshot!(client.ask(Method::ResourcesList, "").await,
        @r#"{"resources":[{"uri":"b1+file:///a","name":"a"},{"uri":"ui://b2+w/a.html","name":"ui://w/a.html"},{"uri":"https://x/","name":"https://x/"}]}"#);
    assert_snapshot!(client.ask(Method::ResourceTemplatesList, "").await,
        @r#"{"resourceTemplates":[{"uriTemplate":"b2+db://{t}","name":"db://{t}"}]}"#);
    let counts = gateway.counts(&id("b2"));
    assert_eq!((counts.tools, counts.prompts, counts.resources), (1, 0, 3));
}

#[tokio::test]
async fn a_single_endpoint_shows_the_list_as_the_backend_wrote_it() {
    let (one, _, gateway) = two();
    one.set("tools/list", &[r#"{ "_meta":{}, "tools":[ {"name":"look"} ] }"#]);
    let client = Client::new(gateway.single(&id("b1")).unwrap());
    assert_snapshot!(client.ask(Method::ToolsList, "").await, @r#"{ "_meta":{}, "tools":[ {"name":"look","inputSchema":{"type":"object"}} ] }"#);
    assert!(gateway.single(&id("b3")).is_none());
}

#[tokio::test]
async fn a_gateway_for_one_backend_alone_uses_its_own_names() {
    let backend = Backend::with_tools(&["look"]);
    let settings = GatewaySettings { naming: Naming::Plain, ..super::script::settings() };
    let client = Client::new(gateway_with(settings, vec![mount("b1", &backend)]).merged());
    assert_eq!(client.tools().await, "look");
    assert_eq!(client.ask(Method::Discover, "").await, about("tools,prompts,resources,completions,logging", ""));
    client.ask(Method::ToolsCall, r#"{"name":"look"}"#).await;
    assert_eq!(backend.asked("tools/call"), [r#"{"name":"look"}"#]);
}

#[tokio::test]
async fn a_list_is_served_from_memory() {
    let (one, _, gateway) = two();
    let client = Client::new(gateway.merged());
    for _ in 0..5 {
        client.tools().await;
    }
    assert_eq!(one.asked("tools/list").len(), 1);
    assert_eq!(one.asked("server/discover").len(), 1);
}

#[tokio::test]
async fn concurrent_requests_cause_one_fetch() {
    let (one, _, gateway) = two();
    one.awake.send_replace(false);
    let client = Client::new(gateway.merged()).able(r#"{"sampling":{}}"#);
    let all = futures_util::future::join_all((0..20).map(|_| client.tools()));
    let wake = async { one.awake.send_replace(true) };
    let (lists, _) = tokio::join!(all, wake);
    assert!(lists.iter().all(|list| list == "b1__look b1__write b2__look"));
    // once for the gateway, once for a client with sampling
    assert_eq!(one.asked("tools/list").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_silent_backend_delays_lists_briefly_and_is_listed_once_it_answers() {
    let (one, _, gateway) = two();
    one.awake.send_replace(false);
    let client = Client::new(gateway.merged());
    let listen = client.call(Method::Listen, "");
    let told = background(heard(listen));
    let began = tokio::time::Instant::now();
    assert_eq!(client.tools().await, "b2__look");
    assert!(began.elapsed() <= Duration::from_secs(2));
    let began = tokio::time::Instant::now();
    assert_eq!(client.tools().await, "b2__look");
    assert_eq!(began.elapsed(), Duration::ZERO);
    one.awake.send_replace(true);
    assert_eq!(told.await.unwrap().0, "notifications/tools/list_changed");
    assert_eq!(client.tools().await, "b1__look b1__write b2__look");
}

#[tokio::test(start_paused = true)]
async fn a_longer_budget_for_lists_delays_no_handshake() {
    let (one, two) = (Backend::with_tools(&["look"]), Backend::with_tools(&["look"]));
    one.awake.send_replace(false);
    let settings = GatewaySettings { cold_list_budget: Duration::from_secs(10), ..super::script::settings() };
    let client = Client::new(gateway_with(settings, vec![mount("b1", &one), mount("b2", &two)]).merged());
    let began = tokio::time::Instant::now();
    client.ask(Method::Discover, "").await;
    assert!(began.elapsed() <= Duration::from_secs(2));
    let list = background(async move { client.tools().await });
    tokio::time::sleep(Duration::from_secs(5)).await;
    one.awake.send_replace(true);
    assert_eq!(list.await.unwrap(), "b1__look b2__look");
}

#[tokio::test(start_paused = true)]
async fn a_single_backend_is_awaited() {
    let backend = Backend::with_tools(&["look"]);
    backend.awake.send_replace(false);
    let client = Client::new(gateway(vec![mount("b1", &backend)]).merged());
    let list = background(async move { client.tools().await });
    tokio::time::sleep(Duration::from_secs(50)).await;
    backend.awake.send_replace(true);
    assert_eq!(list.await.unwrap(), "b1__look");
}

#[tokio::test(start_paused = true)]
async fn a_failed_backend_is_left_out_and_returns_by_itself() {
    // G09
    let (one, two, gateway) = two();
    *one.failure.lock() = Some(ErrorObject::internal("unreachable"));
    let client = Client::new(gateway.merged());
    assert_eq!(client.tools().await, "b2__look");
    *two.failure.lock() = Some(ErrorObject::internal("unreachable"));
    assert_eq!(client.tools().await, "b2__look");
    let (told, ()) = tokio::join!(heard(client.call(Method::Listen, "")), async {
        tokio::task::yield_now().await;
        *one.failure.lock() = None;
    });
    assert_eq!(told.0, "notifications/tools/list_changed");
    assert_eq!(client.tools().await, "b1__look b1__write b2__look");
}

#[tokio::test]
async fn a_list_fails_if_all_backends_fail() {
    let (one, two, gateway) = two();
    for backend in [&one, &two] {
        *backend.failure.lock() = Some(ErrorObject::internal("unreachable"));
    }
    let client = Client::new(gateway.merged());
    assert_snapshot!(client.ask(Method::ToolsList, "").await,
        @r#"error -32603 No server could be listed. Try again, or see the status of the gateway. {"backends":["b1","b2"],"retryable":true,"servers":["b1","b2"]}"#);
    let single = Client::new(gateway.single(&id("b1")).unwrap());
    assert_snapshot!(single.ask(Method::ToolsList, "").await, @r#"error -32603 Server `b1`: unreachable {"backend":"b1","server":"b1"}"#);
}

#[tokio::test]
async fn a_server_that_moved_here_is_asked_again_at_once() {
    let (one, _, gateway) = two();
    *one.failure.lock() = Some(ErrorObject::internal("it runs at another replica"));
    let client = Client::new(gateway.single(&id("b1")).unwrap());
    for method in [Method::Discover, Method::ToolsList] {
        assert_eq!(
            client.ask(method, "").await,
            r#"error -32603 Server `b1`: it runs at another replica {"backend":"b1","server":"b1"}"#
        );
    }
    *one.failure.lock() = None;
    gateway.moved_here(&id("b1"));
    assert_eq!(client.tools().await, "look write");
    assert!(client.ask(Method::Discover, "").await.contains("tools"));
}

#[tokio::test]
async fn undeclared_lists_are_not_requested() {
    let (one, _, gateway) = two();
    *one.about.lock() = about("tools", "");
    let client = Client::new(gateway.merged());
    assert_snapshot!(client.ask(Method::PromptsList, "").await, @r#"{"prompts":[]}"#);
    assert!(one.asked("prompts/list").is_empty());
    let single = Client::new(gateway.single(&id("b1")).unwrap());
    assert_snapshot!(single.ask(Method::PromptsList, "").await, @"error -32601 Method not found: prompts/list");
}

#[tokio::test]
async fn long_lists_come_in_pages_under_sealed_cursors() {
    let (one, two) = (Backend::with_tools(&["a", "b", "c"]), Backend::with_tools(&["d"]));
    let settings = GatewaySettings { page_size: 2, ..super::script::settings() };
    let gateway = gateway_with(settings, vec![mount("b1", &one), mount("b2", &two)]);
    let client = Client::new(gateway.merged());
    let first: serde_json::Value = serde_json::from_str(&client.ask(Method::ToolsList, "").await).unwrap();
    assert_eq!(first["tools"].as_array().unwrap().len(), 2);
    let cursor = first["nextCursor"].as_str().unwrap();
    assert!(cursor.starts_with("gwc1."));
    let params = format!(r#"{{"cursor":"{cursor}"}}"#);
    assert_snapshot!(client.ask(Method::ToolsList, &params).await, @r#"{"tools":[{"name":"b1__c","inputSchema":{"type":"object"}},{"name":"b2__d","inputSchema":{"type":"object"}}]}"#);
    // G07: another user, another list, another set of backends, no cursor at all
    let refused = "error -32602 Invalid cursor";
    let bob = Client::of(gateway.merged(), "bob", Rights::all_backends());
    assert_eq!(bob.ask(Method::ToolsList, &params).await, refused);
    assert_eq!(client.ask(Method::PromptsList, &params).await, refused);
    for bad in [r#"{"cursor":"gwc1.stale"}"#, r#"{"cursor":7}"#, r#"{"cursor":" "}"#] {
        assert_eq!(client.ask(Method::ToolsList, bad).await, refused);
    }
    for none in [r#"{"cursor":""}"#, r#"{"cursor":null}"#] {
        let page: serde_json::Value = serde_json::from_str(&client.ask(Method::ToolsList, none).await).unwrap();
        assert_eq!(page["tools"], first["tools"], "some clients write it where they have none");
    }
    gateway.replace(vec![mount("b1", &one)], &Groups::default());
    assert_eq!(client.ask(Method::ToolsList, &params).await, refused);
}

#[tokio::test]
async fn another_bound_keeps_the_lists_of_a_server_and_another_server_does_not() {
    let backend = Backend::with_tools(&["look"]);
    let gateway = gateway(vec![mount("b1", &backend)]);
    let client = Client::new(gateway.merged());
    assert_eq!(client.tools().await, "b1__look");
    let fetched = || backend.asked("tools/list").len();
    let before = fetched();
    let bounded = BackendSpec { calls: Some(0), ..spec("b1") };
    gateway.replace(vec![mount_as(&bounded, &backend)], &Groups::default());
    assert_eq!((client.tools().await.as_str(), fetched()), ("b1__look", before), "from memory");
    let refused = client.ask(Method::ToolsCall, r#"{"name":"b1__look"}"#).await;
    assert!(refused.contains("Server `b1` is busy"), "{refused}");
    let restarted = ConfiguredBackend { generation: 1, ..mount("b1", &backend) };
    gateway.replace(vec![restarted], &Groups::default());
    assert_eq!((client.tools().await.as_str(), fetched()), ("b1__look", before + 1), "another server");
}

#[tokio::test]
async fn a_caller_sees_what_it_may_see() {
    let (_, _, gateway) = two();
    let mut rights = Rights::none();
    assert_eq!(Client::of(gateway.merged(), "bob", rights.clone()).tools().await, "");
    rights.backends.allow(&id("b1"), Access::ReadOnly);
    assert_eq!(Client::of(gateway.merged(), "bob", rights.clone()).tools().await, "b1__look");
    assert_eq!(Client::of(gateway.single(&id("b1")).unwrap(), "bob", rights.clone()).tools().await, "look");
    let other = Client::of(gateway.single(&id("b2")).unwrap(), "bob", rights);
    assert!(other.ask(Method::ToolsList, "").await.starts_with("error -32602 Unknown server"));
}

#[tokio::test]
async fn clients_with_other_capabilities_have_their_own_list() {
    let backend = Backend::with_tools(&["look"]);
    let user = BackendSpec { share: Share::User, ..spec("b1") };
    let gateway = gateway(vec![mount_as(&user, &backend)]);
    let client = Client::new(gateway.merged());
    assert_eq!(client.tools().await, "b1__look");
    backend.set_tools(&["look", "sample"]);
    assert_eq!(client.clone().able(r#"{"sampling":{}}"#).tools().await, "b1__look b1__sample");
    let bob = Client::of(gateway.merged(), "bob", Rights::all_backends());
    assert_eq!(bob.tools().await, "b1__look b1__sample");
    assert_eq!(client.tools().await, "b1__look");
}

#[tokio::test]
async fn listing_starts_no_backend_session_for_a_client_session() {
    let (one, _, gateway) = two();
    let client = Client::new(gateway.merged());
    client.tools().await;
    client.clone().able(r#"{"sampling":{}}"#).tools().await;
    let mut other = client.able(r#"{"sampling":{}, "experimental":{}}"#);
    other.context.requester = Requester::Gateway;
    other.tools().await;
    let sessions = one.sessions.lock().iter().filter(|(method, _)| method == "tools/list").cloned().collect::<Vec<_>>();
    let list = |session: Option<&str>| ("tools/list".to_owned(), session.map(str::to_owned));
    assert_eq!(sessions, [list(None), list(None)]);
}

#[tokio::test(start_paused = true)]
async fn a_clients_first_list_is_the_gateways_until_its_own_is_known() {
    let (one, _, gateway) = two();
    *one.sleeps.lock() = |context| context.client.capabilities.can_be_asked();
    one.awake.send_replace(false);
    let client = Client::new(gateway.merged()).able(r#"{"sampling":{}}"#);
    assert!(client.ask(Method::Discover, "").await.contains("tools"));
    assert_eq!(client.tools().await, "b1__look b1__write b2__look");
    one.set_tools(&["look", "sample"]);
    one.awake.send_replace(true);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(client.tools().await, "b1__look b1__sample b2__look");
    // a listen that starts only now is notified too, and once
    let (told, rest) = heard(client.call(Method::Listen, "")).await;
    assert_eq!(told, "notifications/tools/list_changed");
    assert!(tokio::time::timeout(Duration::from_secs(5), heard(rest)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_old_list_is_served_and_refreshed_in_the_background() {
    let (one, two, gateway) = two();
    *two.about.lock() = r#"{"capabilities":{"tools":{"listChanged":true}}}"#.to_owned();
    let client = Client::new(gateway.merged());
    client.tools().await;
    one.set_tools(&["new"]);
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(client.tools().await, "b1__look b1__write b2__look");
    assert_eq!(one.asked("tools/list").len(), 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(client.tools().await, "b1__look b1__write b2__look");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(client.tools().await, "b1__new b2__look");
    // the other server sends notifications
    assert_eq!(two.asked("tools/list").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_merged_description_is_made_of_what_each_server_said_last() {
    let (one, two, gateway) = two();
    // each user is told by servers of its own
    let user = BackendSpec { share: Share::User, ..spec("b2") };
    gateway.replace(vec![mount("b1", &one), mount_as(&user, &two)], &Groups::default());
    let of = |user: &str| {
        let mut client = Client::of(gateway.merged(), user, Rights::all_backends());
        client.context.requester = Requester::TasksOf(client.context.caller.user.clone());
        client
    };
    let (ann, bob) = (of("ann"), of("bob"));
    let mut opening = ann.clone();
    opening.context.requester = Requester::Gateway;
    let instructions = async |client: &Client| {
        let text = client.ask(Method::Discover, "").await;
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["instructions"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let shown = async || [instructions(&ann).await, instructions(&bob).await, instructions(&opening).await];
    assert_eq!(shown().await, ["", "", ""]);
    // asked again after a minute, and shown once it has answered
    tokio::time::sleep(Duration::from_secs(59)).await;
    *two.about.lock() = about("tools", "Now.");
    let asked = || two.asked("server/discover").len();
    let before = asked();
    assert_eq!((shown().await, asked()), (["", "", ""].map(str::to_owned), before));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(shown().await, ["", "", ""]);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(shown().await, ["## b2\n\nNow."; 3]);
    // a server that tells of a change is asked at once
    *one.about.lock() = about("tools", "Then.");
    one.tell(None, Method::ToolsListChanged, "");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(shown().await, ["## b1\n\nThen.\n\n## b2\n\nNow."; 3]);
    // others see other servers, and so does everybody once there are others
    let mut rights = Rights::none();
    rights.backends.allow(&id("b1"), Access::ReadOnly);
    assert_eq!(instructions(&Client::of(gateway.merged(), "ann", rights)).await, "## b1\n\nThen.");
    gateway.replace(vec![mount_as(&user, &two)], &Groups::default());
    assert_eq!(shown().await, ["## b2\n\nNow."; 3]);
}

#[tokio::test]
async fn a_list_without_end_is_cut() {
    let backend = Backend::with_tools(&[]);
    let pages: Vec<String> =
        (1..1100).map(|at| format!(r#"{{"tools":[{{"name":"t{at}"}}],"nextCursor":"{at}"}}"#)).collect();
    backend.set("tools/list", &pages.iter().map(String::as_str).collect::<Vec<_>>());
    let same = Backend::with_tools(&[]);
    same.set("tools/list", &[r#"{"tools":[{"name":"x"}],"nextCursor":"0"}"#]);
    let gateway = gateway(vec![mount("b1", &backend), mount("b2", &same)]);
    Client::new(gateway.merged()).tools().await;
    assert_eq!((gateway.counts(&id("b1")).tools, gateway.counts(&id("b2")).tools), (1000, 1), "each entry once");
}

#[tokio::test(start_paused = true)]
async fn a_single_page_with_too_many_entries_is_cut() {
    let backend = Backend::with_tools(&[]);
    let prompts: Vec<String> = (0..100_002).map(|at| format!(r#"{{"name":"p{at}"}}"#)).collect();
    backend.set("prompts/list", &[&format!(r#"{{"prompts":[{}]}}"#, prompts.join(","))]);
    let gateway =
        gateway_with(GatewaySettings { page_size: 200_000, ..super::script::settings() }, vec![mount("b1", &backend)]);
    let client = Client::new(gateway.single(&id("b1")).unwrap());
    let listed: serde_json::Value = serde_json::from_str(&client.ask(Method::PromptsList, "").await).unwrap();
    let names: Vec<_> = listed["prompts"].as_array().unwrap().iter().map(|prompt| &prompt["name"]).collect();
    assert_eq!((names.len(), names[99_999].as_str()), (100_000, Some("p99999")));
}

#[tokio::test]
async fn long_instructions_are_cut() {
    let (one, _, gateway) = two();
    *one.about.lock() = about("tools", &"é".repeat(20_000));
    let text = Client::new(gateway.merged()).ask(Method::Discover, "").await;
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(result["instructions"].as_str().unwrap().len(), 16 * 1024 - 1);
}

#[tokio::test]
async fn the_gateway_says_what_its_backends_can_do() {
    let (one, two, gateway) = two();
    *one.about.lock() = about("tools", "Look first.");
    *two.about.lock() = r#"{"capabilities":{"resources":{"subscribe":true},"logging":{},"experimental":{"x":{}}},"instructions":"Then read."}"#.to_owned();
    let client = Client::new(gateway.merged());
    let result: serde_json::Value = serde_json::from_str(&client.ask(Method::Discover, "").await).unwrap();
    assert_snapshot!(result["capabilities"], @r#"{"experimental":{"x":{}},"logging":{},"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}}"#);
    assert_snapshot!(result["instructions"].as_str().unwrap(), @r"
    ## b1

    Look first.

    ## b2

    Then read.
    ");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "lockkeeper");
    assert_eq!(result["supportedVersions"][0], "2026-07-28");
    let single = Client::new(gateway.single(&id("b1")).unwrap());
    assert_eq!(single.ask(Method::Discover, "").await, about("tools", "Look first."));
}

#[tokio::test(start_paused = true)]
async fn a_session_opens_while_a_backend_is_still_starting() {
    let (one, _, gateway) = two();
    one.awake.send_replace(false);
    let client = Client::new(gateway.merged());
    let result: serde_json::Value = serde_json::from_str(&client.ask(Method::Discover, "").await).unwrap();
    assert_eq!(result["capabilities"]["prompts"]["listChanged"], true);
}

#[tokio::test(start_paused = true)]
async fn stored_server_information_is_used_until_the_backend_answers() {
    let backend = Backend::with_tools(&["look"]);
    backend.awake.send_replace(false);
    let before = payload(r#"{"capabilities":{"tools":{}},"instructions":"Look first."}"#);
    let known = ConfiguredBackend { last_server_info: Some(before.clone()), ..mount("b1", &backend) };
    let (gateway, mut told) = gateway_that_tells(super::script::settings(), vec![known]);
    let client = Client::new(gateway.single(&id("b1")).unwrap());
    assert_eq!(client.ask(Method::Discover, "").await.as_bytes(), before.json());
    assert!(!told.has_changed().unwrap());
    *backend.about.lock() = about("tools", "Look twice.");
    backend.awake.send_replace(true);
    told.changed().await.unwrap();
    let kept = told.borrow().clone();
    assert_eq!(kept.keys().collect::<Vec<_>>(), [&id("b1")], "the last of each server");
    assert_eq!(kept[&id("b1")].json(), about("tools", "Look twice.").as_bytes());
    assert_eq!(client.ask(Method::Discover, "").await, about("tools", "Look twice."));
}

#[tokio::test]
async fn an_entry_that_breaks_the_schema_neither_empties_a_list_nor_can_be_called() {
    // the first as server-filesystem 0.5.1 writes it
    let list = r#"{"tools":[{"name":"read","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#"}},
        {"name":"broken","inputSchema":{"type":"string"}},{ "name":"fine","inputSchema": {"type":"object"} }]}"#;
    let backend = Backend::speaking(Revision::V2025_11_25, list);
    let gateway = gateway(vec![mount("b1", &backend)]);
    let (merged, own) = (Client::new(gateway.merged()), Client::new(gateway.single(&id("b1")).unwrap()));
    assert_snapshot!(merged.ask(Method::ToolsList, "").await, @r#"{"tools":[{"name":"b1__read","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}},{ "name":"b1__fine","inputSchema": {"type":"object"} }]}"#);
    assert_snapshot!(own.ask(Method::ToolsList, "").await, @r#"{"tools":[{"name":"read","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}},{ "name":"fine","inputSchema": {"type":"object"} }]}"#);
    assert_eq!(gateway.counts(&id("b1")).tools, 2);
    let left_out = gateway.left_out(&id("b1"));
    let told: Vec<_> = left_out.iter().map(|one| (one.list.as_str(), one.name.as_str(), one.reason.as_str())).collect();
    assert_eq!(told, [("tools/list", "broken", "`inputSchema.type` must be \"object\"")]);
    for (client, name) in [(&merged, "b1__broken"), (&own, "broken")] {
        let answer = client.ask(Method::ToolsCall, &format!(r#"{{"name":"{name}"}}"#)).await;
        assert_eq!(answer, format!("error -32602 Unknown tool: {name}"));
    }
    assert!(backend.asked("tools/call").is_empty());
    merged.ask(Method::ToolsCall, r#"{"name":"b1__fine"}"#).await;
    assert_eq!(backend.asked("tools/call").len(), 1);
}

#[tokio::test]
async fn an_entry_is_left_out_only_where_the_clients_version_forbids_it() {
    let list = r#"{"tools":[{"name":"old","inputSchema":{"type":"object"},"title":5}]}"#;
    let backend = Backend::speaking(Revision::V2024_11_05, list);
    let gateway = gateway(vec![mount("b1", &backend)]);
    for server in [gateway.merged(), gateway.single(&id("b1")).unwrap()] {
        let shown = async |revision| Client::new(Arc::clone(&server)).speaking(revision).tools().await;
        assert!(shown(Revision::V2024_11_05).await.ends_with("old"));
        assert_eq!(shown(Revision::V2025_11_25).await, "");
    }
}
