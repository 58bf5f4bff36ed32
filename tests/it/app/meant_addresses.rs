//! The likeliest wrong addresses: `/` for `/mcp`, and each transport over HTTP at the address of the other.

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use super::{Events, client, direct_key};
use crate::{kit::gateway::Gateway, support::data_folder::DataFolder};

const CALL: &str =
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"demo__add","arguments":{"a":2,"b":3}}}"#;

/// A client of Streamable HTTP at some address.
struct Wanderer<'a> {
    url: String,
    key: &'a str,
}

impl Wanderer<'_> {
    fn request(&self, method: Method, session: Option<&str>) -> RequestBuilder {
        let request = client().request(method, &self.url).header("accept", "application/json, text/event-stream");
        let request = request.header("content-type", "application/json");
        let request = if self.key.is_empty() { request } else { request.bearer_auth(self.key) };
        match session {
            Some(session) => request.header("mcp-session-id", session).header("mcp-protocol-version", "2025-06-18"),
            None => request,
        }
    }

    async fn initialize(&self) -> Response {
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
        self.request(Method::POST, None).body(message.to_string()).send().await.unwrap()
    }

    /// A whole session, as clients have one.
    async fn works(&self) {
        let opened = self.initialize().await;
        assert_eq!(opened.status(), StatusCode::OK, "{}", self.url);
        let session = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let post = |text: &'static str| self.request(Method::POST, Some(&session)).body(text).send();
        let accepted = post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await.unwrap();
        assert_eq!(accepted.status(), StatusCode::ACCEPTED);
        let stream = self.request(Method::GET, Some(&session)).send().await.unwrap();
        assert_eq!(stream.headers()["content-type"], "text/event-stream", "{}", self.url);
        let answer: Value = serde_json::from_str(&post(CALL).await.unwrap().text().await.unwrap()).unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], "5");
        let ended = self.request(Method::DELETE, Some(&session)).send().await.unwrap();
        assert_eq!(ended.status(), StatusCode::NO_CONTENT, "{}", self.url);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_streamable_http_is_served_at_the_likeliest_wrong_addresses() {
    let folder = DataFolder::new();
    let gateway = Gateway::start(folder.path()).await;
    let key = direct_key(folder.path());
    for path in ["/", "/mcp", "/sse", "/sse/"] {
        Wanderer { url: format!("{}{path}", gateway.url), key: &key }.works().await;
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_post_at_the_root_without_a_valid_credential_learns_where_to_go() {
    let folder = DataFolder::new();
    let gateway = Gateway::start(folder.path()).await;
    let login_key = gateway.first_key.clone().unwrap();
    for key in ["", "wrong", login_key.expose()] {
        let refused = Wanderer { url: format!("{}/", gateway.url), key }.initialize().await;
        assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
        let challenge = refused.headers()["www-authenticate"].to_str().unwrap().to_owned();
        assert!(challenge.contains("/.well-known/oauth-protected-resource/mcp\""), "{challenge}");
        let text = refused.text().await.unwrap();
        assert!(text.contains(&format!("{}/mcp: use that URL", gateway.url)), "{text}");
    }
    // elsewhere it says nothing of the kind
    let refused = Wanderer { url: format!("{}/mcp", gateway.url), key: "" }.initialize().await;
    assert!(!refused.text().await.unwrap().contains("use that URL"));
    let page = client().get(format!("{}/", gateway.url)).send().await.unwrap();
    assert!(
        page.headers()["content-type"].to_str().unwrap().starts_with("text/html"),
        "the start page stays what it was"
    );
    let preflight = client().request(Method::OPTIONS, format!("{}/", gateway.url));
    let preflight = preflight.header("origin", &gateway.url).header("access-control-request-method", "POST");
    let preflight = preflight.send().await.unwrap();
    assert_eq!(
        (preflight.status(), &preflight.headers()["access-control-allow-origin"]),
        (StatusCode::NO_CONTENT, &"*".parse().unwrap())
    );
    let foreign = Wanderer { url: format!("{}/", gateway.url), key: "" };
    let foreign =
        foreign.request(Method::POST, None).header("origin", "https://evil.example").body("{}").send().await.unwrap();
    assert_eq!(foreign.status(), StatusCode::FORBIDDEN, "pages of others may not");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_tries_streamable_http_first_falls_back_where_its_key_opens_streams_alone() {
    let folder = DataFolder::new();
    let gateway = Gateway::start(folder.path()).await;
    let (login_key, direct) = (gateway.first_key.clone().unwrap(), direct_key(folder.path()));
    let (sse, login_key) = (format!("{}/sse", gateway.url), login_key.expose());
    for (url, key) in [
        (sse.clone(), login_key),
        (format!("{sse}?api_key={login_key}"), ""),
        (format!("{sse}?api_key={direct}"), ""),
        (format!("{sse}?ticket=x"), &*direct),
    ] {
        let wanderer = Wanderer { url, key };
        let refused = wanderer.initialize().await;
        assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED, "{}", wanderer.url);
        assert!(refused.text().await.unwrap().contains("/mcp"));
        let response = wanderer.request(Method::GET, None).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let address = Events { response, text: String::new() }.next("endpoint").await;
        assert!(address.starts_with("/messages?"), "{address}");
    }
    // nor does a key of another kind open more at `/mcp`
    let refused = Wanderer { url: format!("{}/mcp", gateway.url), key: login_key }
        .request(Method::GET, None)
        .send()
        .await
        .unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    let refused = Wanderer { url: format!("{}/mcp?api_key={direct}", gateway.url), key: "" };
    assert_eq!(refused.request(Method::GET, None).send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_http_sse_is_served_at_the_address_of_streamable_http() {
    let folder = DataFolder::new();
    let gateway = Gateway::start(folder.path()).await;
    let key = direct_key(folder.path());
    for path in ["/mcp", "/mcp/demo"] {
        let response =
            client().get(format!("{}{path}", gateway.url)).header("accept", "text/event-stream").bearer_auth(&key);
        let mut events = Events { response: response.send().await.unwrap(), text: String::new() };
        let address = events.next("endpoint").await;
        let post = |key: &str| {
            let request = client().post(format!("{}{address}", gateway.url)).header("content-type", "application/json");
            request.bearer_auth(key).body(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{}}}"#).send()
        };
        assert_eq!(post(gateway.first_key.as_ref().unwrap().expose()).await.unwrap().status(), StatusCode::NOT_FOUND);
        assert_eq!(post(&key).await.unwrap().status(), StatusCode::ACCEPTED);
        assert!(events.next("message").await.contains(r#""protocolVersion":"2024-11-05""#));
    }
    gateway.stop().await;
}
