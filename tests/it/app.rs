//! The whole application in this process: real sockets, a real database, the demonstration backend.
#![expect(clippy::panic, reason = "a test that cannot go on says so by panicking")]

mod chosen_servers;
mod client_names;
mod clients;
mod connections;
mod eras;
mod groups;
mod hostile;
mod json_documents;
mod kept_lists;
mod meant_addresses;
mod memory;
mod operator;
mod profile;
mod program;
mod readiness;
mod refresh;
mod reload;
mod reloaded_files;
mod reloaded_settings;
mod revocations;
mod rights;
mod server_cards;
mod server_info;
mod task_owners;
mod tls;
mod users;
mod web_resources;
mod websocket;

use std::path::Path;

use lockkeeper::{
    app::{App, ControlFile},
    config::CommandLineOptions,
    model::status::Status,
    telemetry::Telemetry,
};
use reqwest::{Response, StatusCode};

use crate::{
    kit::gateway::{Gateway, configuration, environment, make_key},
    support::data_folder::DataFolder,
};

/// The events of one SSE response, as the lines arrive.
struct Events {
    response: Response,
    text: String,
}

// === impl Gateway ===

impl Gateway {
    async fn get(&self, path: &str, bearer: Option<&str>) -> Response {
        let request =
            client().get(format!("{}{path}", self.url)).header("accept", "text/event-stream, application/json");
        let request = bearer.map_or(request.try_clone().unwrap(), |bearer| request.bearer_auth(bearer));
        request.send().await.unwrap()
    }

    async fn post(&self, path: &str, body: &'static str) -> StatusCode {
        let request = client().post(format!("{}{path}", self.url)).header("content-type", "application/json");
        request.body(body).send().await.unwrap().status()
    }
}

fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// A direct key, created as an operator does.
fn direct_key(data: &Path) -> String {
    made_key(data, &["--direct"])
}

fn made_key(data: &Path, options: &[&str]) -> String {
    make_key(data, options, &[])
}

// === impl Events ===

