//! One vector with its client and its server, and the common beginning of all conversations.

use std::{collections::VecDeque, time::Duration};

use lockkeeper::mcp::{ClientInfo, Revision};
use serde_json::{Value, json};
use tokio::{sync::mpsc::UnboundedReceiver, time::timeout};

use super::{
    compare::{At, same},
    implied_messages,
    plan::{MODERN, is_probe},
    stage::{STRICT, Stage},
    vector::Vector,
};
use crate::kit::{
    player::{self, Binding, Card, PlayerConnection, SOON},
    prescribed::{Came, Heard},
};

/// Maximum time for all servers to start.
const STEP_TIMEOUT: Duration = Duration::from_mins(1);
/// The client information in the envelope of 2026-07-28.
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";

/// A vector, and its part of the stage.
pub(super) struct Scene<'a> {
    pub(super) vector: &'a Vector,
    pub(super) card: Card,
    came: UnboundedReceiver<Came>,
    /// Messages from before the conversation.
    early: VecDeque<Came>,
    /// The prefixes of names and URIs.
    prefix: (String, String),
}

impl<'a> Scene<'a> {
    /// At the endpoint of this server.
    pub(super) fn alone(vector: &'a Vector, stage: &mut Stage, name: &str) -> Self {
        Self::new(vector, stage, name, (format!("/{name}"), (String::new(), String::new())))
    }

    /// At the merged endpoint.
    pub(super) fn merged(vector: &'a Vector, stage: &mut Stage, name: &str) -> Self {
        Self::new(vector, stage, name, (String::new(), (format!("{name}__"), format!("{name}+"))))
    }

    fn new(vector: &'a Vector, stage: &mut Stage, server: &str, (path, prefix): (String, (String, String))) -> Self {
        let from_client = vector.direction.starts_with("client") || vector.direction == "backend>gateway";
        let version = if from_client { &vector.from } else { &vector.to };
        let version = if vector.ctx["park"].is_object() { MODERN.to_owned() } else { version.clone() };
        let name = if vector.is_strict() { STRICT } else { "cli" };
        let capabilities = capabilities(vector, &version);
        // one of an unknown version only offers it
        let version = Revision::parse(&version).unwrap_or(Revision::NEWEST_LEGACY);
        let binding = if version == Revision::V2024_11_05 { Binding::Sse } else { Binding::Streamable };
        let info = json!({ "name": name, "version": "2" });
        let card = Card { door: stage.door(path), binding, version, info, capabilities };
        let came = stage.came.remove(server).unwrap();
        Self { vector, card, came, early: VecDeque::new(), prefix }
    }

    /// Waits until the gateway is connected to the server: many start at once.
    pub(super) async fn begins(mut self) -> Self {
        self.early.extend(timeout(STEP_TIMEOUT, self.came.recv()).await.ok().flatten());
        self
    }

    pub(super) async fn client(&self) -> Result<PlayerConnection, String> {
        self.client_over(self.card.binding).await
    }

    /// The client, over this binding.
    pub(super) async fn client_over(&self, binding: Binding) -> Result<PlayerConnection, String> {
        let card = Card { binding, ..self.card.clone() };
        PlayerConnection::open(card).await.map(|(client, _)| client)
    }

    /// The parameters of a request whose answer the vector has.
    pub(super) fn request(&self, method: &str) -> Value {
        implied_messages::request(self.vector, method, (&self.prefix.0, &self.prefix.1))
    }

    /// The next message to the server that is `wanted`; others are skipped.
    pub(super) async fn heard(&mut self, wanted: impl Fn(&Value) -> bool) -> Result<Heard, String> {
        let mut passed = Vec::new();
        loop {
            match self.came().await.map_err(|nothing| format!("{nothing} after {passed:?}"))? {
                Came::Message(heard) if wanted(&heard.message) => return Ok(heard),
                Came::Message(heard) => passed.push(heard.message.to_string()),
                Came::Closed => passed.push("a connection ended".to_owned()),
            }
        }
    }

