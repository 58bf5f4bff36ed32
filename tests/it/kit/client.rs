//! A client of any version over Streamable HTTP, with a person's key. It makes requests and looks only at the answers.

use lockkeeper::mcp::Revision;
use serde_json::{Value, json};

use super::{
    person::Person,
    player::{Binding, Card, Door, PlayerConnection},
};

/// A client of one version.
pub(crate) struct Client {
    card: Card,
    /// Opened by the first request.
    connection: Option<PlayerConnection>,
}

// === impl Client ===

impl Person {
    /// A client with these capabilities, at `/mcp`.
    pub(crate) fn client(&self, version: &str, capabilities: Value) -> Client {
        self.client_at("/mcp", version, capabilities)
    }

    pub(crate) fn client_at(&self, endpoint: &str, version: &str, capabilities: Value) -> Client {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let (url, key) = (self.gateway.clone(), self.key.clone());
        let path = endpoint.strip_prefix("/mcp").unwrap().to_owned();
        let (version, info) = (Revision::parse(version).unwrap(), json!({ "name": "t", "version": "1" }));
        let door = Door { http, url, key, path, config: None };
        Client { card: Card { door, binding: Binding::Streamable, version, info, capabilities }, connection: None }
    }
}

impl Client {
    /// The answer to a request: its result, or its error under `error`. A client of 2025-11-25 or older opens a session
    /// first.
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

    /// The names of one server's tools.
    pub(crate) async fn tools_of(&mut self, server: &str) -> Vec<String> {
        let mut tools = self.tools().await;
        tools.retain(|tool| tool.starts_with(&format!("{server}__")));
        tools
    }

    /// Every answer is 200 or 202: a server's refusal is never the gateway's refusal (N-117).
    async fn post(&mut self, method: &str, params: Value) -> Value {
        if self.connection.is_none() {
            self.connection = Some(PlayerConnection::open(self.card.clone()).await.unwrap().0);
        }
        let connection = self.connection.as_mut().unwrap();
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        connection.send(&request).await.unwrap();
        connection.answer(&request["id"]).await.unwrap_or_else(|fault| panic!("{request}: {fault}")).1
    }
}
