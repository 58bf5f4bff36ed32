//! Another configuration for a gateway that runs: the program, its configuration file, and a client that stays connected.

use std::{fs, path::Path, process::Command, time::Duration};

use lockkeeper::model::status::Status;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{Events, client, direct_key};
use crate::{
    backend::scripted_servers::{everyday, gated},
    kit::{
        gateway::Program,
        programs::ProgramServer,
        scripted::{Gate, Script},
    },
    support::data_folder::DataFolder,
};

/// A client of 2024-11-05, which stays connected.
struct Connected {
    events: Events,
    address: String,
    last_id: u64,
}

/// A server that lists the tool `about` too.
fn server() -> ProgramServer {
    ProgramServer::start(everyday(Script::everyday().lists(&["about"])))
}

/// The section of a server, with further lines.
fn section(server: &ProgramServer, name: &str, lines: &str) -> String {
    format!("[servers.{name}]\nera = \"legacy\"\n{}{lines}\n", server.lines())
}

fn write(folder: &Path, text: &str) {
    fs::write(folder.join("lockkeeper.toml"), text).unwrap();
}

/// The differences between the gateway and its file, once they are as `wanted`.
async fn differences(folder: &Path, wanted: impl Fn(&[String]) -> bool) -> Vec<String> {
    loop {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
        command.args(["status", "--json", "--data-dir", "data"]).current_dir(folder);
        // the file in this folder may be broken
        command.args(["--config", "/dev/null"]);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let status: Status = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        if wanted(&status.configuration) {
            return status.configuration;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

// === impl Connected ===

impl Connected {
    async fn open(program: &Program, key: &str) -> Self {
        let response = client().get(format!("{}/sse", program.url)).bearer_auth(key).send().await.unwrap();
        let mut events = Events { response, text: String::new() };
        let path = events.next("endpoint").await;
        let mut connected = Self { events, address: format!("{}{path}", program.url), last_id: 0 };
        let about = json!({ "name": "t", "version": "1" });
        connected
            .ask(key, "initialize", json!({ "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": about }))
            .await;
        connected.post(key, json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        connected
    }

    async fn post(&self, key: &str, message: Value) {
        let request = client()
            .post(&self.address)
            .bearer_auth(key)
            .header("content-type", "application/json")
            .body(message.to_string());
        assert_eq!(request.send().await.unwrap().status(), StatusCode::ACCEPTED);
    }

    async fn message(&mut self) -> Value {
        serde_json::from_str(&self.events.next("message").await).unwrap()
    }

    async fn ask(&mut self, key: &str, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        self.post(key, json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        loop {
            let message = self.message().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// The process id that a server tells of itself, or the code of the error.
    async fn process(&mut self, key: &str, server: &str) -> Result<u64, i64> {
        let answer = self.ask(key, "tools/call", json!({ "name": format!("{server}__about"), "arguments": {} })).await;
        if let Some(code) = answer["error"]["code"].as_i64() {
            return Err(code);
        }
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        Ok(serde_json::from_str::<Value>(text).unwrap()["pid"].as_u64().unwrap())
    }

    /// The servers whose tools are listed.
    async fn servers(&mut self, key: &str) -> Vec<String> {
        let answer = self.ask(key, "tools/list", json!({})).await;
        let name = |tool: &Value| tool["name"].as_str().unwrap().split_once("__").unwrap().0.to_owned();
        let mut names: Vec<String> = answer["result"]["tools"].as_array().unwrap().iter().map(name).collect();
        names.dedup();
        names
    }

    /// Waits for changes of the list until it is of these servers.
    async fn until(&mut self, key: &str, servers: &[&str]) {
        while self.servers(key).await != servers {
            while self.message().await["method"] != "notifications/tools/list_changed" {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_come_change_and_go_while_clients_and_the_other_servers_stay() {
    let folder = DataFolder::new();
    let folder = folder.path();
    let [one, other, new] = [server(), server(), server()];
    let kept = section(&one, "kept", "");
    write(folder, &(kept.clone() + &section(&other, "other", "")));
    let program = Program::start(folder);
    let key = &direct_key(&folder.join("data"));
    let mut client = Connected::open(&program, key).await;
    client.until(key, &["kept", "other"]).await;
    let (first, replaced) = (client.process(key, "kept").await, client.process(key, "other").await);
    assert!(first.is_ok() && replaced.is_ok(), "{first:?} {replaced:?}");

    // the change of the file is enough
    write(folder, &(kept.clone() + &section(&other, "other", "env = { X = \"1\" }") + &section(&new, "new", "")));
    client.until(key, &["kept", "other", "new"]).await;
    assert_eq!(client.process(key, "kept").await, first);
    let now = client.process(key, "other").await;
    assert!(now.is_ok() && now != replaced, "{now:?}");
    assert!(client.process(key, "new").await.is_ok());

    // what only the gateway does with a server touches no process
    write(
        folder,
        &(kept.clone()
            + &section(&other, "other", "env = { X = \"1\" }\ntools = { deny = [\"echo\"] }")
            + &section(&new, "new", "")),
    );
    program.hang_up();
    while client.ask(key, "tools/call", json!({ "name": "other__echo", "arguments": {} })).await["error"].is_null() {}
    assert_eq!(client.process(key, "other").await, now);

    write(folder, &kept);
    program.hang_up();
    client.until(key, &["kept"]).await;
    assert_eq!(client.process(key, "kept").await, first);
    assert_eq!(client.process(key, "new").await, Err(-32602));
    let request = super::client().post(format!("{}/mcp/new", program.url)).bearer_auth(key);
    assert_eq!(request.send().await.unwrap().status(), StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_file_changes_nothing_and_the_status_says_why() {
    let folder = DataFolder::new();
    let folder = folder.path();
    let server = server();
    let kept = section(&server, "kept", "");
    write(folder, &kept);
    let program = Program::start(folder);
    let key = &direct_key(&folder.join("data"));
    let mut client = Connected::open(&program, key).await;
    client.until(key, &["kept"]).await;
    let process = client.process(key, "kept").await;

    write(folder, &(kept.clone() + "nonsense = 1\n"));
    program.hang_up();
    let told = differences(folder, |told| !told.is_empty()).await;
    let [only] = &told[..] else { panic!("{told:?}") };
    assert!(only.contains("lockkeeper.toml:6") && only.contains("nonsense"), "{only}");
    assert_eq!(client.process(key, "kept").await, process);

    write(folder, &(kept.clone() + "[limits]\nconnections = 700\n"));
    program.hang_up();
    let told = differences(folder, |told| told.iter().all(|line| !line.contains("nonsense"))).await;
    assert_eq!(told, ["has changed, which takes effect at the next start: limits.connections"]);

    write(folder, &kept);
    program.hang_up();
    differences(folder, <[String]>::is_empty).await;
    assert_eq!(client.process(key, "kept").await, process);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_come_and_go() {
    let folder = DataFolder::new();
    let folder = folder.path();
    let server = server();
    let kept = section(&server, "kept", "");
    write(folder, &kept);
    let program = Program::start(folder);
    let key = &direct_key(&folder.join("data"));
    let status = async || {
        let request = client().post(format!("{}/mcp/work", program.url)).bearer_auth(key);
        let request =
            request.header("content-type", "application/json").header("accept", "application/json, text/event-stream");
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello });
        request.body(message.to_string()).send().await.unwrap().status()
    };
    assert_eq!(status().await, StatusCode::NOT_FOUND);
    for (group, wanted) in [("[groups.work]\nservers = [\"kept\"]\n", StatusCode::OK), ("", StatusCode::NOT_FOUND)] {
        write(folder, &(kept.clone() + group));
        program.hang_up();
        while status().await != wanted {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_and_is_slow_takes_no_gateway_out_of_service() {
    let folder = DataFolder::new();
    let folder = folder.path();
    let server = server();
    let kept = section(&server, "kept", "");
    write(folder, &kept);
    let program = Program::start(folder);
    let ask = async |path: &str| client().get(format!("{}{path}", program.url)).send().await.unwrap().status();
    while ask("/readyz").await != StatusCode::OK {}

    let slow = ProgramServer::start(gated(&Gate::closed()));
    write(folder, &(kept + &section(&slow, "slow", "")));
    program.hang_up();
    let key = &direct_key(&folder.join("data"));
    let known = format!("{}/mcp/slow", program.url);
    while client().get(&known).bearer_auth(key).send().await.unwrap().status() == StatusCode::NOT_FOUND {}
    assert_eq!(ask("/readyz").await, StatusCode::OK);
}
