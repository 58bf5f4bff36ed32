//! Tasks of two users at one server, one of them hostile, through real sockets: every pair of versions, at the merged
//! endpoint, at a group and at the server's own, also after a restart.

use std::sync::{Arc, Mutex};

use lockkeeper::mcp::Revision;
use serde_json::{Value, json};

use super::{Gateway, client, made_key};
use crate::{
    kit::{
        answering::AnsweringServer,
        carriers::{Carrier, Hosted},
    },
    support::data_folder::DataFolder,
};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const OLD: &str = "2025-11-25";
const NEW: &str = "2026-07-28";
const PATHS: [(&str, &str); 3] = [("/mcp", "m__pay"), ("/mcp/g", "m__pay"), ("/mcp/m", "pay")];

/// A server whose only tool creates a task that waits for an approval.
#[derive(Clone)]
struct Server {
    version: &'static str,
    /// The methods about tasks that it heard.
    heard: Arc<Mutex<Vec<String>>>,
    made: Arc<Mutex<usize>>,
}

/// A client with a key: one session in its version, if that has sessions.
struct Peer<'a> {
    gateway: &'a Gateway,
    key: &'a str,
    version: &'static str,
    path: &'static str,
    session: Option<String>,
}

// === impl Server ===

impl Server {
    fn start(version: &'static str) -> (Self, Hosted) {
        let server = Self { version, heard: Arc::default(), made: Arc::default() };
        let asked = server.clone();
        let actor = AnsweringServer::new(Revision::parse(version).unwrap(), move |method, params| {
            if method.starts_with("tasks/") {
                asked.heard.lock().unwrap().push(method.to_owned());
            }
            asked.result(method, params)
        });
        (server, Hosted::start(Carrier::Http, Arc::new(actor)))
    }

