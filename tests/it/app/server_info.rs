//! Server information of slow servers after a restart of the gateway.

use std::{fs, path::Path};

use super::{Gateway, client, direct_key};
use crate::{
    backend::scripted_servers::{everyday, gated, greeting_in},
    kit::{
        programs::ProgramServer,
        scripted::{Gate, Script},
    },
    support::data_folder::DataFolder,
};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

fn configure(folder: &Path, server: &ProgramServer) {
    let text = format!("[servers.slow]\nera = \"legacy\"\n{}", server.lines());
    fs::write(folder.join("lockkeeper.toml"), text).unwrap();
}

/// The server information that a client of the slow server gets.
async fn greeted(gateway: &Gateway, key: &str) -> String {
    let request = client().post(format!("{}/mcp/slow", gateway.url)).bearer_auth(key);
    let request = request.header("accept", "application/json, text/event-stream");
    let response = request.header("content-type", "application/json").body(INITIALIZE).send().await.unwrap();
    let text = response.text().await.unwrap();
    // a whole answer, or an event if it took longer
    let answer = text.lines().find(|line| line.contains(r#""id":1"#)).unwrap_or_else(|| panic!("{text}"));
    answer.trim_start_matches("data: ").to_owned()
}

#[tokio::test]
async fn after_a_restart_a_session_opens_at_once_despite_a_slow_server() {
    let folder = DataFolder::new();
    let folder = folder.path();
    let gate = Gate::opened();
    let slow = ProgramServer::start(gated(&gate));
    configure(folder, &slow);
    let gateway = Gateway::start(folder).await;
    let key = direct_key(folder);
    let first = greeted(&gateway, &key).await;
    assert!(first.contains("Be kind."), "{first}");
    gateway.stop().await;

    gate.close();
    let gateway = Gateway::start(folder).await;
    assert_eq!(greeted(&gateway, &key).await, first);
    gateway.stop().await;

    // another, unknown server under the same name
    let mut greeting = greeting_in("{/params/protocolVersion}");
    greeting.as_object_mut().unwrap().remove("instructions");
    let unknown = ProgramServer::start(everyday(Script::everyday().greeting(&greeting)));
    configure(folder, &unknown);
    let gateway = Gateway::start(folder).await;
    let other = greeted(&gateway, &key).await;
    assert!(other.contains(r#""serverInfo""#) && !other.contains("Be kind."), "{other}");
    gateway.stop().await;
}
