//! Servers and clients of 2026-07-28: everything passes unchanged, except for the server's state, which is sealed: the
//! client cannot read, change, or misuse it.

use std::time::Duration;

use axum::body::Body;
use http::{Method as Verb, Response, StatusCode};
use lockkeeper::mcp::{ErrorObject, Event, Method, Notification, Outcome, Payload, Reply, Revision};
use serde_json::{Value, json};

use super::{World, body, modern::Modern, rounds::requires, text};

const ALL: &str = r#"{"sampling":{},"elicitation":{"form":{},"url":{}},"roots":{}}"#;
const ENVELOPE: &str = r#""_meta" : {"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{ }},"x/y":1.0}"#;

fn complete(text: &str) -> Reply {
    Reply::complete(Payload::new(Revision::V2026_07_28, text.to_owned().into()))
}

/// A call of `play` with further members, verbatim.
async fn play(client: &Modern, members: &str) -> Response<Body> {
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{ "name":"play" ,"arguments":{{"n":1.50}},{members}{ENVELOPE} }}}}"#
    );
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "play")];
    let change = |all: &mut http::HeaderMap| {
        for (name, value) in headers {
            all.insert(name, value.parse().unwrap());
        }
    };
    client.client.request(Verb::POST, Body::from(text), change).await
}

/// The parameters of the calls that the server got, verbatim.
fn got(world: &World) -> Vec<String> {
    let calls = world.server.calls.lock();
    let calls = calls.iter().filter(|call| call.method == Method::ToolsCall);
    calls.map(|call| String::from_utf8_lossy(call.params.json()).into_owned()).collect()
}

