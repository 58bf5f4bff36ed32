//! A scripted client of one version, on the binding of its version. It accepts everything.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
    task::JoinSet,
    time::timeout,
};

use super::plan::MODERN;
use crate::{
    kit::tap::{Event, Tap},
    support::depends_on_speed,
};

/// Time limit for an expected message.
pub(super) const SOON: Duration = Duration::from_mins(1);

/// Identity and target of a client.
#[derive(Debug, Clone)]
pub(super) struct Card {
    pub(super) url: String,
    pub(super) key: String,
    /// The path below `/mcp` and `/sse`.
    pub(super) path: String,
    pub(super) version: String,
    pub(super) name: &'static str,
    pub(super) capabilities: Value,
}

/// A message, or the reason for its absence.
type Arrived = Result<Value, String>;

/// Receiver of messages.
#[derive(Clone)]
struct Inbox {
    sender: UnboundedSender<Arrived>,
    /// The last event id.
    last_event: Arc<Mutex<Option<String>>>,
}

/// One client session.
pub(super) struct Client {
    pub(super) card: Card,
    http: reqwest::Client,
    address: String,
    pub(super) session: Option<String>,
    sender: Inbox,
    inbox: UnboundedReceiver<Arrived>,
    reading: JoinSet<()>,
}

// === impl Card ===

impl Card {
    fn initialize_request(&self) -> Value {
        json!({ "jsonrpc": "2.0", "id": "open", "method": "initialize", "params": { "protocolVersion": self.version,
            "capabilities": self.capabilities, "clientInfo": { "name": self.name, "version": "2" } } })
    }

    /// A request in the envelope of 2026-07-28.
    pub(super) fn enveloped(&self, message: &Value) -> Value {
        let mut message = message.clone();
        if self.version == MODERN && message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].is_null() {
            let meta = &mut message["params"]["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
            meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": self.name, "version": "2" });
            meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        }
        message
    }
}

// === impl Client ===

impl Client {
    /// A client that has sent nothing yet.
    pub(super) fn new(card: Card) -> Self {
        let (sender, inbox) = mpsc::unbounded_channel();
        let sender = Inbox { sender, last_event: Arc::default() };
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let address = format!("{}/mcp{}", card.url, card.path);
        Self { card, http, address, session: None, sender, inbox, reading: JoinSet::new() }
    }

    /// An open session, and the server's answer to the handshake. 2026-07-28 has neither.
    pub(super) async fn open(card: Card) -> Result<(Self, Value), String> {
        let mut client = Self::new(card);
        if client.card.version == MODERN {
            return Ok((client, Value::Null));
        }
        if client.card.version == "2024-11-05" {
            client.connect().await?;
        }
        client.post(&client.card.initialize_request()).await?;
        let greeting = client.next().await?;
        if greeting.get("result").is_none() {
            return Err(format!("the handshake failed: {greeting}"));
        }
        client.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
        Ok((client, greeting))
    }

    /// Opens the connection that is the session (2024-11-05, HTTP+SSE).
    async fn connect(&mut self) -> Result<(), String> {
        let mut tap = Tap::of(self.get(&format!("/sse{}", self.card.path)).await);
        let endpoint = loop {
            match tap.next().await {
                Some(event) if event.name.as_deref() == Some("endpoint") => break event,
                Some(_) => {}
                None => return Err("no endpoint event came".to_owned()),
            }
        };
        self.address = format!("{}{}", self.card.url, endpoint.data.unwrap_or_default());
        self.read(tap);
        Ok(())
    }

    /// Opens the standalone stream, unless it is the connection.
    pub(super) async fn listen(&mut self) {
        if self.card.version.as_str() > "2024-11-05" && self.card.version != MODERN {
            let tap = Tap::of(self.get(&format!("/mcp{}", self.card.path)).await);
            self.read(tap);
        }
    }

    /// Stops reading all streams.
    pub(super) fn leave(&mut self) {
        self.reading.abort_all();
    }

    /// Resumes the stream of the last event.
    pub(super) async fn resume(&mut self) {
        let last = self.sender.last_event.lock().clone().unwrap_or_default();
        let request = self.headed(self.http.get(format!("{}/mcp{}", self.card.url, self.card.path)));
        let tap = Tap::of(request.header("last-event-id", last).send().await.unwrap());
        self.read(tap);
    }

    /// A message that has arrived, if any.
    pub(super) fn came_already(&mut self) -> Option<Result<Value, String>> {
        self.inbox.try_recv().ok()
    }

    /// Requests a path, in the session if there is one.
    pub(super) async fn get(&self, path: &str) -> Response {
        self.headed(self.http.get(format!("{}{path}", self.card.url))).send().await.unwrap()
    }

