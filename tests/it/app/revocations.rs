//! The end of grants and clients while their streams are open, on every transport.

use std::path::Path;

use futures_util::{SinkExt as _, StreamExt as _};
use lockkeeper::app::ControlFile;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message as Frame, client::IntoClientRequest as _},
};

use super::{Gateway, Response, client, made_key};
use crate::{
    backend::scripted_servers::everyday,
    kit::{
        gateway::run,
        person::{ConnectedApp, Person},
        programs::ProgramServer,
        scripted::Script,
    },
    support::{data_folder::DataFolder, in_time},
};

/// The endpoints; each has tokens of its own.
const ENDPOINTS: [&str; 3] = ["/mcp", "/sse", "/ws"];

/// A stream that is open.
enum Stream {
    Response(Response),
    Socket(Box<WebSocketStream<TcpStream>>),
}

impl Stream {
    /// Waits for its end.
    async fn end(self) {
        match self {
            Self::Response(mut response) => while let Ok(Some(_)) = response.chunk().await {},
            Self::Socket(mut socket) => while let Some(Ok(_)) = socket.next().await {},
        }
    }
}

fn hello() -> Value {
    let client = json!({ "name": "c", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })
}

async fn post(gateway: &Gateway, access: &str, message: &Value, headers: &[(&str, &str)]) -> Response {
    let request = client().post(format!("{}/mcp", gateway.url)).bearer_auth(access);
    let request = request.header("accept", "application/json, text/event-stream");
    let mut request = request.header("content-type", "application/json").body(message.to_string());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.unwrap()
}

/// The streams that a client can open at this endpoint.
async fn streams(gateway: &Gateway, path: &str, access: &str) -> Vec<Stream> {
    let responses = match path {
        "/mcp" => vec![standalone(gateway, access).await, listen(gateway, access).await],
        "/sse" => vec![gateway.get("/sse", Some(access)).await],
        _ => return vec![Stream::Socket(Box::new(socket(gateway, access).await))],
    };
    for response in &responses {
        assert_eq!(response.status(), StatusCode::OK, "{path} {response:?}");
    }
    responses.into_iter().map(Stream::Response).collect()
}

/// The GET stream of a session.
async fn standalone(gateway: &Gateway, access: &str) -> Response {
    let opened = post(gateway, access, &hello(), &[]).await;
    let session = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    post(gateway, access, &initialized, &[("mcp-session-id", &session)]).await;
    let request = client().get(format!("{}/mcp", gateway.url)).bearer_auth(access);
    request.header("accept", "text/event-stream").header("mcp-session-id", session).send().await.unwrap()
}

/// A listen of 2026-07-28.
async fn listen(gateway: &Gateway, access: &str) -> Response {
    let params = json!({ "_meta": meta(&json!({})), "notifications": { "toolsListChanged": true } });
    let message = json!({ "jsonrpc": "2.0", "id": 2, "method": "subscriptions/listen", "params": params });
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "subscriptions/listen")];
    post(gateway, access, &message, &headers).await
}

fn meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

pub(super) async fn socket(gateway: &Gateway, access: &str) -> WebSocketStream<TcpStream> {
    let address = gateway.url.trim_start_matches("http://");
    let mut request = format!("ws://{address}/ws").into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {access}").parse().unwrap());
    request.headers_mut().insert("sec-websocket-protocol", "mcp".parse().unwrap());
    let (mut socket, _) = client_async(request, TcpStream::connect(address).await.unwrap()).await.unwrap();
    socket.send(Frame::text(hello().to_string())).await.unwrap();
    socket.next().await.unwrap().unwrap();
    socket
}

/// Asserts that the app gets nothing any more, at its endpoint and by a refresh.
async fn assert_shut_out(gateway: &Gateway, path: &str, app: &ConnectedApp, refreshed: (StatusCode, &str)) {
    let answer = gateway.get(path, Some(&app.access)).await;
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{path}");
    let challenge = answer.headers()["www-authenticate"].to_str().unwrap().to_owned();
    let metadata = format!("{}/.well-known/oauth-protected-resource{path}", gateway.url);
    assert!(challenge.starts_with("Bearer error=\"invalid_token\", "), "{challenge}");
    assert!(challenge.contains(&format!("resource_metadata=\"{metadata}\"")), "{challenge}");
    let form = format!("grant_type=refresh_token&client_id={}&refresh_token={}", app.client, app.refresh);
    let request = client().post(format!("{}/oauth/token", gateway.url)).body(form);
    let answer = request.header("content-type", "application/x-www-form-urlencoded").send().await.unwrap();
    let status = answer.status();
    let error: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    assert_eq!((status, error["error"].as_str()), (refreshed.0, Some(refreshed.1)), "{path}");
}

