//! Clients of 2026-07-28: envelope and headers, one answer to each request, server requests between requests, listens.

use axum::body::Body;
use http::{Method as Verb, Response, StatusCode};
use lockkeeper::{
    mcp::{ErrorObject, Event, Method, Outcome, Payload, Reply, Revision},
    model::{LimitsConfig, Serves},
};
use serde_json::{Value, json};

use super::{
    Client, Events, World, body,
    broken_streams::{done, told},
    deferred_requests::question,
};

const VERSION: &str = "2026-07-28";
const TASKS: &str = "io.modelcontextprotocol/tasks";
const DECLARES: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
const ALL: &str = r#"{"sampling":{},"elicitation":{"form":{},"url":{}},"roots":{}}"#;

/// A client that identifies itself in each request.
pub(super) struct Modern {
    pub(super) client: Client,
    capabilities: Value,
}

impl Modern {
    pub(super) fn of(world: &World, user: &str, capabilities: &str) -> Self {
        Self { client: world.client(user), capabilities: serde_json::from_str(capabilities).unwrap() }
    }

    pub(super) fn message(&self, id: impl Into<Value>, method: &str, mut params: Value) -> Value {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = VERSION.into();
        params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": "modern", "version": "1" });
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
    }

    /// Sends a message with the headers that mirror it, modified by `change`.
    pub(super) async fn send_as(&self, message: &Value, change: &[(&'static str, Option<&str>)]) -> Response<Body> {
        let params = &message["params"];
        let name = params["name"].as_str().or_else(|| params["uri"].as_str()).map(str::to_owned);
        self.client
            .request(Verb::POST, Body::from(message.to_string()), |headers| {
                headers.insert("mcp-protocol-version", VERSION.parse().unwrap());
                headers.insert("mcp-method", message["method"].as_str().unwrap_or_default().parse().unwrap());
                if let Some(name) = name {
                    headers.insert("mcp-name", name.parse().unwrap());
                }
                for (header, value) in change {
                    headers.remove(*header);
                    if let Some(value) = value {
                        headers.insert(*header, value.parse().unwrap());
                    }
                }
            })
            .await
    }

    /// Sends a text with the headers of a request of `method` with this `name`.
    pub(super) async fn post(&self, method: &str, name: &str, text: String) -> Response<Body> {
        self.client
            .request(Verb::POST, Body::from(text), |headers| {
                headers.insert("mcp-protocol-version", VERSION.parse().unwrap());
                headers.insert("mcp-method", method.parse().unwrap());
                headers.insert("mcp-name", name.parse().unwrap());
            })
            .await
    }

    pub(super) async fn ask(&self, id: impl Into<Value>, method: &str, params: Value) -> Response<Body> {
        self.send_as(&self.message(id, method, params), &[]).await
    }

    pub(super) async fn tool(&self, id: impl Into<Value>, name: &str, arguments: Value) -> Response<Body> {
        self.ask(id, "tools/call", json!({ "name": name, "arguments": arguments })).await
    }
}

/// Status and error code of the answer.
async fn refused(response: Response<Body>) -> (u16, Value) {
    let status = response.status().as_u16();
    (status, body(response).await["error"]["code"].clone())
}

#[tokio::test]
async fn a_request_is_self_contained_and_its_answer_has_the_form_of_its_version() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", "{}");
    let response = client.tool("a", "echo", json!({ "say": "hi" })).await;
    assert_eq!((response.status(), response.headers().get("mcp-session-id")), (StatusCode::OK, None));
    let answer = body(response).await;
    assert_eq!((&answer["id"], &answer["result"]["said"]), (&json!("a"), &json!("hi")));
    let discovered = body(client.ask(1, "server/discover", json!({})).await).await;
    assert_eq!(discovered["result"]["supportedVersions"], json!([VERSION]));
    assert_eq!(discovered["result"]["resultType"], "complete");
    assert_eq!(discovered["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "all");
    let calls = world.server.calls.lock();
    let context = &calls[0].context;
    assert_eq!((context.requester.session(), context.client.name().as_deref()), (None, Some("modern")));
}

#[tokio::test]
async fn a_result_of_the_gateway_itself_needs_no_server() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", "{}");
    let old = Payload::new(Revision::V2025_11_25, r#"{"content":[]}"#.into());
    let of_server = old.clone().of_server(r#"{"name":"old","version":"1"}"#.into());
    for (result, name) in [(old, "lockkeeper"), (of_server, "old")] {
        world.server.plays.lock().push_back(Reply::complete(result));
        let answer = body(client.tool(1, "play", json!({})).await).await;
        assert_eq!(answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], name);
    }
    assert_eq!(world.server.calls.lock().len(), 2);
}

#[tokio::test]
async fn headers_must_match_the_body() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", "{}");
    let call = client.message(1, "tools/call", json!({ "name": "echo", "arguments": {} }));
    for change in [
        ("mcp-protocol-version", None),
        ("mcp-protocol-version", Some("2025-11-25")),
        ("mcp-method", None),
        ("mcp-method", Some("tools/list")),
        ("mcp-name", None),
        ("mcp-name", Some("other")),
        ("mcp-name", Some("=?base64?*?=")),
    ] {
        assert_eq!(refused(client.send_as(&call, &[change]).await).await, (400, json!(-32020)), "{change:?}");
    }
    let same = client.send_as(&call, &[("mcp-name", Some("=?base64?ZWNobw==?="))]).await;
    assert_eq!(same.status(), StatusCode::OK);
    // the header alone makes no request of this version, nor of another
    let bare = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
    assert_eq!(refused(client.send_as(&bare, &[]).await).await, (400, json!(-32602)));
    let bare = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} });
    assert_eq!(refused(client.send_as(&bare, &[]).await).await, (400, json!(-32020)));
}

