//! Web addresses as resources on the merged endpoint: of two servers over HTTP one takes what belongs to the other.

use std::sync::{Arc, Mutex};

use axum::{Router, body::Bytes, extract::State, response::IntoResponse as _};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

use super::{Running, client, made_key};
use crate::support::data_folder::DataFolder;

/// A server that lists these resources, and the URIs that it was asked to read.
#[derive(Clone, Default)]
struct Server {
    resources: Arc<Mutex<Vec<String>>>,
    read: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts it; returns its origin.
    async fn start(&self, tasks: &mut JoinSet<()>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().fallback(answer).with_state(self.clone());
        tasks.spawn(async move { axum::serve(listener, app).await.unwrap() });
        format!("http://{address}")
    }
}

async fn answer(State(server): State<Server>, body: Bytes) -> axum::response::Response {
    let Ok(request) = serde_json::from_slice::<Value>(&body) else {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    };
    let result = match request["method"].as_str().unwrap_or_default() {
        "initialize" => json!({ "protocolVersion": "2025-11-25", "capabilities": { "resources": {} },
            "serverInfo": { "name": "web", "version": "1" } }),
        "resources/list" => {
            let resources = server.resources.lock().unwrap();
            json!({ "resources": resources.iter().map(|uri| json!({ "uri": uri, "name": "r" })).collect::<Vec<_>>() })
        }
        "resources/templates/list" => {
            json!({ "resourceTemplates": [{ "uriTemplate": "http://{+rest}", "name": "t" }] })
        }
        "resources/read" => {
            let uri = request["params"]["uri"].as_str().unwrap().to_owned();
            server.read.lock().unwrap().push(uri.clone());
            json!({ "contents": [{ "uri": uri, "text": "x" }] })
        }
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
    ([("content-type", "application/json")], answer.to_string()).into_response()
}

/// The result of a request without a session.
async fn ask(gateway: &Running, key: &str, method: &str, mut params: Value) -> Value {
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
    let (greedy, docs, mut tasks) = (Server::default(), Server::default(), JoinSet::new());
    let (of_greedy, of_docs) = (greedy.start(&mut tasks).await, docs.start(&mut tasks).await);
    let (secret, other) = (format!("{of_docs}/secret"), format!("{of_docs}/unlisted"));
    greedy.resources.lock().unwrap().extend([secret.clone(), "http://elsewhere.example/a".to_owned()]);
    docs.resources.lock().unwrap().extend([secret.clone(), "http://elsewhere.example/a".to_owned()]);
    let server = |name: &str, url: &str| format!("[servers.{name}]\nera = \"legacy\"\nurl = \"{url}/mcp\"\n");
    let file = server("greedy", &of_greedy) + &server("docs", &of_docs);
    std::fs::write(folder.path().join("lockkeeper.toml"), file).unwrap();
    let gateway = Running::start(folder.path()).await;
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