/// The state that the client gets if the server ends a call with the state `"ST"`.
async fn sealed(world: &World, client: &Modern) -> String {
    world.server.plays.lock().push_back(Reply::done(requires(r#"{"requestState":"ST"}"#)));
    let answer = body(play(client, "").await).await;
    answer["result"]["requestState"].as_str().unwrap().to_owned()
}

fn with(state: &str) -> String {
    format!(r#""inputResponses":{{ "k":{{"action":"accept"}} }},"requestState" :"{state}","#)
}

fn expired(answer: &Value) -> bool {
    answer["error"] == json!({ "code": -32602, "message": "Invalid or expired requestState" })
}

#[tokio::test]
async fn a_server_gets_its_state_back_and_every_other_byte_passes() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", ALL);
    let asked = |state: &str| {
        format!(
            r#"{{ "resultType":"input_required","x":12345678901234567890123 ,"inputRequests":{{"k":{{"method":"elicitation/create","params":{{"message":"\u0041"}},"odd":1.0}}}},"requestState" : {state}, "_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"b"}} }} }}"#
        )
    };
    let finished = r#"{ "resultType" : "complete","ttlMs":5.0,"content":[ ],"structuredContent":[1e400],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"b","version":"9"},"x/y":1.50} }"#;
    world.server.plays.lock().extend([Reply::done(requires(&asked(r#""\u0053T\/""#))), complete(finished)]);
    let first = text(play(&client, "").await).await;
    let state: Value = serde_json::from_str(&first).unwrap();
    let state = state["result"]["requestState"].as_str().unwrap();
    assert!(state.starts_with("gw1."), "{state}");
    assert!(first.contains(&asked(&format!("\"{state}\""))), "{first}");
    let last = text(play(&client, &with(state)).await).await;
    assert!(last.contains(finished), "{last}");
    let params = r#"{ "name":"play" ,"arguments":{"n":1.50},"#;
    let responses = r#""inputResponses":{ "k":{"action":"accept"} },"requestState" :"\u0053T\/","#;
    assert_eq!(got(&world), [format!("{params}{ENVELOPE} }}"), format!("{params}{responses}{ENVELOPE} }}")]);
}

#[tokio::test]
async fn notifications_and_errors_of_a_server_pass_unchanged() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", ALL);
    let told = r#"{ "progressToken" : 7 ,"progress":1.50,"x":12345678901234567890123, "_meta":{ "x/y":1.0 } }"#;
    let error = r#"{ "code" : -32021,"message":"\u0041","data":{ "requiredCapabilities":{ }},"x":1.0 }"#;
    let params = Payload::new(Revision::V2026_07_28, told.into());
    let failed = ErrorObject::read(error.into()).unwrap().written_in(Revision::V2026_07_28);
    world.server.plays.lock().push_back(Reply::new(futures_util::stream::iter([
        Event::Notified(Notification { method: Method::Progress, params }),
        Event::Done(Outcome::Failed(failed)),
    ])));
    let call = json!({ "name": "play", "_meta": { "progressToken": 7 } });
    let said = text(client.ask(1, "tools/call", call).await).await;
    assert!(said.contains(told) && said.contains(error), "{said}");
}

#[tokio::test]
async fn a_server_without_a_state_gets_none() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", ALL);
    for nothing in ["", r#","requestState":null"#] {
        let asked = format!(r#"{{"resultType":"input_required","inputRequests":{{}}{nothing}}}"#);
        world.server.plays.lock().push_back(Reply::done(requires(&asked)));
        assert!(text(play(&client, "").await).await.contains(&asked));
    }
    let asked = r#"{"resultType":"input_required","inputRequests":{"k":{"method":"roots/list"}}}"#;
    world.server.plays.lock().extend([Reply::done(requires(asked)), complete(r#"{"content":[]}"#)]);
    assert!(text(play(&client, "").await).await.contains(asked));
    let responses = r#""inputResponses":{"k":{"roots":[]}},"#;
    assert_eq!(play(&client, responses).await.status(), StatusCode::OK);
    assert!(got(&world)[3].contains(responses));
}

#[tokio::test]
async fn a_state_is_valid_for_its_caller_its_request_and_a_limited_time() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", ALL);
    let state = sealed(&world, &client).await;
    let stranger = Modern::of(&world, "bob", ALL);
    let mut elsewhere = Modern::of(&world, "ann", ALL);
    elsewhere.client.path = "/mcp/git";
    for (who, state) in [
        (&stranger, state.clone()),
        (&elsewhere, state.clone()),
        (&client, format!("{state}A")),
        (&client, "gw1.expired".to_owned()),
        (&client, "ST".to_owned()),
    ] {
        assert!(expired(&body(play(who, &with(&state)).await).await), "{state}");
    }
    let other = json!({ "name": "play", "arguments": { "n": 2 }, "requestState": state });
    assert!(expired(&body(client.ask(1, "tools/call", other).await).await));
    let odd = json!({ "name": "play", "arguments": { "n": 1.5 }, "requestState": 7 });
    assert!(expired(&body(client.ask(1, "tools/call", odd).await).await));
    assert_eq!(got(&world).len(), 1, "the server is called for none of them");
    world.clock.advance(Duration::from_mins(10));
    assert!(expired(&body(play(&client, &with(&state)).await).await));
    let fresh = sealed(&world, &client).await;
    assert!(expired(&body(play(&client, &with(&state)).await).await));
    assert!(
        body(play(&client, &with(&fresh)).await).await["error"].is_object(),
        "the play is over, and the state good"
    );
}

#[tokio::test]
async fn every_process_on_the_store_can_serve_a_retry_any_number_of_times() {
    let world = World::new().await;
    let state = sealed(&world, &Modern::of(&world, "ann", ALL)).await;
    let after = world.restarted();
    let client = Modern::of(&after, "ann", ALL);
    for _ in 0..2 {
        after.server.plays.lock().push_back(complete(r#"{"content":[]}"#));
        assert!(body(play(&client, &with(&state)).await).await["result"].is_object());
    }
    assert!(got(&after).iter().all(|params| params.contains(r#""requestState" :"ST""#)));
}

#[tokio::test]
async fn a_suspended_call_is_lost_with_its_process() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", ALL);
    let arguments = json!({ "method": "roots/list" });
    let asked = body(client.tool(1, "ask", arguments.clone()).await).await["result"].clone();
    let retry =
        json!({ "name": "ask", "arguments": arguments, "inputResponses": {}, "requestState": asked["requestState"] });
    let after = world.restarted();
    let answer = body(Modern::of(&after, "ann", ALL).ask(2, "tools/call", retry).await).await;
    assert!(expired(&answer), "{answer}");
    assert!(after.server.calls.lock().is_empty(), "a call that may have run is never made again");
}

#[tokio::test]
async fn a_state_that_is_too_large_is_an_error_of_the_server() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", ALL);
    for (length, fits) in [(40_000, true), (60_000, false)] {
        let asked = json!({ "requestState": "s".repeat(length) });
        world.server.plays.lock().push_back(Reply::done(requires(&asked.to_string())));
        let answer = body(play(&client, "").await).await;
        assert_eq!(answer["result"].is_object(), fits, "{length}");
        if !fits {
            assert_eq!(answer["error"]["code"], -32603);
            assert!(answer["error"]["message"].as_str().unwrap().contains("too large"));
        }
    }
}

#[tokio::test]
async fn only_some_methods_may_end_with_server_requests() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", ALL);
    world.server.plays.lock().push_back(Reply::done(requires(r#"{"requestState":"ST"}"#)));
    let answer = body(client.ask(1, "completion/complete", json!({})).await).await;
    assert_eq!(answer["error"]["code"], -32603);
}

#[tokio::test]
async fn server_information_passes_except_for_versions_and_tasks() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", ALL);
    let about = r#"{"resultType":"complete","supportedVersions":["2026-07-28","2099-01-01"],"capabilities":{ "tools":{"listChanged":true},"tasks":{"list":{}},"extensions":{"io.modelcontextprotocol/tasks":{},"x/ui":{ "a":1.0 }},"odd":[] },"instructions":"\u0041sk","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"b","version":"9"},"x/y":1.50},"ttlMs":9}"#;
    *world.server.about.lock() = Some(about);
    let told = text(client.ask(1, "server/discover", json!({})).await).await;
    for kept in [
        r#""supportedVersions":["2026-07-28"]"#,
        r#""capabilities":{ "tools":{"listChanged":true},"extensions":{"io.modelcontextprotocol/tasks":{},"x/ui":{ "a":1.0 }},"odd":[] }"#,
        r#""instructions":"\u0041sk""#,
        r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"b","version":"9"},"x/y":1.50}"#,
    ] {
        assert!(told.contains(kept), "{kept} in {told}");
    }
}

#[tokio::test]
async fn suspended_calls_do_not_delay_the_end_of_the_gateway() {
    let world = World::new().await;
    let client = Modern::of(&world, "ann", ALL);
    let asked = body(client.tool(1, "ask", json!({ "method": "roots/list" })).await).await;
    assert_eq!(asked["result"]["resultType"], "input_required");
    let closed = async { tokio::join!(world.front.close(), world.crossing.close()) };
    tokio::time::timeout(Duration::from_mins(1), closed).await.unwrap();
}
