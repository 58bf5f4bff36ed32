//! Settings that take effect without a restart, at a gateway in this process.

use std::{fs, path::Path, sync::Arc};

use lockkeeper::{
    app::{App, ReloadReport, Reloader},
    config::{self, CommandLineOptions, Config, Environment},
    telemetry::Telemetry,
};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{client, direct_key};
use crate::support::data_folder::DataFolder;

/// A gateway that runs until it is dropped, and its folder.
struct Gateway {
    folder: DataFolder,
    url: String,
    reloader: Arc<Reloader>,
    _served: JoinSet<anyhow::Result<()>>,
}

fn config(folder: &Path, text: &str) -> Config {
    fs::write(folder.join("lockkeeper.toml"), format!("{text}\n[servers.demo]\nbuiltin = \"demo\"\n")).unwrap();
    let given = CommandLineOptions {
        config: Some("lockkeeper.toml".into()),
        listen: Some("127.0.0.1:0".to_owned()),
        data_dir: Some("data".into()),
        ..CommandLineOptions::default()
    };
    config::load(&given, &Environment::default(), folder).unwrap()
}

// === impl Gateway ===

impl Gateway {
    async fn start() -> Self {
        let folder = DataFolder::new();
        let app = Box::pin(App::build(config(folder.path(), ""), Telemetry::detached())).await.unwrap();
        let (url, reloader) = (app.public_url().to_string(), app.reloader());
        let mut served = JoinSet::new();
        served.spawn(app.serve(std::future::pending()));
        Self { folder, url, reloader, _served: served }
    }

    fn reload(&self, text: &str) -> ReloadReport {
        self.reloader.apply(&config(self.folder.path(), text))
    }

    fn key(&self) -> String {
        direct_key(&self.folder.path().join("data"))
    }

    /// Opens a listen of 2026-07-28. The error, if it is refused.
    async fn listen(&self, key: &str) -> Result<Response, Value> {
        let about = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {} });
        let params = json!({ "_meta": about, "notifications": { "toolsListChanged": true } });
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params });
        let request = client().post(format!("{}/mcp", self.url)).bearer_auth(key);
        let request = request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", "subscriptions/listen");
        let request = request.header("accept", "application/json, text/event-stream");
        let response =
            request.header("content-type", "application/json").body(message.to_string()).send().await.unwrap();
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        if kind.starts_with("text/event-stream") {
            return Ok(response);
        }
        Err(serde_json::from_str::<Value>(&response.text().await.unwrap()).unwrap()["error"].clone())
    }

    /// The status of a message without a key, with one more header.
    async fn status(&self, header: &str, value: &str) -> StatusCode {
        let request = client().post(format!("{}/mcp", self.url)).header(header, value);
        request.header("content-type", "application/json").body("{}").send().await.unwrap().status()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_of_each_user_counts_from_the_next_request_on_and_ends_nothing_that_runs() {
    let gateway = Gateway::start().await;
    let (ann, bob) = (gateway.key(), gateway.key());
    let mut open = vec![gateway.listen(&ann).await.unwrap(), gateway.listen(&ann).await.unwrap()];

    let report = gateway.reload("[limits]\nlistens_per_user = 1\nconnections = 999");
    assert_eq!(
        (report.applied, report.pending),
        (vec!["limits.listens_per_user".to_owned()], vec!["limits.connections".to_owned()])
    );
    let refused = gateway.listen(&ann).await.unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("limits.listens_per_user = 1"), "{refused}");
    open.push(gateway.listen(&bob).await.unwrap());
    assert!(gateway.listen(&bob).await.is_err(), "the limit is each user's own");
    for stream in &mut open {
        let first = stream.chunk().await.unwrap().unwrap();
        assert!(String::from_utf8_lossy(&first).contains("acknowledged"), "{first:?}");
    }

    gateway.reload("[limits]\nlistens_per_user = 3");
    for key in [&ann, &bob, &bob] {
        open.push(gateway.listen(key).await.unwrap());
    }
    assert!(gateway.listen(&ann).await.is_err() && gateway.listen(&bob).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_body_changes_for_the_next_request() {
    let gateway = Gateway::start().await;
    let post = async || {
        let request = client().post(format!("{}/mcp", gateway.url)).header("content-type", "application/json");
        request.body(vec![b' '; 100_000]).send().await.unwrap().status()
    };
    assert_eq!(post().await, StatusCode::UNAUTHORIZED);
    gateway.reload("[limits]\nrequest_body = \"64KiB\"");
    assert_eq!(post().await, StatusCode::PAYLOAD_TOO_LARGE);
    gateway.reload("");
    assert_eq!(post().await, StatusCode::UNAUTHORIZED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_and_origins_come_and_go() {
    let gateway = Gateway::start().await;
    let host = async || gateway.status("host", "mcp.internal").await;
    let origin = async || gateway.status("origin", "https://app.example.com").await;
    assert_eq!((host().await, origin().await), (StatusCode::MISDIRECTED_REQUEST, StatusCode::FORBIDDEN));
    let report = gateway
        .reload("[http]\nallowed_hosts = [\"mcp.internal\"]\nallowed_origins = [\"https://app.example.com\"]\nquery_api_key = false");
    assert_eq!(report.applied, ["http.allowed_origins", "http.allowed_hosts"]);
    assert_eq!(report.pending, ["http.query_api_key"]);
    assert_eq!((host().await, origin().await), (StatusCode::UNAUTHORIZED, StatusCode::UNAUTHORIZED));
    gateway.reload("");
    assert_eq!((host().await, origin().await), (StatusCode::MISDIRECTED_REQUEST, StatusCode::FORBIDDEN));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lifetimes_of_tokens_take_effect_and_other_policy_waits() {
    let gateway = Gateway::start().await;
    let report = gateway.reload("[auth]\naccess_token_lifetime = \"5m\"\nregistration = \"off\"");
    assert_eq!(report.applied, ["auth.access_token_lifetime"]);
    assert_eq!(report.pending, ["auth.registration"]);
    let report = gateway.reload("[auth]\naccess_token_lifetime = \"5m\"");
    assert!(report.is_empty(), "nothing has changed since: {report:?}");
}