    /// A message that the server has got, if any.
    pub(super) fn came_already(&mut self) -> Option<Came> {
        loop {
            let came = self.early.pop_front().or_else(|| self.came.try_recv().ok())?;
            if !is_probe(&came) {
                return Some(came);
            }
        }
    }

    /// The next message to the server.
    pub(super) async fn came(&mut self) -> Result<Came, String> {
        if let Some(came) = self.came_already() {
            return Ok(came);
        }
        loop {
            let next = timeout(SOON, self.came.recv()).await;
            let came = next.ok().flatten().ok_or("the server gets nothing")?;
            if !is_probe(&came) {
                return Ok(came);
            }
        }
    }

    /// A call of the tool that is open at the server, under this id of the client.
    pub(super) async fn call(&mut self, client: &mut PlayerConnection, id: &Value) -> Result<Heard, String> {
        self.call_with(client, id, &Value::Null).await
    }

    /// Like [`Scene::call`], with this `_meta`.
    pub(super) async fn call_with(
        &mut self,
        client: &mut PlayerConnection,
        id: &Value,
        meta: &Value,
    ) -> Result<Heard, String> {
        let mut params = self.request("tools/call");
        if !meta.is_null() {
            params["_meta"] = meta.clone();
        }
        client.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })).await?;
        self.heard(|message| message["method"] == "tools/call").await
    }

    /// The server gets this request or notification. The gateway sends messages of its own, so others of the same
    /// method may come first.
    pub(super) async fn gets(&mut self, expected: &Value) -> Result<Heard, String> {
        let mut last = String::new();
        loop {
            let heard = self.heard(|message| message["method"] == expected["method"]).await;
            let heard = heard.map_err(|fault| format!("{fault}{last}"))?;
            match same(&heard.message, &as_asked(&heard.message, expected), At::Server) {
                Ok(()) => return Ok(heard),
                Err(wrong) => last = wrong,
            }
        }
    }
}

/// The expected message with the requester's name: lists and their notifications are shared by all clients, so the
/// gateway requests them for itself (design rule 6, `translation` 4c).
fn as_asked(got: &Value, expected: &Value) -> Value {
    let mut expected = expected.clone();
    let method = expected["method"].as_str().unwrap_or_default();
    let own: Value = serde_json::from_slice(&ClientInfo::gateway_implementation()).unwrap();
    if (method.ends_with("/list") || method == "subscriptions/listen")
        && got["params"]["_meta"][CLIENT_INFO] == own
        && let Some(client) = expected.pointer_mut("/params/_meta").and_then(|meta| meta.get_mut(CLIENT_INFO))
    {
        *client = own;
    }
    expected
}

/// The client's capabilities: from the vector, or from an envelope in it.
fn capabilities(vector: &Vector, version: &str) -> Value {
    if let Some(declared) = vector.ctx.get("client_caps") {
        return declared.clone();
    }
    let steps = vector.expect["seq"].as_array().into_iter().flatten().map(|step| step["msg"].clone());
    let messages = [vector.message(), vector.expected().cloned().unwrap_or_default()].into_iter().chain(steps);
    let declared = messages
        .map(|message| message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"].clone())
        .find(Value::is_object);
    match declared {
        Some(Value::Object(mut all)) if version != MODERN => {
            // the gateway's own declaration of tasks
            all.remove("extensions");
            Value::Object(all)
        }
        Some(declared) => declared,
        None => {
            let mut all = Revision::parse(version).map_or_else(|| json!({}), player::capabilities);
            let made = vector.expected().is_some_and(|message| message["result"]["resultType"] == "task");
            let told = vector.message()["method"] == "notifications/tasks/status";
            if version == MODERN && (made || told || vector.answered() == Some("tasks/get")) {
                all["extensions"] = json!({ "io.modelcontextprotocol/tasks": {} });
            }
            all
        }
    }
}
