//! Server requests during a call, and the client's answers.

use std::sync::Arc;

use axum::body::Body;
use http::{Request, StatusCode};
use lockkeeper::resource::Unheard;
use serde_json::{Value, json};

use super::{Client, Events, World, body, call, modern::Modern};
use crate::support::log::Log;

async fn asking(world: &World, capabilities: Value) -> Client {
    let mut client = world.client("ann");
    client.open("2025-11-25", capabilities).await;
    client
}

#[tokio::test]
async fn a_server_request_comes_on_the_stream_of_its_call_and_is_answered() {
    let world = World::new().await;
    let client = asking(&world, json!({ "elicitation": {} })).await;
    for answer in [json!({ "result": { "action": "accept" } }), json!({ "error": { "code": -1, "message": "no" } })] {
        let mut events = Events::of(client.send(call(1, "ask", json!({}))).await);
        let question = events.message().await.unwrap();
        assert_eq!(question["method"], "elicitation/create");
        assert_eq!(question["params"]["message"], "name?");
        assert!(question["id"].as_str().unwrap().starts_with("lk-"));
        let mut reply = answer.clone();
        reply["jsonrpc"] = json!("2.0");
        reply["id"] = question["id"].clone();
        assert_eq!(client.send(reply).await.status(), StatusCode::ACCEPTED);
        let outcome = events.message().await.unwrap();
        let expected = match answer.get("result") {
            Some(result) => json!({ "content": [], "answer": result }),
            None => json!({ "content": [], "code": -1 }),
        };
        assert_eq!(outcome["result"], expected);
        assert_eq!(events.raw().await, None);
    }
}

#[tokio::test]
async fn an_answer_from_another_client_is_ignored() {
    let world = World::new().await;
    let client = asking(&world, json!({ "elicitation": {} })).await;
    let mut events = Events::of(client.send(call(1, "ask", json!({}))).await);
    let id = events.message().await.unwrap()["id"].clone();
    let answer = |action| json!({ "jsonrpc": "2.0", "id": id, "result": { "action": action } });
    let other = world.ready("bob", "2025-11-25").await;
    assert_eq!(other.send(answer("decline")).await.status(), StatusCode::ACCEPTED);
    client.send(answer("accept")).await;
    assert_eq!(events.message().await.unwrap()["result"]["answer"]["action"], "accept");
}

#[tokio::test]
async fn an_answer_that_could_not_be_taken_fails_its_request_and_no_other() {
    let world = World::new().await;
    let client = asking(&world, json!({ "elicitation": {} })).await;
    let other = world.ready("bob", "2025-11-25").await;
    let unchecked = |client: &Client| Unheard::Unchecked(Arc::clone(&client.admission.caller));
    let refused = |body: &Value| {
        let request = Request::post("/mcp").header("mcp-session-id", client.session.as_deref().unwrap());
        request.body(Body::from(body.to_string())).unwrap()
    };
    let mut events = Events::of(client.send(call(1, "ask", json!({}))).await);
    let id = events.message().await.unwrap()["id"].clone();
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": { "action": "accept" } });
    // somebody else names the session; its client sends something else
    world.front.take_unheard(refused(&answer), unchecked(&other)).await;
    for message in [call(2, "ask", json!({})), json!({ "jsonrpc": "2.0", "id": "lk-other-1", "result": {} }), json!(7)]
    {
        world.front.take_unheard(refused(&message), unchecked(&client)).await;
    }
    client.send(answer).await;
    assert_eq!(events.message().await.unwrap()["result"]["answer"]["action"], "accept");
    let mut events = Events::of(client.send(call(1, "ask", json!({}))).await);
    let id = events.message().await.unwrap()["id"].clone();
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": { "action": "accept" } });
    world.front.take_unheard(refused(&answer), unchecked(&client)).await;
    assert_eq!(events.message().await.unwrap()["result"]["code"], -32603);
    // one that comes late, with a credential that is valid, is an answer, once
    let mut events = Events::of(client.send(call(1, "ask", json!({}))).await);
    let id = events.message().await.unwrap()["id"].clone();
    for action in ["accept", "decline"] {
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": { "action": action } });
        let late = Unheard::Late(Arc::clone(&client.admission.caller));
        world.front.take_unheard(refused(&answer), late).await;
    }
    assert_eq!(events.message().await.unwrap()["result"]["answer"]["action"], "accept");
}

#[tokio::test]
async fn a_client_gets_only_server_requests_that_it_declared() {
    let world = World::new().await;
    let client = asking(&world, json!({ "sampling": {} })).await;
    for (method, code) in [("elicitation/create", -32602), ("roots/list", -32601)] {
        let answer = body(client.send(call(1, "ask", json!({ "method": method }))).await).await;
        assert_eq!(answer["result"]["code"], code, "{method}");
    }
}

#[tokio::test]
async fn a_client_gets_only_the_elicitation_modes_that_it_declared() {
    let world = World::new().await;
    for (declared, mode, code) in [
        (json!({}), "url", json!(-32602)),
        (json!({ "form": {} }), "url", json!(-32602)),
        (json!({ "url": {} }), "form", json!(-32602)),
    ] {
        let client = asking(&world, json!({ "elicitation": declared })).await;
        let answer = body(client.send(call(1, "ask", json!({ "mode": mode }))).await).await;
        assert_eq!(answer["result"]["code"], code, "{declared} {mode}");
    }
    let client = asking(&world, json!({ "elicitation": { "url": {} } })).await;
    let mut events = Events::of(client.send(call(1, "ask", json!({ "mode": "url" }))).await);
    assert_eq!(events.message().await.unwrap()["params"]["mode"], "url");
}

