//! Groups of real servers, through the whole gateway: clients of both eras, keys, and what else is at an endpoint.

use std::path::Path;

use futures_util::{SinkExt as _, StreamExt as _};
use lockkeeper::model::status::Status;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message as Frame, client::IntoClientRequest as _};

use super::{Events, Gateway, client, made_key};
use crate::{
    backend::scripted_servers::everyday,
    kit::{programs::ProgramServer, scripted::Script},
    support::data_folder::DataFolder,
};

/// The era of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Era {
    Legacy,
    Modern,
}

/// The servers `one`, `two` and `three`.
fn servers() -> [ProgramServer; 3] {
    let two = Script::everyday().lists(&["about"]);
    [Script::everyday(), two, Script::everyday()].map(|script| ProgramServer::start(everyday(script)))
}

/// A gateway with these servers, and a group of the first two without a tool of the second.
async fn gateway(folder: &Path, servers: &[ProgramServer; 3]) -> Gateway {
    let section =
        |(name, server): (&str, &ProgramServer)| format!("[servers.{name}]\nera = \"legacy\"\n{}", server.lines());
    let sections: String = ["one", "two", "three"].into_iter().zip(servers).map(section).collect();
    let group = "[groups.work]\nservers = [\"two\", \"one\"]\ntools.deny = [\"two__echo\"]\n";
    std::fs::write(folder.join("lockkeeper.toml"), sections + group).unwrap();
    Gateway::start(folder).await
}

/// The answer to a request without a session, or the status of its refusal.
async fn ask_modern(
    (gateway, path, key): (&Gateway, &str, &str),
    method: &str,
    mut params: Value,
) -> Result<Value, u16> {
    params["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {} });
    let name = params["name"].as_str().map(str::to_owned);
    let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    headers.extend(name.as_deref().map(|name| ("mcp-name", name)));
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    post((gateway, path, key), &headers, &message).await.map(|(answer, _)| answer)
}

/// The same in a session of its own.
async fn ask_legacy(at: (&Gateway, &str, &str), method: &str, params: Value) -> Result<Value, u16> {
    let about = json!({ "name": "t", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about });
    let (_, session) =
        post(at, &[], &json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello })).await?;
    let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-06-18")];
    post(at, &headers, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    post(at, &headers, &message).await.map(|(answer, _)| answer)
}

/// The answer, and the session that it opens.
async fn post(
    (gateway, path, key): (&Gateway, &str, &str),
    headers: &[(&str, &str)],
    message: &Value,
) -> Result<(Value, String), u16> {
    let mut request = client().post(format!("{}{path}", gateway.url)).bearer_auth(key).body(message.to_string());
    let common = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    for (name, value) in common.iter().chain(headers) {
        request = request.header(*name, *value);
    }
    let response = request.send().await.unwrap();
    if [StatusCode::FORBIDDEN, StatusCode::UNAUTHORIZED, StatusCode::NOT_FOUND].contains(&response.status()) {
        return Err(response.status().as_u16());
    }
    let session = response.headers().get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
    let text = response.text().await.unwrap();
    let answer = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
    Ok((serde_json::from_str(answer).unwrap_or_default(), session.unwrap_or_default()))
}

async fn ask(era: Era, at: (&Gateway, &str, &str), method: &str, params: Value) -> Result<Value, u16> {
    match era {
        Era::Legacy => ask_legacy(at, method, params).await,
        Era::Modern => ask_modern(at, method, params).await,
    }
}

