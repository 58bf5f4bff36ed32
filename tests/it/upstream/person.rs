//! A user: a key, a browser, and clients of several versions.

use std::{path::Path, process::Command};

use reqwest::{Response, StatusCode, header};
use serde_json::{Value, json};
use url::{Url, form_urlencoded};

/// A user.
pub(super) struct Person {
    gateway: String,
    pub(super) key: String,
    pub(super) key_id: String,
    cookie: Option<String>,
}

/// A page in the browser.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) status: StatusCode,
    pub(super) location: Option<String>,
    pub(super) body: String,
}

/// A client of one version.
pub(super) struct Client<'a> {
    person: &'a Person,
    endpoint: &'static str,
    version: &'static str,
    capabilities: Value,
    session: Option<String>,
}

// === impl Person ===

impl Person {
    pub(super) fn new(gateway: &str, data: &Path, user: &str) -> Self {
        let mut create = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
        create.args(["keys", "create", user, "--user", user, "--direct", "--json", "--data-dir"]).arg(data);
        let made: Value = serde_json::from_slice(&create.output().unwrap().stdout).unwrap();
        let text = |name: &str| made[name].as_str().unwrap_or_default().to_owned();
        let key = if made["secret"].is_string() { text("secret") } else { text("key") };
        Self { gateway: gateway.to_owned(), key, key_id: text("id"), cookie: None }
    }

    /// The same user at a gateway that was started again.
    pub(super) fn at(self, gateway: &str) -> Self {
        Self { gateway: gateway.to_owned(), ..self }
    }

    /// Requests a page of the gateway, or another one without the cookie.
    pub(super) async fn get(&mut self, address: &str) -> Shown {
        let url = self.absolute(address);
        let mut request = http().get(&url);
        if let Some(cookie) = self.cookie.as_ref().filter(|_| url.starts_with(&self.gateway)) {
            request = request.header(header::COOKIE, cookie);
        }
        self.show(request.send().await.unwrap()).await
    }

    /// Submits the form of a page, with this button.
    pub(super) async fn submit(&mut self, page: &Shown, action: &str, fields: &[(&str, &str)]) -> Shown {
        let mut form = form_urlencoded::Serializer::new(String::new());
        for name in ["token", "address", "connect", "transaction"] {
            let is_given = fields.iter().any(|(field, _)| *field == name);
            if let Some(value) = page.hidden(name).filter(|_| !is_given) {
                form.append_pair(name, &value);
            }
        }
        let body = form.extend_pairs(fields).finish();
        let mut request = http().post(self.absolute(action)).body(body);
        request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(cookie) = &self.cookie {
            request = request.header(header::COOKIE, cookie);
        }
        self.show(request.send().await.unwrap()).await
    }

    /// Submits a secret on the page of a server or on the account page.
    pub(super) async fn submit_account(&mut self, page: &Shown, fields: &[(&str, &str)]) -> Shown {
        self.submit(page, "/account/secret", fields).await
    }

    pub(super) async fn log_in(&mut self) {
        let page = self.get("/login").await;
        let key = self.key.clone();
        let seen = self.submit(&page, "/login", &[("key", &key)]).await;
        assert_eq!(seen.status, StatusCode::SEE_OTHER, "{}", seen.body);
    }

    /// Goes from the connect page at this address to the end; returns the last page.
    pub(super) async fn connect(&mut self, address: &str) -> Shown {
        let callback = self.approve(address).await;
        let end = self.get(&callback).await;
        assert_eq!(end.status, StatusCode::SEE_OTHER, "{}", end.body);
        self.get(&end.location.unwrap()).await
    }

    /// Consents on the connect page and at the authorization server; returns the address of the callback.
    pub(super) async fn approve(&mut self, address: &str) -> String {
        let page = self.get(address).await;
        assert_eq!(page.status, StatusCode::OK, "{}", page.body);
        let away = self.submit(&page, "/connect/github", &[("decision", "connect")]).await;
        assert_eq!(away.status, StatusCode::SEE_OTHER, "{}", away.body);
        self.get(&away.location.unwrap()).await.location.unwrap()
    }

