//! Calls: routed, refused, rewritten.

use std::{sync::Arc, time::Duration};

use futures_util::stream;
use insta::assert_snapshot;
use lockkeeper::{
    gateway::{Gateway, GatewaySettings},
    mcp::{Call, Event, Method, Notification, Outcome, Reply, ServerRequest, Step},
    model::{Access, BackendSpec, HttpSpec, NameGlobs, Rights, ToolRules, TransportSpec},
};
use serde_json::json;

use super::script::{Backend, Client, gateway, gateway_with, id, mount, mount_as, payload, spec};

fn two() -> (Arc<Backend>, Arc<Backend>, Arc<Gateway>) {
    let (one, two) = (Backend::with_tools(&["look", "write"]), Backend::with_tools(&["look"]));
    let gateway = gateway(vec![mount("b1", &one), mount("b2", &two)]);
    (one, two, gateway)
}

#[tokio::test]
async fn a_tool_is_called_by_its_own_name_and_every_other_byte_is_kept() {
    let (one, two, gateway) = two();
    let client = Client::new(gateway.merged());
    // G02
    let params = r#"{ "arguments":{"n":12345678901234567890123, "name":"b1__x"} , "name" : "b1__write","x":[],"name":"b2__look" }"#;
    let result = client.ask(Method::ToolsCall, params).await;
    assert!(one.asked("tools/call").is_empty());
    assert_snapshot!(two.asked("tools/call").concat(),
        @r#"{ "arguments":{"n":12345678901234567890123, "name":"b1__x"} , "x":[],"name":"look" }"#);
    assert!(result.starts_with(r#"{"got":"#));
}

#[tokio::test]
async fn a_shortened_name_finds_its_tool_without_a_list() {
    let (one, _, gateway) = two();
    let long = "x".repeat(90);
    one.set_tools(&["repo.log", &long, "deadbeef_deadbeef"]);
    let client = Client::new(gateway.merged());
    client.ask(Method::ToolsCall, r#"{"name":"b1__repo_log_0823bac8"}"#).await;
    client.ask(Method::ToolsCall, r#"{"name":"b1__deadbeef_deadbeef"}"#).await;
    let shown = client.tools().await.split(' ').nth(1).unwrap().to_owned();
    assert_eq!(shown.len(), 64);
    client.ask(Method::ToolsCall, &format!(r#"{{"name":"{shown}"}}"#)).await;
    let called = one.asked("tools/call");
    assert_eq!(called[0], r#"{"name":"repo.log"}"#);
    assert_eq!(called[1], r#"{"name":"deadbeef_deadbeef"}"#);
    assert_eq!(called[2], format!(r#"{{"name":"{long}"}}"#));
}

#[tokio::test]
async fn names_are_as_short_as_the_operator_wants_and_whole_ones_still_work() {
    let one = Backend::with_tools(&["look"]);
    let whole = "x".repeat(50);
    one.set_tools(&["look", &whole]);
    let settings = GatewaySettings { longest_name: 47, ..super::script::settings() };
    let client = Client::new(gateway_with(settings, vec![mount("b1", &one)]).merged());
    let names = client.tools().await;
    let (look, shown) = names.split_once(' ').unwrap();
    assert_eq!((look, shown.len()), ("b1__look", 47));
    assert_eq!(client.tools().await, names, "the same each time");
    // a client may remember names from before the setting
    for name in [shown, &format!("b1__{whole}")] {
        client.ask(Method::ToolsCall, &format!(r#"{{"name":"{name}"}}"#)).await;
    }
    assert_eq!(one.asked("tools/call"), vec![format!(r#"{{"name":"{whole}"}}"#); 2]);
}

#[tokio::test]
async fn unknown_names_get_the_errors_of_the_specification() {
    let (one, _, gateway) = two();
    let client = Client::new(gateway.merged());
    for name in ["look", "b3__look", "__look", "B1__look", ""] {
        let answer = client.ask(Method::ToolsCall, &format!(r#"{{"name":"{name}"}}"#)).await;
        assert_eq!(answer, format!("error -32602 Unknown tool: {name}"));
    }
    assert_snapshot!(client.ask(Method::PromptsGet, r#"{"name":"p"}"#).await, @"error -32602 Unknown prompt: p");
    assert_snapshot!(client.ask(Method::ToolsCall, r#"{"name":7}"#).await, @"error -32602 `name` is missing or is no string");
    for uri in ["file:///a", "b3+file:///a", "https://nobody/"] {
        let answer = client.ask(Method::ResourcesRead, &format!(r#"{{"uri":"{uri}"}}"#)).await;
        assert_eq!(answer, format!(r#"error -32002 Resource not found {{"uri":"{uri}"}}"#));
    }
    assert_snapshot!(client.ask(Method::parse("x/y"), "{}").await, @"error -32601 Method not found: x/y");
    assert_snapshot!(client.ask(Method::TasksList, "{}").await, @"error -32601 Method not found: tasks/list");
    assert_snapshot!(client.ask(Method::Complete, r#"{"ref":{"type":"ref/x"}}"#).await,
        @"error -32602 `ref.type` must be `ref/prompt` or `ref/resource`");
    assert!(one.asked("tools/call").is_empty() && one.asked("resources/read").is_empty());
}

#[tokio::test]
async fn tools_without_a_right_are_unknown_to_the_caller() {
    let (one, two, gateway) = two();
    let mut rights = Rights::none();
    rights.backends.allow(&id("b1"), Access::ReadOnly);
    let merged = Client::of(gateway.merged(), "bob", rights.clone());
    let single = Client::of(gateway.single(&id("b1")).unwrap(), "bob", rights.clone());
    let other = Client::of(gateway.single(&id("b2")).unwrap(), "bob", rights);
    for (client, name) in [(&merged, "b1__write"), (&merged, "b2__look"), (&single, "write"), (&other, "look")] {
        let answer = client.ask(Method::ToolsCall, &format!(r#"{{"name":"{name}"}}"#)).await;
        assert_eq!(answer, format!("error -32602 Unknown tool: {name}"));
    }
    assert!(merged.ask(Method::ResourcesRead, r#"{"uri":"b2+a:b"}"#).await.starts_with("error -32002"));
    assert!(
        one.asked("tools/call").is_empty() && two.calls.lock().iter().all(|(method, _)| method != "resources/read")
    );
    single.ask(Method::ToolsCall, r#"{"name":"write","name":"look"}"#).await;
    merged.ask(Method::ToolsCall, r#"{"name":"b1__look"}"#).await;
    assert_eq!(one.asked("tools/call"), [r#"{"name":"look"}"#, r#"{"name":"look"}"#]);
}

#[tokio::test]
async fn a_method_in_another_spelling_reaches_no_server() {
    let (one, _, gateway) = two();
    let mut rights = Rights::none();
    rights.backends.allow(&id("b1"), Access::ReadOnly);
    let single = Client::of(gateway.single(&id("b1")).unwrap(), "bob", rights);
    for method in ["Tools/Call", "tools/CALL", "tool\u{17f}/call", "Prompts/Get", "logging/setlevel"] {
        let answer = single.ask(Method::parse(method), r#"{"name":"write"}"#).await;
        assert_eq!(answer, format!("error -32601 Method not found: {method}"));
        assert!(one.asked(method).is_empty());
    }
}

#[tokio::test]
async fn a_method_beyond_mcp_takes_full_rights_at_a_server_without_rules_or_the_operators_word() {
    let backends: Vec<_> = (0..4).map(|_| Backend::with_tools(&["look"])).collect();
    let rules = || Some(Arc::new(ToolRules { deny: globs(&["write"]), ..ToolRules::default() }));
    let allow_methods = globs(&["x-vendor/*", "*"]);
    let gateway = gateway(vec![
        mount("plain", &backends[0]),
        mount_as(&BackendSpec { tools: rules(), ..spec("ruled") }, &backends[1]),
        mount_as(&BackendSpec { allow_methods: allow_methods.clone(), ..spec("open") }, &backends[2]),
        mount_as(&BackendSpec { allow_methods, tools: rules(), ..spec("both") }, &backends[3]),
    ]);
    let mut read = Rights::none();
    for name in ["plain", "ruled", "open", "both"] {
        read.backends.allow(&id(name), Access::ReadOnly);
    }
    for (rights, reached) in [(Rights::all_backends(), [true, false, true, true]), (read, [false, false, true, true])] {
        for (name, reached) in ["plain", "ruled", "open", "both"].into_iter().zip(reached) {
            let client = Client::of(gateway.single(&id(name)).unwrap(), "bob", rights.clone());
            let answer = client.ask(Method::parse("x-vendor/do"), "{}").await;
            assert_eq!(!answer.starts_with("error -32601"), reached, "{name} {answer}");
            for disguised in ["tools//call", "Tools/Call ", "tasks//get"] {
                let answer = client.ask(Method::parse(disguised), r#"{"name":"write"}"#).await;
                assert_eq!(answer, format!("error -32601 Method not found: {disguised}"), "{name}");
            }
        }
        let merged = Client::of(gateway.merged(), "bob", rights);
        assert!(merged.ask(Method::parse("x-vendor/do"), "{}").await.starts_with("error -32601"));
        merged.ask(Method::parse("notifications/x"), "{}").await;
    }
    let told: Vec<_> = backends.iter().map(|one| one.asked("notifications/x").len()).collect();
    assert_eq!(told, [1, 0, 2, 2]);
}

fn globs(patterns: &[&str]) -> NameGlobs {
    NameGlobs::parse(patterns.iter().map(|&pattern| pattern.to_owned()).collect()).unwrap()
}

#[tokio::test]
async fn resources_go_to_their_backend_by_uri() {
    let (one, two, gateway) = two();
    two.set("resources/list", &[r#"{"resources":[{"uri":"https://x/a"}]}"#]);
    one.set("resources/templates/list", &[r#"{"resourceTemplates":[{"uriTemplate":"https://y/{p}"}]}"#]);
    let client = Client::new(gateway.merged());
    for uri in ["b1+file:///a", "ui://b1+w/a.html", "https://y/z", "https://x/a"] {
        client.ask(Method::ResourcesRead, &format!(r#"{{"uri":"{uri}"}}"#)).await;
    }
    assert_eq!(
        one.asked("resources/read"),
        [r#"{"uri":"file:///a"}"#, r#"{"uri":"ui://w/a.html"}"#, r#"{"uri":"https://y/z"}"#]
    );
    assert_eq!(two.asked("resources/read"), [r#"{"uri":"https://x/a"}"#]);
    client.ask(Method::ResourcesSubscribe, r#"{"uri":"b1+file:///a"}"#).await;
    assert_eq!(one.asked("resources/subscribe"), [r#"{"uri":"file:///a"}"#]);
}

/// The URIs of the resources or templates that a client is listed.
async fn listed(client: &Client, method: Method, member: (&str, &str)) -> Vec<String> {
    let list: serde_json::Value = serde_json::from_str(&client.ask(method, "{}").await).unwrap();
    list[member.0].as_array().unwrap().iter().map(|one| one[member.1].as_str().unwrap().to_owned()).collect()
}

/// Three servers that list web resources, the second with an origin of its own.
fn web_servers() -> ([(&'static str, Arc<Backend>); 3], Arc<Gateway>) {
    let backends = ["greedy", "docs", "late"].map(|name| (name, Backend::with_tools(&["look"])));
    let resources = |uris: &[&str]| {
        let list: Vec<_> = uris.iter().map(|uri| json!({ "uri": uri, "name": "r" })).collect();
        json!({ "resources": list }).to_string()
    };
    let lists = [
        resources(&["https://docs.example/secret", "https://x.example/a"]),
        resources(&["https://docs.example/other"]),
        resources(&["https://x.example/a", "https://x.example/b"]),
    ];
    for ((_, backend), list) in backends.iter().zip(&lists) {
        backend.set("resources/list", &[list]);
    }
    let template = |uri: &str| json!({ "resourceTemplates": [{ "uriTemplate": uri, "name": "t" }] }).to_string();
    backends[0].1.set("resources/templates/list", &[&template("https://{+url}")]);
    backends[2].1.set("resources/templates/list", &[&template("https://x.example/long/path/{p}")]);
    let docs = TransportSpec::Http(HttpSpec::new("https://docs.example/mcp".parse().unwrap()));
    let mounts = backends.each_ref().map(|(name, backend)| {
        let transport = if *name == "docs" { docs.clone() } else { TransportSpec::Demo };
        mount_as(&BackendSpec { transport, ..spec(name) }, backend)
    });
    let gateway = gateway(mounts.to_vec());
    (backends, gateway)
}

#[tokio::test]
async fn a_web_resource_belongs_to_its_origin_or_to_the_first_that_lists_it() {
    let (backends, gateway) = web_servers();
    let read = async |client: &Client, uri: &str| {
        let before = backends.each_ref().map(|(_, backend)| backend.asked("resources/read").len());
        client.ask(Method::ResourcesRead, &json!({ "uri": uri }).to_string()).await;
        let reader =
            backends.iter().zip(before).find(|((_, backend), before)| backend.asked("resources/read").len() > *before);
        reader.map(|((name, _), _)| *name)
    };
    let client = Client::new(gateway.merged());
    for (uri, owner) in [
        // its own server does not list it
        ("https://docs.example/secret", "docs"),
        ("HTTPS://DOCS.example:443/unknown", "docs"),
        ("https://docs.example@x.example/a", "greedy"),
        ("https://x.example/a", "greedy"),
        // another server's template decides nothing about what is listed, and the longer one nothing at all
        ("https://x.example/b", "late"),
        ("https://x.example/long/path/1", "greedy"),
    ] {
        assert_eq!(read(&client, uri).await, Some(owner), "{uri}");
    }
    let uris = listed(&client, Method::ResourcesList, ("resources", "uri")).await;
    assert_eq!(uris, ["https://x.example/a", "https://docs.example/other", "https://x.example/b"]);
    // somebody without the first server has the second one's
    let mut rights = Rights::none();
    rights.backends.allow(&id("late"), Access::Full);
    let other = Client::of(gateway.merged(), "bob", rights);
    assert_eq!(listed(&other, Method::ResourcesList, ("resources", "uri")).await.len(), 2);
    assert_eq!(read(&other, "https://x.example/a").await, Some("late"));
    // each keeps its own at its own endpoint
    let own = Client::new(gateway.single(&id("greedy")).unwrap());
    assert_eq!(listed(&own, Method::ResourcesList, ("resources", "uri")).await.len(), 2);
    assert_eq!(read(&own, "https://docs.example/secret").await, Some("greedy"));
    let left_out = |name: &str| {
        let left_out = gateway.left_out(&id(name)).into_iter();
        left_out.map(|one| format!("{} {}: {}", one.list, one.name, one.reason)).collect::<Vec<_>>()
    };
    assert_eq!(
        left_out("greedy"),
        [
            "resources/list https://docs.example/secret: it has the origin of `docs` and is only at this server's own endpoint"
        ]
    );
    assert_eq!(
        left_out("late"),
        [
            "resources/list https://x.example/a: `greedy` comes first and lists it too; it is only at this server's own endpoint"
        ]
    );
    assert!(left_out("docs").is_empty());
}

#[tokio::test]
async fn completions_go_to_the_backend_of_the_prompt_or_template() {
    let (one, two, gateway) = two();
    let client = Client::new(gateway.merged());
    client.ask(Method::Complete, r#"{"ref":{"type":"ref/prompt","name":"b1__p"},"argument":{"name":"b1__p"}}"#).await;
    client.ask(Method::Complete, r#"{"ref":{"type":"ref/resource","uri":"b2+db://{t}"}}"#).await;
    assert_eq!(
        one.asked("completion/complete"),
        [r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"b1__p"}}"#]
    );
    assert_eq!(two.asked("completion/complete"), [r#"{"ref":{"type":"ref/resource","uri":"db://{t}"}}"#]);
}

#[tokio::test]
async fn results_and_events_have_the_gateways_names() {
    let (one, _, gateway) = two();
    *one.answer.lock() = Some(Box::new(|_: &Call| {
        let told = Notification { method: Method::LoggingMessage, params: payload(r#"{"logger":"db","data":1}"#) };
        let (question, answered) = ServerRequest::new(Method::Elicit, payload(r#"{"message":"Sure?"}"#));
        let answer = async move {
            let answer = answered.wait().await.unwrap().unwrap();
            assert_eq!(answer.json(), r#"{"action":"accept"}"#);
            Event::Done(Outcome::Complete(payload(r#"{"content":[{"type":"resource_link","uri":"a:b"}]}"#)))
        };
        let start = stream::iter([Event::Notified(told), Event::Asked(question)]);
        Reply::new(futures_util::StreamExt::chain(start, stream::once(answer)))
    }));
    let client = Client::new(gateway.merged());
    let Step::Notified(told, rest) = client.call(Method::ToolsCall, r#"{"name":"b1__look"}"#).next().await else {
        panic!("a log message")
    };
    assert_eq!(told.params.json(), r#"{"logger":"b1/db","data":1}"#);
    let Step::Asked(question, rest) = rest.next().await else { panic!("a question") };
    assert_eq!(question.params.string("message").as_deref(), Some("Sure? (from b1)"));
    question.answer.give(Ok(payload(r#"{"action":"accept"}"#)));
    let Outcome::Complete(result) = rest.outcome().await else { panic!("a result") };
    assert_eq!(result.json(), r#"{"content":[{"type":"resource_link","uri":"b1+a:b"}]}"#);
}

#[tokio::test]
async fn dropping_the_reply_cancels_the_call_at_the_backend() {
    let (one, _, gateway) = two();
    let (dropped, mut seen) = tokio::sync::mpsc::channel::<()>(1);
    *one.answer.lock() = Some(Box::new(move |_: &Call| {
        let guard = dropped.clone();
        Reply::later(async move {
            let _guard = guard;
            std::future::pending().await
        })
    }));
    let reply = Client::new(gateway.merged()).call(Method::ToolsCall, r#"{"name":"b1__look"}"#);
    *one.answer.lock() = None;
    drop(reply);
    assert_eq!(seen.recv().await, None);
}

#[tokio::test]
async fn notifications_for_all_reach_every_allowed_backend() {
    let (one, two, gateway) = two();
    let client = Client::new(gateway.merged());
    client.tools().await;
    assert_snapshot!(client.ask(Method::RootsListChanged, "").await, @"");
    for backend in [&one, &two] {
        assert_eq!(backend.asked("notifications/roots/list_changed").len(), 1);
    }
    let mut rights = Rights::none();
    rights.backends.allow(&id("b1"), Access::Full);
    Client::of(gateway.merged(), "bob", rights).ask(Method::RootsListChanged, "").await;
    let told = |backend: &Backend| backend.asked("notifications/roots/list_changed").len();
    assert_eq!((told(&one), told(&two)), (2, 1));
}

#[tokio::test]
async fn a_task_id_leads_to_its_backend_in_every_message() {
    let (one, two, gateway) = two();
    let requests = r#""requests":{"tools":{"call":{}}}"#;
    for (backend, tasks) in
        [(&one, format!("{{{requests},\"cancel\":{{}},\"list\":{{}}}}")), (&two, format!("{{{requests}}}"))]
    {
        *backend.about.lock() = format!(r#"{{"capabilities":{{"tools":{{}},"tasks":{tasks}}}}}"#);
    }
    *two.answer.lock() = Some(Box::new(|call: &Call| {
        let result = match call.method {
            Method::ToolsCall => r#"{"task":{"taskId":"7", "status":"working","ttl":null}}"#,
            Method::TasksGet => r#"{"taskId" : "7","status":"completed"}"#,
            _ => r#"{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"7"},"taskId":"7"}}"#,
        };
        let status =
            Notification { method: Method::TaskStatus, params: payload(r#"{"taskId":"7","status":"working"}"#) };
        Reply::new(stream::iter([Event::Notified(status), Event::Done(Outcome::Complete(payload(result)))]))
    }));
    let client = Client::new(gateway.merged());
    let discovered = client.ask(Method::Discover, "").await;
    assert!(discovered.contains(r#""tasks":{"requests":{"tools":{"call":{}}}}"#), "{discovered}");
    assert_snapshot!(client.ask(Method::ToolsCall, r#"{"name":"b2__look","task":{}}"#).await,
        @r#"{"task":{"taskId":"b2.7", "status":"working","ttl":null}}"#);
    assert_snapshot!(client.ask(Method::TasksGet, r#"{"taskId":"b2.7"}"#).await, @r#"{"taskId" : "b2.7","status":"completed"}"#);
    assert_snapshot!(client.ask(Method::TasksResult, r#"{"taskId":"b2.7"}"#).await,
        @r#"{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"b2.7"},"taskId":"7"}}"#);
    assert_eq!(two.asked("tasks/get"), [r#"{"taskId":"7"}"#]);
    let mut reply = client.call(Method::TasksCancel, r#"{"taskId":"b2.7"}"#);
    let Some(Event::Notified(told)) = futures_util::StreamExt::next(&mut reply).await else { panic!("a notification") };
    assert_eq!(told.params.string("taskId").as_deref(), Some("b2.7"));
    for unknown in ["7", "b3.7", ""] {
        let answer = client.ask(Method::TasksGet, &format!(r#"{{"taskId":"{unknown}"}}"#)).await;
        assert_eq!(answer, "error -32602 Unknown task: it does not exist, has expired, or is not yours", "{unknown}");
    }
    assert!(client.ask(Method::TasksList, "{}").await.starts_with("error -32601"));
}

#[tokio::test]
async fn a_long_result_is_cut_with_a_note_and_other_messages_pass() {
    let backend = Backend::with_tools(&["look"]);
    let long = format!(r#"{{"content":[{{"type":"text","text":"{}"}}],"isError":false}}"#, "x".repeat(4_000));
    let answered = long.clone();
    *backend.answer.lock() = Some(Box::new(move |_: &Call| Reply::complete(payload(&answered))));
    let bounded = mount_as(&BackendSpec { result_size: Some(1_024), ..spec("b1") }, &backend);
    let gateway = gateway(vec![bounded, mount("b2", &backend)]);
    let client = Client::new(gateway.merged());
    let cut = client.ask(Method::ToolsCall, r#"{"name":"b1__look"}"#).await;
    assert!(cut.starts_with(&long[..r#"{"content":[{"type":"text","text":""#.len() + 1_024]), "{cut}");
    assert!(cut.contains("1024 of 4000 bytes of text are shown. To see more,"), "{cut}");
    assert!(cut.ends_with(r#"],"isError":false}"#), "{cut}");
    assert_eq!(client.ask(Method::ToolsCall, r#"{"name":"b2__look"}"#).await, long);
}

#[tokio::test]
async fn a_server_with_enough_calls_refuses_one_more_until_one_ends() {
    let backend = Backend::with_tools(&["look"]);
    *backend.answer.lock() = Some(Box::new(|_: &Call| Reply::later(std::future::pending())));
    let bounded = mount_as(&BackendSpec { calls: Some(1), ..spec("b1") }, &backend);
    let gateway = gateway(vec![bounded]);
    let client = Client::new(gateway.merged());
    let call = || client.ask(Method::ToolsCall, r#"{"name":"b1__look"}"#);
    let mut first = Box::pin(call());
    assert!(futures_util::poll!(&mut first).is_pending());
    let refused = call().await;
    assert_snapshot!(refused, @r#"error -32603 Server `b1` is busy: as many calls run at it as may at once (1); try again later, or raise `calls` {"backend":"b1","reason":"as many calls run at it as may at once (1); try again later, or raise `calls`","retryable":true,"server":"b1"}"#);
    assert_eq!(client.tools().await, "b1__look", "lists do not count");
    drop(first);
    *backend.answer.lock() = None;
    assert!(call().await.starts_with(r#"{"got":"#));
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_bridged_for_clients_that_asked_for_progress() {
    let backend = Backend::with_tools(&["look"]);
    *backend.answer.lock() = Some(Box::new(|_: &Call| {
        Reply::later(async {
            tokio::time::sleep(Duration::from_secs(50)).await;
            Reply::complete(payload(r#"{"content":[]}"#))
        })
    }));
    let heartbeat = Some(Duration::from_secs(20));
    let patient = mount_as(&BackendSpec { heartbeat, ..spec("b1") }, &backend);
    let client = Client::new(gateway(vec![patient]).merged());
    let mut values = Vec::new();
    let mut reply = client.call(Method::ToolsCall, r#"{"name":"b1__look","_meta":{"progressToken":7}}"#);
    while let Some(Event::Notified(told)) = reply.next_event().await {
        assert_eq!((told.method.clone(), told.params.member("progressToken")), (Method::Progress, Some("7")));
        values.push(told.params.member("progress").unwrap().to_owned());
    }
    assert_eq!(values, ["-1", "-0.5"]);
    let outcome = client.call(Method::ToolsCall, r#"{"name":"b1__look"}"#).next().await;
    assert!(matches!(outcome, Step::Done(_)), "without a token there is none");
}