    fn result(&self, method: &str, params: &Value) -> Option<Value> {
        let is_new = self.version == NEW;
        let asked = params["taskId"].as_str().unwrap_or_default();
        let task = |id: &str, status: &str| {
            let at = "2026-01-01T00:00:00Z";
            json!({ "taskId": id, "status": status, "createdAt": at, "lastUpdatedAt": at, "ttl": null, "ttlMs": null })
        };
        let kind = if method == "tools/call" { "task" } else { "complete" };
        let mut result = match method {
            "initialize" => json!({ "protocolVersion": OLD, "serverInfo": { "name": "m", "version": "1" },
                "capabilities": { "tools": {}, "tasks": { "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } } } }),
            "server/discover" if is_new => json!({ "supportedVersions": [NEW], "ttlMs": 0, "cacheScope": "private",
                "capabilities": { "tools": {}, "extensions": { EXTENSION: {} } } }),
            "tools/list" => json!({ "tools": [{ "name": "pay", "inputSchema": { "type": "object" },
                "execution": { "taskSupport": "optional" } }], "ttlMs": 0, "cacheScope": "private" }),
            "tools/call" => {
                let mut made = self.made.lock().unwrap();
                *made += 1;
                let task = task(&format!("t{made}"), "working");
                if is_new { task } else { json!({ "task": task }) }
            }
            "tasks/list" => {
                json!({ "tasks": (1..=*self.made.lock().unwrap()).map(|id| task(&format!("t{id}"), "working")).collect::<Vec<_>>() })
            }
            "tasks/get" | "tasks/cancel" => task(asked, "working"),
            "tasks/result" => json!({ "content": [{ "type": "text", "text": "the balance" }] }),
            "tasks/update" => json!({}),
            _ => return None,
        };
        if is_new {
            result["resultType"] = kind.into();
        }
        Some(result)
    }

    fn heard(&self) -> usize {
        self.heard.lock().unwrap().len()
    }
}

// === impl Peer ===

impl<'a> Peer<'a> {
    async fn open(gateway: &'a Gateway, key: &'a str, version: &'static str, path: &'static str) -> Self {
        let mut peer = Self { gateway, key, version, path, session: None };
        if version == OLD {
            let (about, capabilities) = (json!({ "name": "t", "version": "1" }), json!({}));
            let hello = json!({ "protocolVersion": OLD, "clientInfo": about, "capabilities": capabilities });
            let answer = peer.post("initialize", hello, true).await;
            peer.session = answer.headers().get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
            peer.post("notifications/initialized", json!({}), false).await;
        }
        peer
    }

    async fn post(&self, method: &str, mut params: Value, has_answer: bool) -> reqwest::Response {
        let mut request = client().post(format!("{}{}", self.gateway.url, self.path)).bearer_auth(self.key);
        if self.version == NEW {
            params["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": NEW,
                "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": { "extensions": { EXTENSION: {} } } });
            request = request.header("mcp-method", method);
            let name = params["name"].as_str().or_else(|| params["taskId"].as_str()).map(str::to_owned);
            request = name.into_iter().fold(request, |request, name| request.header("mcp-name", name));
        }
        if method != "initialize" {
            request = request.header("mcp-protocol-version", self.version);
        }
        request = self.session.iter().fold(request, |request, session| request.header("mcp-session-id", session));
        let mut message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        if has_answer {
            message["id"] = 1.into();
        }
        let request = request.header("content-type", "application/json");
        request.header("accept", "application/json, text/event-stream").body(message.to_string()).send().await.unwrap()
    }

    /// The answer to a request.
    async fn ask(&self, method: &str, params: Value) -> Value {
        let text = self.post(method, params, true).await.text().await.unwrap();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).find(|data| data.contains("\"id\""));
        serde_json::from_str(data.unwrap_or(&text)).unwrap_or_else(|_| panic!("{method}: {text}"))
    }

    async fn pay(&self, tool: &str) -> String {
        let answer = self.ask("tools/call", json!({ "name": tool, "arguments": {}, "task": {} })).await;
        let result = &answer["result"];
        let task = if result["task"].is_object() { &result["task"] } else { result };
        task["taskId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// The methods that its version has for one task.
    const fn methods(&self) -> [&'static str; 3] {
        match self.version.as_bytes() {
            b"2026-07-28" => ["tasks/get", "tasks/update", "tasks/cancel"],
            _ => ["tasks/get", "tasks/result", "tasks/cancel"],
        }
    }

    async fn about(&self, method: &str, task: &str) -> Value {
        let approval = json!({ "r1": { "action": "accept", "content": { "approve": true } } });
        let params = json!({ "taskId": task, "inputResponses": approval });
        let params = if method == "tasks/update" { params } else { json!({ "taskId": task }) };
        self.ask(method, params).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_115_another_users_task_is_unknown_and_the_own_one_is_found_from_a_new_session_and_after_a_restart() {
    for server_version in [OLD, NEW] {
        let (server, hosted) = Server::start(server_version);
        let folder = DataFolder::new();
        let era = if server_version == NEW { "modern" } else { "legacy" };
        let config = format!(
            "[servers.m]\nera = \"{era}\"\n{}read_only_tools = [\"pay\"]\n[groups.g]\nservers = [\"m\"]\n",
            hosted.lines()
        );
        std::fs::write(folder.path().join("lockkeeper.toml"), config).unwrap();
        let mut gateway = Gateway::start(folder.path()).await;
        let ann = made_key(folder.path(), &["--direct", "--user", "ann"]);
        let second = made_key(folder.path(), &["--direct", "--user", "ann"]);
        let config = folder.path().join("lockkeeper.toml");
        let rights = ["--direct", "--user", "bob", "--server", "m:read", "--group", "g:read", "--config"];
        let bob = made_key(folder.path(), &[&rights[..], &[config.to_str().unwrap()]].concat());
        let mut tasks = Vec::new();
        for version in [OLD, NEW] {
            for (path, tool) in PATHS {
                let owner = Peer::open(&gateway, &ann, version, path).await;
                let task = owner.pay(tool).await;
                let heard = server.heard();
                let mut refusals = Vec::new();
                for key in [&bob, &second] {
                    let stranger = Peer::open(&gateway, key, version, path).await;
                    for method in stranger.methods() {
                        refusals.push(stranger.about(method, &task).await["error"].clone());
                    }
                    refusals.push(stranger.about("tasks/get", &task.replace('t', "x")).await["error"].clone());
                }
                assert!(refusals.iter().all(|error| *error == refusals[0]), "{refusals:?}");
                assert_eq!(refusals[0]["code"], -32602, "{refusals:?}");
                assert_eq!(server.heard(), heard, "{version} {path}: without a word to the server");
                let later = Peer::open(&gateway, &ann, version, path).await;
                let found = later.about("tasks/get", &task).await;
                assert_eq!(found["result"]["taskId"], task, "{found}");
                tasks.push((version, path, task));
            }
        }
        if server_version == OLD {
            let stranger = Peer::open(&gateway, &bob, OLD, "/mcp/m").await;
            assert_eq!(stranger.ask("tasks/list", json!({})).await["result"]["tasks"], json!([]));
            let owner = Peer::open(&gateway, &ann, OLD, "/mcp/m").await;
            let listed = owner.ask("tasks/list", json!({})).await["result"]["tasks"].clone();
            assert_eq!(listed.as_array().map(Vec::len), Some(tasks.len()), "{listed}");
        }
        gateway.stop().await;
        gateway = Gateway::start(folder.path()).await;
        for (version, path, task) in &tasks {
            let heard = server.heard();
            let stranger = Peer::open(&gateway, &bob, version, path).await;
            assert_eq!(stranger.about("tasks/get", task).await["error"]["code"], -32602);
            assert_eq!(server.heard(), heard);
            let owner = Peer::open(&gateway, &ann, version, path).await;
            assert_eq!(owner.about("tasks/get", task).await["result"]["taskId"], *task);
        }
        gateway.stop().await;
    }
}
