//! A client of any version over Streamable HTTP, with a person's key.

use reqwest::Response;
use serde_json::{Value, json};

use super::person::Person;

/// A client of one version.
pub(crate) struct Client {
    http: reqwest::Client,
    gateway: String,
    key: String,
    endpoint: &'static str,
    version: &'static str,
    capabilities: Value,
    session: Option<String>,
}

// === impl Client ===

impl Person {
    /// A client with these capabilities, at `/mcp`.
    pub(crate) fn client(&self, version: &'static str, capabilities: Value) -> Client {
        self.client_at("/mcp", version, capabilities)
    }

    pub(crate) fn client_at(&self, endpoint: &'static str, version: &'static str, capabilities: Value) -> Client {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let (gateway, key) = (self.gateway.clone(), self.key.clone());
        Client { http, gateway, key, endpoint, version, capabilities, session: None }
    }
}

impl Client {
    /// The answer to a request: its result, or its error under `error`. A client of 2025-11-25 or older opens a
    /// session first.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let answer = self.post(method, params).await;
        if answer["result"].is_object() { answer["result"].clone() } else { answer }
    }

    /// The text of a tool's result.
    pub(crate) async fn call(&mut self, tool: &str) -> String {
        let result = self.ask("tools/call", json!({ "name": tool, "arguments": {} })).await;
        result["content"][0]["text"].as_str().map_or_else(|| result.to_string(), str::to_owned)
    }

    /// The names of the listed tools.
    pub(crate) async fn tools(&mut self) -> Vec<String> {
        let result = self.ask("tools/list", json!({})).await;
        let tools = result["tools"].as_array().unwrap_or_else(|| panic!("{result}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Those of one server.
    pub(crate) async fn tools_of(&mut self, server: &str) -> Vec<String> {
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
        let mut request = self.http.post(format!("{}{}", self.gateway, self.endpoint)).bearer_auth(&self.key);
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