/// The names of the tools.
fn names(listed: &Value) -> Vec<&str> {
    let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

fn echo(name: &str) -> Value {
    json!({ "name": name, "arguments": { "text": "hi" } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_lists_and_calls_its_servers_and_refuses_what_it_leaves_out() {
    let folder = DataFolder::new();
    let servers = servers();
    let gateway = gateway(folder.path(), &servers).await;
    let key = made_key(folder.path(), &["--direct"]);
    for era in [Era::Legacy, Era::Modern] {
        let at = (&gateway, "/mcp/work", key.as_str());
        assert_eq!(
            names(&ask(era, at, "tools/list", json!({})).await.unwrap()),
            ["two__about", "one__echo"],
            "{era:?}"
        );
        let answer = ask(era, at, "tools/call", echo("one__echo")).await.unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], "hi", "{era:?}: {answer}");
        let answer = ask(era, at, "tools/call", echo("two__about")).await.unwrap();
        assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("pid"), "{era:?}: {answer}");
        for refused in ["two__echo", "two__Echo", "one__about", "three__echo"] {
            let answer = ask(era, at, "tools/call", echo(refused)).await.unwrap();
            assert_eq!(answer["error"]["message"], format!("Unknown tool: {refused}"), "{era:?}: {answer}");
        }
        let listed = ask(era, (&gateway, "/mcp", &key), "tools/list", json!({})).await.unwrap();
        assert_eq!(names(&listed), ["one__echo", "two__echo", "two__about", "three__echo"], "{era:?}");
    }
    let calls = servers.each_ref().map(|server| server.journal().text().matches("\"echo\"").count());
    assert_eq!(calls, [2, 0, 0]);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_for_a_group_opens_its_endpoints_and_no_other() {
    let folder = DataFolder::new();
    let servers = servers();
    let gateway = gateway(folder.path(), &servers).await;
    let key = made_key(folder.path(), &["--direct", "--group", "work"]);
    for era in [Era::Legacy, Era::Modern] {
        let listed = ask(era, (&gateway, "/mcp/work", &key), "tools/list", json!({})).await.unwrap();
        assert_eq!(names(&listed), ["two__about", "one__echo"], "{era:?}");
        for path in ["/mcp", "/mcp/one", "/mcp/three"] {
            assert_eq!(ask(era, (&gateway, path, &key), "tools/list", json!({})).await, Err(403), "{era:?} {path}");
        }
    }
    let one = made_key(folder.path(), &["--direct", "--server", "two"]);
    let at = (&gateway, "/mcp/work", one.as_str());
    let refused = ask(Era::Modern, at, "tools/call", echo("one__echo")).await.unwrap();
    assert_eq!(refused["error"]["message"], "Unknown tool: one__echo", "{refused}");
    assert!(ask(Era::Modern, at, "tools/call", echo("two__about")).await.unwrap()["result"].is_object());
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_is_served_over_every_transport() {
    let folder = DataFolder::new();
    let servers = servers();
    let gateway = gateway(folder.path(), &servers).await;
    let key = made_key(folder.path(), &["--direct", "--group", "work"]);
    let about = json!({ "name": "t", "version": "1" });
    let hello = |version: &str| {
        let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": about });
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string()
    };
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();

    let mut events = Events { response: gateway.get("/sse/work", Some(&key)).await, text: String::new() };
    let address = format!("{}{}", gateway.url, events.next("endpoint").await);
    for message in [hello("2024-11-05"), ready.clone(), list.clone()] {
        let is_request = message.contains("\"id\"");
        let posted = client().post(&address).bearer_auth(&key).header("content-type", "application/json").body(message);
        assert_eq!(posted.send().await.unwrap().status(), StatusCode::ACCEPTED);
        if is_request {
            let answer: Value = serde_json::from_str(&events.next("message").await).unwrap();
            assert!(answer["id"] == 0 || names(&answer) == ["two__about", "one__echo"], "{answer}");
        }
    }

    let mut request = format!("{}/ws/work", gateway.url.replace("http://", "ws://")).into_client_request().unwrap();
    for (name, value) in [("sec-websocket-protocol", "mcp"), ("authorization", &format!("Bearer {key}"))] {
        request.headers_mut().append(name, value.parse().unwrap());
    }
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
    for message in [hello("2025-06-18"), ready, list] {
        let is_request = message.contains("\"id\"");
        socket.send(Frame::text(message)).await.unwrap();
        if is_request {
            let Frame::Text(answer) = socket.next().await.unwrap().unwrap() else { panic!("no text") };
            let answer: Value = serde_json::from_str(&answer).unwrap();
            assert!(answer["id"] == 0 || names(&answer) == ["two__about", "one__echo"], "{answer}");
        }
    }
    let refused = format!("{}/ws/one", gateway.url.replace("http://", "ws://"));
    assert!(tokio_tungstenite::connect_async(refused).await.is_err());
    drop(socket);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_names_groups_with_their_urls() {
    let folder = DataFolder::new();
    let servers = servers();
    let gateway = gateway(folder.path(), &servers).await;
    let key = made_key(folder.path(), &["--direct", "--admin"]);
    let text = gateway.get("/api/status", Some(&key)).await.text().await.unwrap();
    let status: Status = serde_json::from_str(&text).unwrap();
    let [group] = &status.groups[..] else { panic!("{:?}", status.groups) };
    assert_eq!((group.id.as_str(), group.servers.join(" ").as_str()), ("work", "two one"));
    assert_eq!(group.url, format!("{}/mcp/work", gateway.url));
    gateway.stop().await;
}