#[tokio::test]
async fn each_invalid_envelope_has_its_own_error() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", "{}");
    let with = |key: &str, value: Value| {
        let mut message = client.message(1, "tools/list", json!({}));
        message["params"]["_meta"][format!("io.modelcontextprotocol/{key}")] = value;
        message
    };
    for (key, value) in [
        ("protocolVersion", json!(5)),
        ("clientCapabilities", Value::Null),
        ("clientInfo", json!("me")),
        ("logLevel", json!("loud")),
    ] {
        let response = client.send_as(&with(key, value), &[]).await;
        assert_eq!(refused(response).await, (400, json!(-32602)), "{key}");
    }
    for version in ["2099-01-01", "2025-11-25"] {
        let message = with("protocolVersion", json!(version));
        let response = client.send_as(&message, &[("mcp-protocol-version", Some(version))]).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        let error = &body(response).await["error"];
        assert_eq!(error["code"], -32022);
        assert_eq!(error["data"], json!({ "supported": [VERSION], "requested": version }));
    }
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "roots/list"] {
        let response = client.ask(1, method, json!({})).await;
        assert_eq!(refused(response).await, (404, json!(-32601)), "{method}");
    }
    assert_eq!(refused(client.ask(1, "x/nobody-knows", json!({})).await).await, (404, json!(-32601)));
}

#[tokio::test]
async fn notifications_are_accepted_and_responses_and_batches_are_refused() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", "{}");
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/x", "params": {} });
    assert_eq!(client.send_as(&told, &[]).await.status(), StatusCode::ACCEPTED);
    let answer = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
    assert_eq!(refused(client.send_as(&answer, &[]).await).await, (400, json!(-32600)));
    let batch = json!([client.message(1, "tools/list", json!({}))]);
    assert_eq!(refused(client.send_as(&batch, &[]).await).await, (400, json!(-32600)));
    for verb in [Verb::GET, Verb::DELETE] {
        let named =
            |headers: &mut http::HeaderMap| drop(headers.insert("mcp-protocol-version", VERSION.parse().unwrap()));
        let response = client.client.request(verb, Body::empty(), named).await;
        assert_eq!((response.status().as_u16(), &response.headers()["allow"]), (405, &"POST".parse().unwrap()));
    }
}