    /// A client with these capabilities, at `/mcp`.
    pub(super) fn client(&self, version: &'static str, capabilities: Value) -> Client<'_> {
        self.client_at("/mcp", version, capabilities)
    }

    pub(super) fn client_at(&self, endpoint: &'static str, version: &'static str, capabilities: Value) -> Client<'_> {
        Client { person: self, endpoint, version, capabilities, session: None }
    }

    fn absolute(&self, address: &str) -> String {
        if address.starts_with("http") { address.to_owned() } else { format!("{}{address}", self.gateway) }
    }

    async fn show(&mut self, response: Response) -> Shown {
        if let Some(set) = response.headers().get(header::SET_COOKIE) {
            self.cookie = Some(set.to_str().unwrap().split(';').next().unwrap().to_owned());
        }
        let location = response.headers().get(header::LOCATION).map(|to| to.to_str().unwrap().to_owned());
        Shown { status: response.status(), location, body: response.text().await.unwrap() }
    }
}

// === impl Shown ===

impl Shown {
    /// The value of a hidden field.
    pub(super) fn hidden(&self, name: &str) -> Option<String> {
        let (_, rest) = self.body.split_once(&format!("name=\"{name}\" value=\""))?;
        Some(rest.split_once('"')?.0.replace("&#38;", "&").replace("&amp;", "&"))
    }
}

// === impl Client ===

impl Client<'_> {
    /// The answer to a request: its result, or its error under `error`. A client of 2025-11-25 or older opens a
    /// session first.
    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let answer = self.post(method, params).await;
        if answer["result"].is_object() { answer["result"].clone() } else { answer }
    }

    /// The text of a tool's result.
    pub(super) async fn call(&mut self, tool: &str) -> String {
        let result = self.ask("tools/call", json!({ "name": tool, "arguments": {} })).await;
        result["content"][0]["text"].as_str().map_or_else(|| result.to_string(), str::to_owned)
    }

    /// The names of the listed tools.
    pub(super) async fn tools(&mut self) -> Vec<String> {
        let result = self.ask("tools/list", json!({})).await;
        let tools = result["tools"].as_array().unwrap_or_else(|| panic!("{result}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Those of one server.
    pub(super) async fn tools_of(&mut self, server: &str) -> Vec<String> {
        let mut tools = self.tools().await;
        tools.retain(|tool| tool.starts_with(&format!("{server}__")));
        tools
    }

    async fn post(&mut self, method: &str, mut params: Value) -> Value {
        let mut headers = vec![("mcp-protocol-version", self.version.to_owned())];
        if self.version == "2026-07-28" {
            params["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": self.version,
                "io.modelcontextprotocol/clientCapabilities": self.capabilities });
            headers.push(("mcp-method", method.to_owned()));
            headers.extend(params["name"].as_str().map(|name| ("mcp-name", name.to_owned())));
        } else {
            headers.push(("mcp-session-id", self.session().await));
        }
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        read(self.send(&headers, &message).await).await
    }

    async fn session(&mut self) -> String {
        if let Some(session) = &self.session {
            return session.clone();
        }
        let about = json!({ "name": "t", "version": "1" });
        let hello = json!({ "protocolVersion": self.version, "capabilities": self.capabilities, "clientInfo": about });
        let response =
            self.send(&[], &json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello })).await;
        let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        self.session = Some(session.clone());
        let headers = [("mcp-session-id", session.clone()), ("mcp-protocol-version", self.version.to_owned())];
        self.send(&headers, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        session
    }

    /// Every answer is 200 or 202: what a server refuses is never the gateway's refusal (N-117).
    async fn send(&self, headers: &[(&str, String)], message: &Value) -> Response {
        let mut request =
            http().post(format!("{}{}", self.person.gateway, self.endpoint)).bearer_auth(&self.person.key);
        request = request.header("content-type", "application/json").body(message.to_string());
        request = request.header("accept", "application/json, text/event-stream");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let response = request.send().await.unwrap();
        assert!(response.status().is_success(), "{message} {}", response.status());
        response
    }
}

async fn read(response: Response) -> Value {
    let text = response.text().await.unwrap();
    let answer = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
    serde_json::from_str(answer).unwrap_or_default()
}

fn http() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

/// The path and query of an address of the gateway in an elicitation.
pub(super) fn page_in(url: &str) -> String {
    let url = Url::parse(url).unwrap();
    format!("{}?{}", url.path(), url.query().unwrap())
}
