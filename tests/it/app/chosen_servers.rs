//! The servers that a person chooses for an app, through a whole gateway: two people, one of them hostile.

use std::{fmt::Write as _, fs};

use serde_json::{Value, json};

use super::{Gateway, client, made_key};
use crate::{
    backend::scripted_servers::everyday,
    kit::{
        person::{ConnectedApp, Person},
        programs::ProgramServer,
        scripted::Script,
    },
    support::data_folder::DataFolder,
};

/// Sends a request of 2026-07-28; returns status, challenge and body.
async fn ask(app: &ConnectedApp, url: &str, method: &str, mut params: Value) -> (u16, Option<String>, Value) {
    params["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {} });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let mut request = client().post(url).bearer_auth(&app.access).body(message.to_string());
    let name = params["name"].as_str();
    for (header, value) in [
        ("content-type", Some("application/json")),
        ("accept", Some("application/json, text/event-stream")),
        ("mcp-protocol-version", Some("2026-07-28")),
        ("mcp-method", Some(method)),
        ("mcp-name", name),
    ] {
        request = value.into_iter().fold(request, |request, value| request.header(header, value));
    }
    let answer = request.send().await.unwrap();
    let challenge = answer.headers().get("www-authenticate").map(|value| value.to_str().unwrap().to_owned());
    let (status, text) = (answer.status().as_u16(), answer.text().await.unwrap());
    let text = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text).to_owned();
    (status, challenge, serde_json::from_str(&text).unwrap())
}

async fn tools(app: &ConnectedApp, gateway: &Gateway) -> Vec<String> {
    let (.., answer) = ask(app, &format!("{}/mcp", gateway.url), "tools/list", json!({})).await;
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_158_what_a_person_leaves_out_does_not_exist_for_the_app() {
    let folder = DataFolder::new();
    let servers = ["plain", "spare"].map(|name| (name, ProgramServer::start(everyday(Script::everyday()))));
    let mut text = "[auth]\naud_parent_ok = true\n".to_owned();
    for (name, server) in &servers {
        writeln!(text, "[servers.{name}]\n{}era = \"legacy\"\nread_only_tools = [\"echo\"]", server.lines()).unwrap();
    }
    fs::write(folder.path().join("lockkeeper.toml"), text).unwrap();
    let gateway = Gateway::start(folder.path()).await;
    let mut ann = Person::new(&gateway.url, &made_key(folder.path(), &["--user", "ann"]));
    let mut eve = Person::new(&gateway.url, &made_key(folder.path(), &["--user", "eve", "--server", "plain:read"]));
    ann.log_in().await;
    eve.log_in().await;

    let id = ann.register_app("Editor").await;
    let page = ann.consent_page(&id, "/mcp").await;
    let some = [("use", "plain:read"), ("use", "spare:none")];
    let app = ann.give("Editor", id.clone(), &page, &some).await;
    assert_eq!(app.scope, "mcp:plain:read");
    assert_eq!(tools(&app, &gateway).await, ["plain__echo"]);
    let call = |name: &'static str| {
        let (app, url) = (&app, format!("{}/mcp", gateway.url));
        async move { ask(app, &url, "tools/call", json!({ "name": name, "arguments": { "text": "x" } })).await }
    };
    let (left_out, unknown) = (call("spare__echo").await, call("nobody__echo").await);
    let without_name =
        |answer: &Value, server: &str| serde_json::from_str::<Value>(&answer.to_string().replace(server, "S"));
    assert_eq!((left_out.0, &left_out.1), (unknown.0, &None), "{left_out:?} {unknown:?}");
    assert_eq!(without_name(&left_out.2, "spare").unwrap(), without_name(&unknown.2, "nobody").unwrap());
    assert_eq!(left_out.2["error"]["code"], -32602, "{left_out:?}");
    assert_eq!(call("plain__echo").await.2["result"]["content"][0]["text"], "x");
    assert_eq!(call("plain__about").await.2["error"]["code"], -32602, "it may read only");
    let at = async |path: &str| ask(&app, &format!("{}{path}", gateway.url), "tools/list", json!({})).await;
    let (left_out, unknown) = (at("/mcp/spare").await, at("/mcp/nobody").await);
    assert_eq!(left_out, unknown);
    assert_eq!((left_out.0, left_out.1), (404, None), "no challenge asks for more");
    assert_eq!(at("/mcp/plain").await.0, 200);

    // the same app asks again, and the person chooses anew
    let page = ann.consent_page(&id, "/mcp").await;
    let all = ann.give("Editor", id, &page, &[]).await;
    assert_eq!(all.scope, "mcp:use");
    assert!(tools(&all, &gateway).await.contains(&"spare__echo".to_owned()));
    assert_eq!(tools(&app, &gateway).await, ["plain__echo"], "the first token has what was chosen for it");

    // nobody gives more than they have, whatever the form says
    let id = eve.register_app("Editor").await;
    for forged in [
        &[("use", "plain:read"), ("use", "spare")][..],
        &[("use", "plain")],
        &[("use", "use")],
        &[("use", "spare:read")],
        &[("use", "plain:none")],
    ] {
        let page = eve.consent_page(&id, "/mcp").await;
        let answer = eve.submit(&page, "/oauth/authorize", &[&[("decision", "approve")], forged].concat()).await;
        assert_eq!((answer.status.as_u16(), answer.location), (400, None), "{forged:?}");
        assert!(answer.body.contains("role=\"alert\"") && !answer.body.contains("spare"), "{}", answer.body);
    }
    let page = eve.consent_page(&id, "/mcp").await;
    let app = eve.give("Editor", id, &page, &[]).await;
    assert_eq!(tools(&app, &gateway).await, ["plain__echo"]);
    gateway.stop().await;
}