#[tokio::test]
async fn progress_has_the_clients_token_and_logs_have_the_requested_level() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", "{}");
    let log = |level: &str| told(Method::LoggingMessage, &json!({ "level": level, "data": 1 }));
    for (wanted, heard) in [(None, vec![]), (Some("warning"), vec!["error"]), (Some("debug"), vec!["info", "error"])] {
        let mut params = json!({ "name": "talk", "arguments": { "name": "t" }, "_meta": { "progressToken": 7 } });
        if let Some(level) = wanted {
            params["_meta"]["io.modelcontextprotocol/logLevel"] = level.into();
        }
        let ask = client.ask(1, "tools/call", params);
        let say = async {
            while !world.server.talks.lock().contains_key("t") {
                tokio::task::yield_now().await;
            }
            for event in [
                told(Method::Progress, &json!({ "progressToken": 7, "progress": 1 })),
                log("info"),
                log("error"),
                told(Method::ToolsListChanged, &json!({})),
                done(),
            ] {
                world.server.say("t", event);
            }
        };
        let (response, ()) = tokio::join!(ask, say);
        world.server.talks.lock().clear();
        let mut events = Events::of(response);
        let mut came = Vec::new();
        while let Some(message) = events.message().await {
            came.push(message);
        }
        let levels: Vec<_> = came.iter().filter_map(|message| message["params"]["level"].as_str()).collect();
        assert_eq!(levels, heard);
        assert_eq!(came[0]["params"]["progressToken"], 7);
        assert_eq!(came.len(), heard.len() + 2, "{came:?}");
        assert_eq!(came.last().unwrap()["result"]["resultType"], "complete");
    }
}

#[tokio::test]
async fn closing_the_answer_cancels_the_request() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", "{}");
    tokio::time::pause();
    let mut events = Events::of(client.tool(1, "hold", json!({})).await);
    assert_eq!(events.raw().await.as_deref(), Some(": \n\n"));
    drop(events);
    assert_eq!(world.server.fate().await, "dropped");
}

#[tokio::test]
async fn a_server_request_ends_the_request_and_the_next_one_brings_the_answer() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", ALL);
    let arguments = json!({ "method": "elicitation/create", "schema": { "type": "object", "properties": {} } });
    let asked = body(client.tool(1, "ask", arguments.clone()).await).await["result"].clone();
    assert_eq!(asked["resultType"], "input_required");
    let requests = asked["inputRequests"].as_object().unwrap();
    let (key, request) = requests.iter().next().unwrap();
    assert_eq!((requests.len(), &request["method"]), (1, &json!("elicitation/create")));
    assert_eq!(request["params"]["message"], "name?");
    let state = asked["requestState"].as_str().unwrap();
    assert!(state.starts_with("gw1."), "{state}");
    let answer = json!({ "action": "accept", "content": { "name": "Ann" } });
    let retry = |responses: Value, state: &str, arguments: &Value| json!({ "name": "ask", "arguments": arguments, "inputResponses": responses, "requestState": state });
    // a state is valid for its caller, its request, and once
    let stranger = Modern::of(&world, "bob", ALL);
    let given = retry(json!({ key: answer }), state, &arguments);
    let other = retry(json!({ key: answer }), state, &json!({ "method": "roots/list" }));
    let changed = retry(json!({ key: answer }), &format!("{state}A"), &arguments);
    for (who, params) in [(&stranger, &given), (&client, &other), (&client, &changed)] {
        let answer = body(who.ask(2, "tools/call", params.clone()).await).await;
        assert_eq!(answer["error"], json!({ "code": -32602, "message": "Invalid or expired requestState" }));
    }
    let done = body(client.ask(3, "tools/call", given.clone()).await).await;
    assert_eq!(done["id"], 3);
    assert_eq!(done["result"]["answer"], answer);
    let replayed = body(client.ask(4, "tools/call", given).await).await;
    assert_eq!(replayed["error"]["code"], -32602);
    assert_eq!(world.server.calls.lock().len(), 1, "the call was made once");
}

