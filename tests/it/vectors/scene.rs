//! One vector with its client and its server, and the common beginning of all conversations.

use std::{collections::VecDeque, time::Duration};

use lockkeeper::mcp::ClientInfo;
use serde_json::{Value, json};
use tokio::{sync::mpsc::UnboundedReceiver, time::timeout};

use super::{
    client::{Card, Client, SOON},
    compare::{At, same},
    implied_messages,
    plan::MODERN,
    servers::{Came, Heard},
    stage::{STRICT, Stage},
    vector::Vector,
};
use crate::matrix::peer;

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

    fn new(vector: &'a Vector, stage: &mut Stage, name: &str, (path, prefix): (String, (String, String))) -> Self {
        let from_client = vector.direction.starts_with("client") || vector.direction == "backend>gateway";
        let version = if from_client { &vector.from } else { &vector.to };
        let version = if vector.ctx["park"].is_object() { MODERN.to_owned() } else { version.clone() };
        let card = Card {
            url: stage.gateway.url.clone(),
            key: stage.key.clone(),
            path,
            capabilities: capabilities(vector, &version),
            version,
            name: if vector.is_strict() { STRICT } else { "cli" },
        };
        let came = stage.came.remove(name).unwrap();
        Self { vector, card, came, early: VecDeque::new(), prefix }
    }

    /// Waits until the gateway is connected to the server: many start at once.
    pub(super) async fn begins(mut self) -> Self {
        self.early.extend(timeout(STEP_TIMEOUT, self.came.recv()).await.ok().flatten());
        self
    }

    pub(super) async fn client(&self) -> Result<Client, String> {
        Client::open(self.card.clone()).await.map(|(client, _)| client)
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
        self.early.pop_front().or_else(|| self.came.try_recv().ok())
    }

    /// The next message to the server.
    pub(super) async fn came(&mut self) -> Result<Came, String> {
        if let Some(came) = self.early.pop_front() {
            return Ok(came);
        }
        let next = timeout(SOON, self.came.recv()).await;
        next.ok().flatten().ok_or_else(|| "the server gets nothing".to_owned())
    }

    /// A call of the tool that is open at the server, under this id of the client.
    pub(super) async fn call(&mut self, client: &mut Client, id: &Value) -> Result<Heard, String> {
        self.call_with(client, id, &Value::Null).await
    }

    /// Like [`Scene::call`], with this `_meta`.
    pub(super) async fn call_with(&mut self, client: &mut Client, id: &Value, meta: &Value) -> Result<Heard, String> {
        let mut params = self.request("tools/call");
        if !meta.is_null() {
            params["_meta"] = meta.clone();
        }
        client.post(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })).await?;
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
            let mut all = lockkeeper::mcp::Revision::parse(version).map_or_else(|| json!({}), peer::capabilities);
            let made = vector.expected().is_some_and(|message| message["result"]["resultType"] == "task");
            let told = vector.message()["method"] == "notifications/tasks/status";
            if version == MODERN && (made || told || vector.answered() == Some("tasks/get")) {
                all["extensions"] = json!({ "io.modelcontextprotocol/tasks": {} });
            }
            all
        }
    }
}

impl Heard {
    /// Ends this call.
    pub(super) fn finish(&self) {
        let mut result = json!({ "content": [{ "type": "text", "text": "done" }] });
        if self.message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == MODERN {
            result["resultType"] = "complete".into();
        }
        self.say(&json!({ "jsonrpc": "2.0", "id": self.message["id"], "result": result }));
    }

    /// Ends the call with requests and a state (2026-07-28).
    pub(super) fn ask(&self, questions: &Value, state: &Value) {
        let result = json!({ "resultType": "input_required", "inputRequests": questions, "requestState": state });
        self.say(&json!({ "jsonrpc": "2.0", "id": self.message["id"], "result": result }));
    }

    /// Says something on the exchange.
    pub(super) fn say(&self, message: &Value) {
        self.here.lines_now(message.to_string());
    }

    /// Says several things on the exchange, so that nothing can come between them.
    pub(super) fn say_at_once(&self, messages: impl Iterator<Item = Value>) {
        let lines: Vec<String> = messages.map(|message| message.to_string()).collect();
        self.here.lines_now(lines.join("\n"));
    }

    /// Says something outside of any exchange.
    pub(super) fn say_aside(&self, message: &Value) {
        self.aside.say(message);
    }
}
