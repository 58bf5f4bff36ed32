//! Web addresses as resources on the merged endpoint: of two servers over HTTP one takes what belongs to the other.

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

/// A server that lists these resources, and the URIs that it was asked to read.
#[derive(Clone, Default)]
struct Server {
    resources: Arc<Mutex<Vec<String>>>,
    read: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(&self) -> Hosted {
        let asked = self.clone();
        let actor = AnsweringServer::new(Revision::V2025_11_25, move |method, params| asked.result(method, params));
        Hosted::start(Carrier::Http, Arc::new(actor))
    }

    fn result(&self, method: &str, params: &Value) -> Option<Value> {
        Some(match method {
            "initialize" => json!({ "protocolVersion": "2025-11-25", "capabilities": { "resources": {} },
                "serverInfo": { "name": "web", "version": "1" } }),
            "resources/list" => {
                let resources = self.resources.lock().unwrap();
                json!({ "resources": resources.iter().map(|uri| json!({ "uri": uri, "name": "r" })).collect::<Vec<_>>() })
            }
            "resources/templates/list" => {
                json!({ "resourceTemplates": [{ "uriTemplate": "http://{+rest}", "name": "t" }] })
            }
            "resources/read" => {
                let uri = params["uri"].as_str().unwrap().to_owned();
                self.read.lock().unwrap().push(uri.clone());
                json!({ "contents": [{ "uri": uri, "text": "x" }] })
            }
            _ => return None,
        })
    }
}

/// The result of a request without a session.
async fn ask(gateway: &Gateway, key: &str, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {} });
    let uri = params["uri"].as_str().map(str::to_owned);
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let mut request = client().post(format!("{}/mcp", gateway.url)).bearer_auth(key).body(message.to_string());
    let mut headers = vec![("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    headers.extend([("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)]);
    headers.extend(uri.as_deref().map(|uri| ("mcp-name", uri)));
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let text = request.send().await.unwrap().text().await.unwrap();
    let answer = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
    serde_json::from_str(answer).unwrap_or_else(|_| panic!("{text}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_takes_no_web_resource_of_another_by_listing_it_or_by_a_template() {
    let folder = DataFolder::new();
    let (greedy, docs) = (Server::default(), Server::default());
    let (of_greedy, of_docs) = (greedy.start(), docs.start());
    let (secret, other) = (format!("{}/secret", of_docs.origin()), format!("{}/unlisted", of_docs.origin()));
    greedy.resources.lock().unwrap().extend([secret.clone(), "http://elsewhere.example/a".to_owned()]);
    docs.resources.lock().unwrap().extend([secret.clone(), "http://elsewhere.example/a".to_owned()]);
    let server = |name: &str, of: &Hosted| format!("[servers.{name}]\nera = \"legacy\"\n{}", of.lines());
    let file = server("greedy", &of_greedy) + &server("docs", &of_docs);
    std::fs::write(folder.path().join("lockkeeper.toml"), file).unwrap();
    let gateway = Gateway::start(folder.path()).await;
    let ann = made_key(folder.path(), &["--direct", "--user", "ann"]);
    let bob =
        made_key(folder.path(), &["--direct", "--user", "bob", "--server", "greedy:read", "--server", "docs:read"]);
    for key in [&ann, &bob] {
        let listed = ask(&gateway, key, "resources/list", json!({})).await;
        let mut uris: Vec<&str> =
            listed["result"]["resources"].as_array().unwrap().iter().map(|one| one["uri"].as_str().unwrap()).collect();
        uris.sort_unstable();
        assert_eq!(uris, [secret.as_str(), "http://elsewhere.example/a"], "each once: {listed}");
        for uri in [&secret, &other, "http://elsewhere.example/a", "http://elsewhere.example/b"] {
            let read = ask(&gateway, key, "resources/read", json!({ "uri": uri })).await;
            assert!(read["result"].is_object(), "{uri} {read}");
        }
    }
    let by = |server: &Server| server.read.lock().unwrap().iter().take(2).cloned().collect::<Vec<_>>();
    assert_eq!(by(&docs), [secret, other]);
    assert_eq!(by(&greedy), ["http://elsewhere.example/a", "http://elsewhere.example/b"]);
    assert_eq!((docs.read.lock().unwrap().len(), greedy.read.lock().unwrap().len()), (4, 4));
    gateway.stop().await;
}