#[tokio::test]
async fn an_unanswered_request_is_sent_again_and_an_unknown_answer_is_ignored() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", ALL);
    let arguments = json!({ "method": "roots/list" });
    let asked = body(client.tool(1, "ask", arguments.clone()).await).await["result"].clone();
    let retry = |asked: &Value, responses: Value| {
        let state = &asked["requestState"];
        json!({ "name": "ask", "arguments": arguments, "inputResponses": responses, "requestState": state })
    };
    let again = body(client.ask(2, "tools/call", retry(&asked, json!({ "nobody": {} }))).await).await["result"].clone();
    assert_eq!(again["inputRequests"], asked["inputRequests"]);
    assert_ne!(again["requestState"], asked["requestState"]);
    let key = again["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let roots = json!({ "roots": [{ "uri": "file:///a" }] });
    let done = body(client.ask(3, "tools/call", retry(&again, json!({ key: roots }))).await).await;
    assert_eq!(done["result"]["answer"], roots);
}

#[tokio::test]
async fn a_client_gets_no_undeclared_server_request() {
    let world = World::new().await;
    for (capabilities, method, code) in [
        ("{}", "roots/list", -32601),
        (r#"{"roots":{}}"#, "sampling/createMessage", -32602),
        (r#"{"elicitation":{"url":{}}}"#, "elicitation/create", -32602),
    ] {
        let client = Modern::of(&world, "ann", capabilities);
        let answer = body(client.tool(1, "ask", json!({ "method": method })).await).await;
        assert_eq!(answer["result"]["code"], code, "{method}");
    }
}

#[tokio::test]
async fn a_first_request_cannot_bring_answers() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", ALL);
    let ask = |more: Value| {
        let mut params = json!({ "name": "ask", "arguments": { "method": "roots/list" } });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        client.ask(1, "tools/call", params)
    };
    let answers = json!({ "q1": { "roots": [] } });
    for state in [json!("gw1.AAAA"), json!("ST"), json!(""), json!(7), json!(null)] {
        for more in [json!({ "requestState": state }), json!({ "requestState": state, "inputResponses": answers })] {
            let error = json!({ "code": -32602, "message": "Invalid or expired requestState" });
            assert_eq!(body(ask(more).await).await["error"], error, "{state}");
        }
    }
    assert!(world.server.calls.lock().is_empty());
    // answers to unknown requests are ignored
    let asked = body(ask(json!({ "inputResponses": answers })).await).await;
    assert_eq!(asked["result"]["inputRequests"]["q1"]["method"], "roots/list");
}

#[tokio::test]
async fn server_requests_within_the_window_come_together() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", ALL);
    tokio::time::pause();
    let call = async { body(client.tool(1, "talk", json!({ "name": "t" })).await).await };
    let asks = async {
        while !world.server.talks.lock().contains_key("t") {
            tokio::task::yield_now().await;
        }
        let [(first, one), (second, two)] = [question(Method::RootsList), question(Method::CreateMessage)];
        world.server.say("t", first);
        // until it is taken
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        world.server.say("t", second);
        tokio::time::advance(std::time::Duration::from_mins(1)).await;
        [one, two]
    };
    let (asked, _open) = tokio::join!(call, asks);
    assert_eq!(asked["result"]["inputRequests"].as_object().unwrap().len(), 2, "{asked}");
}

#[tokio::test]
async fn the_outcome_of_a_call_with_a_closed_server_request_waits_for_the_retry() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", ALL);
    let data = json!({ "reason": "question_closed" });
    let failed = ErrorObject::with_data(ErrorObject::INTERNAL_ERROR, "closed", &data);
    for (name, end) in [("t", done()), ("u", Event::Done(Outcome::Failed(failed)))] {
        let arguments = json!({ "name": name });
        let (asked, answered) = question(Method::RootsList);
        let asks = async {
            while !world.server.talks.lock().contains_key(name) {
                tokio::task::yield_now().await;
            }
            world.server.say(name, asked);
        };
        let call = async { body(client.tool(1, "talk", arguments.clone()).await).await["result"].clone() };
        let (asked, ()) = tokio::join!(call, asks);
        assert_eq!(asked["inputRequests"]["q1"]["method"], "roots/list", "{asked}");
        drop(answered);
        let failed = matches!(end, Event::Done(Outcome::Failed(_)));
        world.server.say(name, end);
        let late = json!({ "q1": { "roots": [] } });
        let params = json!({ "name": "talk", "arguments": arguments, "inputResponses": late,
            "requestState": asked["requestState"] });
        let answer = body(client.ask(2, "tools/call", params).await).await;
        if failed {
            assert_eq!((&answer["error"]["code"], &answer["error"]["data"]), (&json!(-32603), &data), "{answer}");
        } else {
            assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
        }
    }
}