/// Way in which a grant ends.
#[derive(Debug, Clone, Copy)]
enum Revocation {
    AccountPage,
    GrantOnTheCommandLine,
    GrantsOfItsClient,
    ClientOnTheCommandLine,
}

impl Revocation {
    async fn happen(self, data: &Path, person: &mut Person, app: &ConnectedApp) {
        match self {
            Self::AccountPage => {
                let page = person.get("/account").await;
                let form = page.form_with(&format!("aria-label=\"Disconnect {},", app.name));
                let (token, grant) = (form.hidden("token").unwrap(), form.hidden("grant").unwrap());
                let answer = person.post("/account/revoke", &[("token", &token), ("grant", &grant)]).await;
                assert_eq!(answer.location.as_deref(), Some("/account?done=revoked"));
            }
            Self::GrantOnTheCommandLine => {
                let grants: Value = serde_json::from_str(&run(data, &["grants", "list", "--json"])).unwrap();
                let own = |grant: &&Value| grant.to_string().contains(&app.client);
                let grant = grants["grants"].as_array().unwrap().iter().find(own).unwrap();
                run(data, &["grants", "revoke", grant["id"].as_str().unwrap()]);
            }
            Self::GrantsOfItsClient => drop(run(data, &["grants", "revoke", "--client", &app.client])),
            Self::ClientOnTheCommandLine => drop(run(data, &["clients", "revoke", &app.client])),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_116_a_revoked_grant_or_client_ends_its_streams_on_every_transport_and_no_others() {
    let folder = DataFolder::new();
    let data = folder.path();
    let gateway = Gateway::start(data).await;
    let key = gateway.first_key.as_ref().unwrap().expose().to_owned();
    let mut person = Person::new(&gateway.url, &key);
    person.log_in().await;
    for path in ENDPOINTS {
        let other = person.connect_app("another app", path).await;
        let mut others = streams(&gateway, path, &other.access).await;
        for way in [
            Revocation::AccountPage,
            Revocation::GrantOnTheCommandLine,
            Revocation::GrantsOfItsClient,
            Revocation::ClientOnTheCommandLine,
        ] {
            let app = person.connect_app(&format!("{way:?} at {path}"), path).await;
            let open = streams(&gateway, path, &app.access).await;
            way.happen(data, &mut person, &app).await;
            for stream in open {
                stream.end().await;
            }
            let refreshed = match way {
                Revocation::ClientOnTheCommandLine => (StatusCode::UNAUTHORIZED, "invalid_client"),
                _ => (StatusCode::BAD_REQUEST, "invalid_grant"),
            };
            assert_shut_out(&gateway, path, &app, refreshed).await;
            // what another app opens is open still
            others.extend(streams(&gateway, path, &other.access).await);
        }
        run(data, &["grants", "revoke", "--client", &other.client]);
        for stream in others {
            stream.end().await;
        }
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_116_sessions_end_with_their_key_or_the_last_grant_of_their_app_and_no_others() {
    let folder = DataFolder::new();
    let data = folder.path();
    let gateway = Gateway::start(data).await;
    let key = gateway.first_key.as_ref().unwrap().expose().to_owned();
    let mut person = Person::new(&gateway.url, &key);
    person.log_in().await;
    let (app, other) = (person.connect_app("one app", "/mcp").await, person.connect_app("another", "/mcp").await);
    let [ann, bob] = ["ann", "bob"].map(|user| made_key(data, &["--direct", "--user", user]));
    for access in [&app.access, &other.access, &ann, &bob] {
        assert_eq!(post(&gateway, access, &hello(), &[]).await.status(), StatusCode::OK);
    }
    let control = ControlFile::read(data).unwrap().unwrap();
    // waits until the users with a session are these
    let until = async |expected: &[&str]| loop {
        let status = gateway.get("/api/status", Some(control.token.expose())).await.text().await.unwrap();
        let status: Value = serde_json::from_str(&status).unwrap();
        let mut users: Vec<_> =
            status["sessions"].as_array().unwrap().iter().map(|one| one["user"].as_str().unwrap().to_owned()).collect();
        users.sort();
        if users == expected {
            break;
        }
    };
    in_time("all sessions", until(&["ann", "bob", "owner", "owner"])).await;
    // fewer rights end no session
    let id = |key: &str| key.split('_').nth(1).unwrap().to_owned();
    run(data, &["keys", "set", &id(&ann), "--server", "demo"]);
    run(data, &["grants", "revoke", "--client", &app.client]);
    in_time("the end of the app's session", until(&["ann", "bob", "owner"])).await;
    run(data, &["keys", "revoke", &id(&ann)]);
    in_time("the end of the key's session", until(&["bob", "owner"])).await;
    assert_eq!(post(&gateway, &bob, &hello(), &[]).await.status(), StatusCode::OK);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_116_a_call_that_waits_for_its_user_ends_with_the_user() {
    let folder = DataFolder::new();
    let data = folder.path();
    // its tool asks the person in the middle of a call
    let server = ProgramServer::start(everyday(Script::everyday()));
    let section = format!("[servers.s]\n{}spares = 0\n", server.lines());
    std::fs::write(data.join("lockkeeper.toml"), section).unwrap();
    let gateway = Gateway::start(data).await;
    let ann = made_key(data, &["--direct", "--user", "ann"]);
    let asked = ask(&gateway, &ann, Value::Null).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let is_cancelled = |log: &str| log.contains(r#""action":"cancel""#);
    assert!(!is_cancelled(&server.journal().text()));

    run(data, &["users", "disable", "ann"]);
    // the server is told that nobody answers
    in_time("the cancellation", server.journal().until(is_cancelled)).await;
    let answer = post(&gateway, &ann, &hello(), &[]).await;
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    // and it does not come back with the user
    run(data, &["users", "enable", "ann"]);
    let mut answers = json!({ "requestState": asked["result"]["requestState"] });
    let names = asked["result"]["inputRequests"].as_object().unwrap().keys();
    let accepted = json!({ "action": "accept", "content": {} });
    answers["inputResponses"] =
        names.map(|name| (name.clone(), accepted.clone())).collect::<serde_json::Map<_, _>>().into();
    let again = ask(&gateway, &ann, answers).await;
    assert_ne!(again["result"]["resultType"], "complete", "{again}");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_156_narrower_rights_end_a_call_and_streams_that_run() {
    let folder = DataFolder::new();
    let data = folder.path();
    let server = ProgramServer::start(everyday(Script::everyday()));
    let section = format!("[servers.docs]\nbuiltin = \"demo\"\n[servers.s]\n{}spares = 0\n", server.lines());
    std::fs::write(data.join("lockkeeper.toml"), section).unwrap();
    let gateway = Gateway::start(data).await;
    let keys = |user: &str| -> String {
        let keys: Value = serde_json::from_str(&run(data, &["keys", "list", "--json"])).unwrap();
        let own = keys["keys"].as_array().unwrap().iter().find(|key| key["user"] == user).unwrap();
        own["id"].as_str().unwrap().to_owned()
    };
    let (ann, bob) = (made_key(data, &["--direct", "--user", "ann"]), made_key(data, &["--direct", "--user", "bob"]));
    let asked = ask(&gateway, &ann, Value::Null).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let is_cancelled = |log: &str| log.contains(r#""action":"cancel""#);
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for path in ENDPOINTS {
        own.extend(streams(&gateway, path, &ann).await);
        others.extend(streams(&gateway, path, &bob).await);
    }
    assert!(!is_cancelled(&server.journal().text()));

    run(data, &["keys", "set", &keys("ann"), "--server", "docs"]);
    in_time("the cancellation", server.journal().until(is_cancelled)).await;
    for stream in own {
        stream.end().await;
    }
    let refused = ask(&gateway, &ann, Value::Null).await;
    assert!(refused["error"].is_object(), "{refused}");
    // wider again, without a new key, as soon as the gateway knows
    run(data, &["keys", "set", &keys("ann"), "--all-servers"]);
    let widened = async {
        while ask(&gateway, &ann, Value::Null).await["result"]["resultType"] != "input_required" {
            tokio::task::yield_now().await;
        }
    };
    in_time("wider rights", widened).await;
    // nobody else's
    run(data, &["keys", "revoke", &keys("bob")]);
    for stream in others {
        stream.end().await;
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oa_157_a_deleted_users_own_process_ends() {
    let folder = DataFolder::new();
    let data = folder.path();
    let server = ProgramServer::start(everyday(Script::everyday()));
    let section = format!("[servers.s]\n{}share = \"user\"\nspares = 0\n", server.lines());
    std::fs::write(data.join("lockkeeper.toml"), section).unwrap();
    let gateway = Gateway::start(data).await;
    let ann = made_key(data, &["--direct", "--user", "ann"]);
    let asked = ask(&gateway, &ann, Value::Null).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    server.journal().take();
    run(data, &["users", "delete", "ann"]);
    in_time("the end of the process", server.journal().until(|log| log.contains("stdin closed"))).await;
    gateway.stop().await;
}

/// A call whose tool asks, with these members more.
async fn ask(gateway: &Gateway, key: &str, more: Value) -> Value {
    let arguments = json!({ "method": "elicitation/create" });
    let mut params =
        json!({ "_meta": meta(&json!({ "elicitation": { "form": {} } })), "name": "s__ask", "arguments": arguments });
    if let Value::Object(more) = more {
        params.as_object_mut().unwrap().extend(more);
    }
    let message = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "s__ask")];
    let text = post(gateway, key, &message, &headers).await.text().await.unwrap();
    let data = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
    serde_json::from_str(data).unwrap_or_else(|_| panic!("{text}"))
}