#[tokio::test]
async fn what_a_client_did_not_declare_is_logged_once_for_its_server() {
    let log = Log::open();
    let world = World::new().await;
    let forms = asking(&world, json!({ "elicitation": { "form": {} }, "sampling": {} })).await;
    let nothing = asking(&world, json!({})).await;
    let stateless = Modern::of(&world, "bob", "{}");
    for _ in 0..2 {
        forms.send(call(1, "ask", json!({ "mode": "url" }))).await;
        for method in ["elicitation/create", "sampling/createMessage", "roots/list"] {
            nothing.send(call(1, "ask", json!({ "method": method }))).await;
            stateless.tool(1, "ask", json!({ "method": method })).await;
        }
    }
    let lines = log.lines("not carried");
    for feature in ["elicitation.url", "elicitation", "sampling", "roots"] {
        let reason = format!("the client did not declare `{feature}`");
        let named = |line: &&String| line.contains("WARN") && line.contains("\"b1\"") && line.contains(&reason);
        assert_eq!(lines.iter().filter(named).count(), 1, "{feature} in {lines:#?}");
    }
    assert_eq!(lines.len(), 4, "{lines:#?}");
}

#[tokio::test]
async fn a_client_gets_no_server_request_before_it_is_initialized() {
    let world = World::new().await;
    let mut client = world.client("ann");
    let response = client.send(super::initialize("2025-11-25", json!({ "elicitation": {} }))).await;
    client.session = Some(response.headers()["mcp-session-id"].to_str().unwrap().to_owned());
    let answer = body(client.send(call(1, "ask", json!({}))).await).await;
    assert_eq!(answer["result"]["answer"], Value::Null);
}

#[tokio::test]
async fn a_withdrawn_server_request_is_cancelled_at_the_client() {
    let world = World::new().await;
    let client = asking(&world, json!({ "elicitation": {} })).await;
    let mut events = Events::of(client.send(call(1, "ask", json!({ "withdraw": true }))).await);
    let id = events.message().await.unwrap()["id"].clone();
    let withdrawal = events.message().await.unwrap();
    assert_eq!(withdrawal["method"], "notifications/cancelled");
    assert_eq!(withdrawal["params"]["requestId"], id);
}

#[tokio::test]
async fn cancelling_a_call_withdraws_its_server_requests() {
    let world = World::new().await;
    let client = asking(&world, json!({ "elicitation": {} })).await;
    let mut events = Events::of(client.send(call(1, "ask", json!({}))).await);
    let id = events.message().await.unwrap()["id"].clone();
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    client.send(cancel).await;
    assert_eq!(events.message().await.unwrap()["params"]["requestId"], id);
    assert_eq!(events.message().await, None);
}

#[tokio::test]
async fn an_unanswered_server_request_is_withdrawn_after_its_timeout() {
    let server_request_timeout = std::time::Duration::from_millis(20);
    let world =
        World::with(super::limited(lockkeeper::model::LimitsConfig { server_request_timeout, ..Default::default() }))
            .await;
    let client = asking(&world, json!({ "elicitation": {} })).await;
    let mut events = Events::of(client.send(call(1, "ask", json!({}))).await);
    let id = events.message().await.unwrap()["id"].clone();
    let withdrawal = events.message().await.unwrap();
    assert_eq!((&withdrawal["method"], &withdrawal["params"]["requestId"]), (&json!("notifications/cancelled"), &id));
    assert_eq!(events.message().await.unwrap()["result"]["code"], -32603, "the server is told, and goes on");
}

#[tokio::test]
async fn a_server_request_and_its_answer_are_translated_for_an_older_client() {
    let world = World::new().await;
    let mut client = world.client("ann");
    client.open("2025-06-18", json!({ "elicitation": {} })).await;
    let schema = json!({ "type": "object", "properties": { "c": { "type": "array", "minItems": 1,
        "items": { "type": "string", "enum": ["r", "g"] } } } });
    let mut events = Events::of(client.send(call(1, "ask", json!({ "schema": schema }))).await);
    for (chosen, last) in [(false, false), (true, true)] {
        let question = events.message().await.unwrap();
        let asked = &question["params"]["requestedSchema"]["properties"];
        assert_eq!(asked["c__0"]["type"], "boolean", "{question}");
        let again = question["params"]["message"].as_str().unwrap().contains("at least 1");
        assert_eq!(again, last, "what breaks a bound is asked again, with the bound");
        let result = json!({ "action": "accept", "content": { "c__0": chosen, "c__1": false } });
        client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": result })).await;
    }
    let answer = events.message().await.unwrap();
    assert_eq!(answer["result"]["answer"]["content"], json!({ "c": ["r"] }));
}

#[tokio::test]
async fn a_client_of_a_version_without_elicitation_gets_none() {
    let world = World::new().await;
    let mut client = world.client("ann");
    client.open("2025-03-26", json!({ "elicitation": {} })).await;
    let answer = body(client.send(call(1, "ask", json!({ "schema": {} }))).await).await;
    assert_eq!(answer["result"]["code"], -32602);
}