#[tokio::test]
async fn a_suspended_call_ends_with_its_credential() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", ALL);
    let arguments = json!({ "method": "roots/list" });
    let asked = body(client.tool(1, "ask", arguments.clone()).await).await["result"].clone();
    client.client.admission.lease.revoked.cancel();
    tokio::time::pause();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let again = Modern::of(&world, "ann", ALL);
    let params = json!({
        "name": "ask", "arguments": arguments, "requestState": asked["requestState"],
        "inputResponses": { "q1": { "roots": [] } },
    });
    assert_eq!(body(again.ask(2, "tools/call", params).await).await["error"]["code"], -32602);
}

#[tokio::test]
async fn a_client_that_does_not_return_counts_as_a_cancelled_dialog() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", ALL);
    let arguments = json!({ "method": "elicitation/create", "schema": { "type": "object", "properties": {} } });
    let asked = body(client.tool(1, "ask", arguments.clone()).await).await["result"].clone();
    tokio::time::pause();
    tokio::time::sleep(LimitsConfig::default().server_request_timeout * 2).await;
    let params =
        json!({ "name": "ask", "arguments": arguments, "inputResponses": {}, "requestState": asked["requestState"] });
    assert_eq!(body(client.ask(2, "tools/call", params).await).await["error"]["code"], -32602);
}

#[tokio::test]
async fn a_listen_is_acknowledged_first_and_gets_only_its_notifications() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", "{}");
    let chosen = json!({ "notifications": { "toolsListChanged": true, "promptsListChanged": true } });
    let mut events = Events::of(client.ask("l", "subscriptions/listen", chosen).await);
    let acknowledged = events.message().await.unwrap();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    // the server notifies only about its tools
    assert_eq!(acknowledged["params"]["notifications"], json!({ "toolsListChanged": true }));
    assert_eq!(acknowledged["params"]["_meta"], json!({ "io.modelcontextprotocol/subscriptionId": "l" }));
    for (method, params) in [
        (Method::PromptsListChanged, json!({})),
        (Method::LoggingMessage, json!({ "level": "error", "data": 1 })),
        (Method::ToolsListChanged, json!({ "_meta": { "x/y": 1 } })),
    ] {
        let _ = world.server.told.send((method, params));
    }
    let told = events.message().await.unwrap();
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert_eq!(told["params"]["_meta"], json!({ "x/y": 1, "io.modelcontextprotocol/subscriptionId": "l" }));
    world.front.drain();
    let ended = events.message().await.unwrap();
    assert_eq!((&ended["id"], &ended["result"]["resultType"]), (&json!("l"), &json!("complete")));
    assert_eq!(events.raw().await, None);
    assert_eq!(world.ended.lock().len(), 1, "what the listen held is given up");
}

#[tokio::test]
async fn a_listen_with_an_invalid_filter_is_refused() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", "{}");
    for chosen in [json!({}), json!({ "notifications": [] }), json!({ "notifications": { "toolsListChanged": 1 } })] {
        assert_eq!(refused(client.ask(1, "subscriptions/listen", chosen).await).await, (200, json!(-32602)));
    }
}

#[tokio::test]
async fn a_modern_only_endpoint_names_its_version_to_legacy_clients() {
    let settings = lockkeeper::frontend::FrontendSettings { serves: Serves::ModernAlone, ..super::settings() };
    let world = World::with(settings).await;
    let client = Modern::of(&world, "ann", ALL);
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "old", "version": "1" } } });
    let headers = [("mcp-protocol-version", None), ("mcp-method", None), ("mcp-name", None)];
    let response = client.send_as(&initialize, &headers).await;
    assert_eq!(response.status(), 400);
    let error = body(response).await["error"].clone();
    let data = json!({ "supported": ["2026-07-28"], "requested": "2025-11-25" });
    assert_eq!(error, json!({ "code": -32022, "message": "Unsupported protocol version", "data": data }));
    let said = body(client.tool(2, "echo", json!({ "say": "hi" })).await).await;
    assert_eq!(said["result"]["said"], "hi");
}

