//! One vector on the stage: its client, its server, and what all conversations begin with.

use serde_json::{Value, json};
use tokio::{sync::mpsc::UnboundedReceiver, time::timeout};

use super::{
    canned,
    client::{Card, Client, SOON},
    plan::MODERN,
    servers::{Came, Heard},
    stage::{STRICT, Stage},
    vector::Vector,
};
use crate::matrix::peer;

/// A vector, and what it needs of the stage.
pub(super) struct Scene<'a> {
    pub(super) vector: &'a Vector,
    pub(super) card: Card,
    came: UnboundedReceiver<Came>,
    /// What stands before names and URIs.
    prefix: (String, String),
}

impl<'a> Scene<'a> {
    /// Before the server of this name, at its own endpoint.
    pub(super) fn alone(vector: &'a Vector, stage: &mut Stage, name: &str) -> Self {
        Self::new(vector, stage, name, (format!("/{name}"), (String::new(), String::new())))
    }

    /// Before the server of this name, at the endpoint of all.
    pub(super) fn merged(vector: &'a Vector, stage: &mut Stage, name: &str) -> Self {
        Self::new(vector, stage, name, (String::new(), (format!("{name}__"), format!("{name}+"))))
    }

    fn new(vector: &'a Vector, stage: &mut Stage, name: &str, (path, prefix): (String, (String, String))) -> Self {
        let from_client = vector.direction.starts_with("client") || vector.direction == "backend>gateway";
        let modern = vector.ctx.get("park").is_some();
        let version = if from_client { &vector.from } else { &vector.to };
        let version = if modern { MODERN.to_owned() } else { version.clone() };
        let declared = lockkeeper::mcp::Revision::parse(&version).map_or_else(|| json!({}), peer::capabilities);
        let card = Card {
            url: stage.url.clone(),
            key: stage.key.clone(),
            path,
            version,
            name: if vector.is_strict() { STRICT } else { "cli" },
            capabilities: vector.ctx.get("client_caps").cloned().unwrap_or(declared),
        };
        let came = stage.came.remove(name).unwrap();
        Self { vector, card, came, prefix }
    }

    pub(super) async fn client(&self) -> Result<Client, String> {
        Client::open(self.card.clone()).await.map(|(client, _)| client)
    }

    /// The parameters of a request whose answer the vector gives.
    pub(super) fn request(&self, method: &str) -> Value {
        canned::request(self.vector, method, (&self.prefix.0, &self.prefix.1))
    }

    /// The next message to the server that is wanted; others go by.
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

    /// What the server gets next.
    pub(super) async fn came(&mut self) -> Result<Came, String> {
        let next = timeout(SOON, self.came.recv()).await;
        next.ok().flatten().ok_or_else(|| "the server gets nothing".to_owned())
    }

    /// A call of the tool, open at the server, under this id and progress token of the client's.
    pub(super) async fn call(&mut self, client: &mut Client, id: &Value, token: &Value) -> Result<Heard, String> {
        let mut params = self.request("tools/call");
        if !token.is_null() {
            params["_meta"] = json!({ "progressToken": token });
        }
        client.post(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })).await?;
        self.heard(|message| message["method"] == "tools/call").await
    }
}

impl Heard {
    /// Ends the call that was heard.
    pub(super) fn finish(&self) {
        let mut result = json!({ "content": [{ "type": "text", "text": "done" }] });
        if self.message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == MODERN {
            result["resultType"] = "complete".into();
        }
        self.say(&json!({ "jsonrpc": "2.0", "id": self.message["id"], "result": result }));
    }

    /// Says something on the exchange.
    pub(super) fn say(&self, message: &Value) {
        let _ = self.here.send(message.to_string());
    }

    /// Says something outside of any exchange.
    pub(super) fn say_aside(&self, message: &Value) {
        self.aside.say(message);
    }
}