impl Events {
    /// The data of the next event with this name; comments and other events are skipped.
    async fn next(&mut self, name: &str) -> String {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let field = |key: &str| event.lines().find_map(|line| line.strip_prefix(key)).map(str::to_owned);
                let found =
                    (field("event: ").as_deref().unwrap_or("message") == name).then(|| field("data: ")).flatten();
                self.text = String::from(rest);
                if let Some(data) = found {
                    return data;
                }
            } else {
                let chunk = self.response.chunk().await.unwrap().unwrap();
                self.text.push_str(std::str::from_utf8(&chunk).unwrap());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_joins_addresses_wrongly_is_served() {
    let folder = DataFolder::new();
    let gateway = Gateway::start(folder.path()).await;
    let key = gateway.first_key.as_ref().unwrap().expose();
    let initialize =
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{}}}"#;
    for path in ["/sse", "//sse", "/sse/demo", "/sse/demo/"] {
        let response = gateway.get(&format!("{path}?api_key={key}"), None).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        let mut events = Events { response, text: String::new() };
        let endpoint = events.next("endpoint").await;
        for joined in [format!("/{endpoint}"), format!("{path}{endpoint}")] {
            assert_eq!(gateway.post(&joined, initialize).await, StatusCode::ACCEPTED, "{joined}");
            events.next("message").await;
        }
        // a credential is needed there as anywhere
        let without = endpoint.split('&').next().unwrap();
        assert_eq!(gateway.post(&format!("{path}{without}"), initialize).await, StatusCode::UNAUTHORIZED);
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_a_key_in_the_query_calls_a_tool_while_it_is_connected() {
    let folder = DataFolder::new();
    let gateway = Gateway::start(folder.path()).await;
    let key = gateway.first_key.as_ref().unwrap().expose();
    let response = gateway.get(&format!("/sse?api_key={key}"), None).await;
    assert_eq!(response.status(), StatusCode::OK);
    let mut events = Events { response, text: String::new() };
    let address = events.next("endpoint").await;
    assert!(!address.contains(key), "the endpoint event must not hold the key");
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    assert!(gateway.post(&address, initialize).await.is_success());
    assert!(events.next("message").await.contains(r#""protocolVersion":"2024-11-05""#));
    for message in [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"demo__echo","arguments":{"message":"hello"}}}"#,
    ] {
        assert!(gateway.post(&address, message).await.is_success());
    }
    let answer = events.next("message").await;
    assert!(answer.contains(r#""id":2"#) && answer.contains("hello"), "{answer}");
    let stranger = address.replace("ticket=", "ticket=x");
    assert_eq!(gateway.post(&stranger, r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#).await, StatusCode::NOT_FOUND);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_is_opened_in_a_browser_leads_to_the_start_page_and_clients_are_never_redirected() {
    let folder = DataFolder::new();
    let gateway = Gateway::start(folder.path()).await;
    let visit = async |path: &str, accept: &str| {
        let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let answer = client.get(format!("{}{path}", gateway.url)).header("accept", accept).send().await.unwrap();
        let location = answer.headers().get("location").map(|value| value.to_str().unwrap().to_owned());
        (answer.status().as_u16(), location)
    };
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    for path in ["/mcp", "/mcp/", "/mcp/demo", "/sse"] {
        assert_eq!(visit(path, browser).await, (303, Some("/".to_owned())), "{path}");
        for accept in [
            "text/event-stream",
            "application/json, text/event-stream",
            "*/*",
            "text/html, text/event-stream",
            "application/json, text/html",
            "*/*, text/html;q=0.9",
        ] {
            assert_eq!(visit(path, accept).await, (401, None), "{path} {accept}");
        }
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_key_is_shown_once_and_stays_valid_after_a_restart() {
    let folder = DataFolder::new();
    let gateway = Gateway::start(folder.path()).await;
    let key = gateway.first_key.clone().unwrap();
    gateway.stop().await;
    let gateway = Gateway::start(folder.path()).await;
    assert!(gateway.first_key.is_none());
    assert_eq!(gateway.get("/sse", Some(key.expose())).await.status(), StatusCode::OK);
    gateway.stop().await;
}

// a proxy on this machine that passes the name and nothing else connects as a scraper does
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_138_metrics_are_not_for_strangers_who_name_the_public_host() {
    let folder = DataFolder::new();
    let config = folder.path().join("lockkeeper.toml");
    std::fs::write(config, "public_url = \"https://mcp.example.com\"\n[servers.secret]\nbuiltin = \"demo\"\n").unwrap();
    let gateway = Gateway::start(folder.path()).await;
    let here = ControlFile::read(folder.path()).unwrap().unwrap();
    let key = made_key(folder.path(), &["--direct", "--admin"]);
    let ask = async |host: &str, key: &str| {
        let request = client().get(format!("{}/metrics", here.url)).header("host", host);
        let request = if key.is_empty() { request } else { request.bearer_auth(key) };
        let answer = request.send().await.unwrap();
        (answer.status(), answer.text().await.unwrap())
    };
    for host in ["mcp.example.com", "MCP.EXAMPLE.COM:443", "mcp.example.com:8080"] {
        let (status, text) = ask(host, "").await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{host}");
        assert!(!text.contains("secret"), "{text}");
        assert_eq!(ask(host, &key).await.0, StatusCode::OK, "{host}");
    }
    for host in ["127.0.0.1:8080", "localhost", "[::1]"] {
        assert_eq!(ask(host, "").await.0, StatusCode::OK, "{host}");
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_is_for_administrators_and_for_readers_of_the_data_folder() {
    let folder = DataFolder::new();
    let gateway = Gateway::start(folder.path()).await;
    assert_eq!(gateway.get("/api/status", None).await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(gateway.get("/api/status", Some("wrong")).await.status(), StatusCode::UNAUTHORIZED);
    // the first key is for the login page; a bearer key has to be created
    let key = gateway.first_key.clone().unwrap();
    assert_eq!(gateway.get("/api/status", Some(key.expose())).await.status(), StatusCode::UNAUTHORIZED);
    let key = made_key(folder.path(), &["--direct", "--admin"]);
    assert_eq!(gateway.get("/api/status", Some(&key)).await.status(), StatusCode::OK);
    let control = ControlFile::read(folder.path()).unwrap().unwrap();
    let response = gateway.get("/api/status", Some(control.token.expose())).await;
    let status: Status = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    let backends: Vec<(&str, Option<&str>)> =
        status.backends.iter().map(|backend| (backend.id.as_str(), backend.protocol_version.as_deref())).collect();
    assert_eq!(backends, [("demo", Some("2025-11-25"))]);
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(gateway.get(path, None).await.status(), StatusCode::OK, "{path}");
    }
    gateway.stop().await;
    assert!(ControlFile::read(folder.path()).unwrap().is_none(), "the control file is gone with the gateway");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_ends_before_it_serves_leaves_no_control_file() {
    let folder = DataFolder::new();
    let config = configuration((folder.path(), folder.path()), &environment(), CommandLineOptions::default());
    let built = Box::pin(App::build(config, Telemetry::detached())).await.unwrap();
    assert!(ControlFile::read(folder.path()).unwrap().is_some());
    drop(built);
    assert!(ControlFile::read(folder.path()).unwrap().is_none());
}