    /// Posts a message, and puts the answer into the inbox. Does not wait for the answer to a call.
    pub(super) async fn post(&mut self, message: &Value) -> Result<(), String> {
        let message = self.card.enveloped(message);
        let opens = message["method"] == "initialize";
        if !opens && message.get("id").is_some() && message.get("method").is_some() {
            let (request, inbox) = (self.request(&message), self.sender.clone());
            self.reading.spawn(async move {
                match accepted(request.send().await.unwrap()).await {
                    Ok(response) if response.status() == StatusCode::ACCEPTED => {}
                    Ok(response) => deliver(Tap::of(response), &inbox).await,
                    Err(refused) => drop(inbox.sender.send(Err(refused))),
                }
            });
            return Ok(());
        }
        let response = accepted(self.exchange(&message).await).await?;
        if let Some(id) = response.headers().get("mcp-session-id") {
            self.session = Some(id.to_str().unwrap().to_owned());
        }
        if response.status() != StatusCode::ACCEPTED {
            self.read(Tap::of(response));
        }
        Ok(())
    }

    /// Posts in the session, and returns the response.
    pub(super) async fn exchange(&self, message: &Value) -> Response {
        self.request(message).send().await.unwrap()
    }

    fn request(&self, message: &Value) -> RequestBuilder {
        let mut request = self.headed(self.http.post(&self.address)).header("content-type", "application/json");
        if self.card.version == MODERN {
            request = request.header("mcp-method", message["method"].as_str().unwrap_or_default());
            let params = &message["params"];
            let named = ["name", "uri", "taskId"].iter().find_map(|key| params[*key].as_str());
            request = named.into_iter().fold(request, |request, name| request.header("mcp-name", name));
        }
        request.body(message.to_string())
    }

    /// Sends with only these headers.
    pub(super) async fn bare(
        &self,
        (verb, path): (&str, &str),
        body: &Value,
        headers: &[(String, String)],
    ) -> Response {
        let verb = verb.parse().unwrap();
        let request = self.http.request(verb, format!("{}{path}", self.card.url)).bearer_auth(&self.card.key);
        let request = request.header("accept", "application/json, text/event-stream");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
        if body.is_null() {
            return request.send().await.unwrap();
        }
        request.header("content-type", "application/json").body(body.to_string()).send().await.unwrap()
    }

    fn headed(&self, request: RequestBuilder) -> RequestBuilder {
        let request = request.bearer_auth(&self.card.key).header("accept", "application/json, text/event-stream");
        let request = match &self.session {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        };
        if self.card.version == MODERN || (self.session.is_some() && self.card.version.as_str() >= "2025-06-18") {
            return request.header("mcp-protocol-version", &self.card.version);
        }
        request
    }

    fn read(&mut self, tap: Tap) {
        let inbox = self.sender.clone();
        self.reading.spawn(async move { deliver(tap, &inbox).await });
    }

    /// The next message on any stream.
    pub(super) async fn next(&mut self) -> Result<Value, String> {
        loop {
            let next = timeout(SOON, self.inbox.recv()).await;
            let next = next.ok().flatten().unwrap_or_else(|| Err("the client gets nothing".to_owned()));
            if !next.as_ref().is_ok_and(|message| depends_on_speed(&message["params"])) {
                return next;
            }
        }
    }

    /// The answer to a request, and the messages before it.
    pub(super) async fn answer(&mut self, id: &Value) -> Result<(Vec<Value>, Value), String> {
        let mut before = Vec::new();
        loop {
            let message = self.next().await.map_err(|nothing| format!("{nothing} after {before:?}"))?;
            if message.get("method").is_none() && message["id"] == *id {
                return Ok((before, message));
            }
            before.push(message);
        }
    }
}

/// The response, or the reason for its absence.
async fn accepted(response: Response) -> Result<Response, String> {
    let status = response.status();
    if status.is_success() { Ok(response) } else { Err(format!("{status}: {}", response.text().await.unwrap())) }
}

async fn deliver(mut tap: Tap, inbox: &Inbox) {
    while let Some(Event { data, id, .. }) = tap.next().await {
        if id.is_some() {
            inbox.last_event.lock().clone_from(&id);
        }
        let Some(data) = data.filter(|data| !data.is_empty()) else { continue };
        match serde_json::from_str(&data).unwrap() {
            Value::Array(messages) => messages.into_iter().for_each(|message| drop(inbox.sender.send(Ok(message)))),
            message => drop(inbox.sender.send(Ok(message))),
        }
    }
}