#[tokio::test]
async fn a_listen_for_tasks_needs_the_declared_extension() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", "{}");
    let chosen = |ids: Value| json!({ "notifications": { "taskIds": ids } });
    let response = client.ask(1, "subscriptions/listen", chosen(json!(["T1"]))).await;
    assert_eq!(response.status(), 400);
    let error = body(response).await["error"].clone();
    assert_eq!(error["code"], -32021);
    assert_eq!(error["data"], json!({ "requiredCapabilities": { "extensions": { TASKS: {} } } }));
    let mut events = Events::of(client.ask(2, "subscriptions/listen", chosen(json!([]))).await);
    assert_eq!(events.message().await.unwrap()["params"]["notifications"], json!({}));
    let declaring = Modern::of(&world, "ann", DECLARES);
    let many: Vec<String> = (0..1001).map(|id| id.to_string()).collect();
    for ids in [json!("T1"), json!([1]), json!(["x".repeat(1025)]), json!(many)] {
        let response = declaring.ask(1, "subscriptions/listen", chosen(ids)).await;
        assert_eq!(refused(response).await, (200, json!(-32602)));
    }
}

#[tokio::test]
async fn a_listen_for_tasks_is_acknowledged_with_the_tasks_that_the_server_acknowledges() {
    let world = World::new().await;
    let (say, heard) = tokio::sync::mpsc::unbounded_channel();
    *world.server.heard.lock() = Some(heard);
    let client = Modern::of(&world, "ann", DECLARES);
    for event in [
        told(
            Method::SubscriptionsAcknowledged,
            &json!({ "notifications": { "taskIds": ["T1", "T3"], "toolsListChanged": true } }),
        ),
        told(Method::Tasks, &json!({ "taskId": "T2", "status": "working", "ttl": 1 })),
        told(Method::Tasks, &json!({ "taskId": "T1", "status": "completed", "ttl": 1, "result": { "content": [] } })),
    ] {
        say.send(event).unwrap();
    }
    let chosen = json!({ "notifications": { "taskIds": ["T1", "T2"], "toolsListChanged": true } });
    let mut events = Events::of(client.ask("l", "subscriptions/listen", chosen).await);
    let acknowledged = events.message().await.unwrap();
    assert_eq!(acknowledged["params"]["notifications"], json!({ "taskIds": ["T1"], "toolsListChanged": true }));
    let came = events.message().await.unwrap();
    assert_eq!(came["method"], "notifications/tasks");
    let expected = json!({ "taskId": "T1", "status": "completed", "ttlMs": 1, "result": { "content": [] },
        "_meta": { "io.modelcontextprotocol/subscriptionId": "l" } });
    assert_eq!(came["params"], expected);
    let calls = world.server.calls.lock();
    let listen = calls.iter().find(|call| call.method == Method::Listen).unwrap();
    let chosen = json!({ "notifications": { "taskIds": ["T1", "T2"], "toolsListChanged": true } });
    assert_eq!(listen.params.view::<Value>(), Some(chosen), "the whole filter goes down");
}

#[tokio::test]
async fn a_server_without_an_acknowledgement_of_tasks_is_not_awaited_for_long() {
    let world = World::new().await;
    let (_silent, heard) = tokio::sync::mpsc::unbounded_channel();
    *world.server.heard.lock() = Some(heard);
    let client = Modern::of(&world, "ann", DECLARES);
    tokio::time::pause();
    let chosen = json!({ "notifications": { "taskIds": ["T1"] } });
    let mut events = Events::of(client.ask("l", "subscriptions/listen", chosen).await);
    assert_eq!(events.message().await.unwrap()["params"]["notifications"], json!({}));
}
