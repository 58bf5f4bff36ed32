//! A client's connection to a gateway, in any version over any binding. It sends messages as given, and returns each
//! incoming message with the stream it came on. It checks the promises of the binding: every answer comes on the stream
//! of its request, no event comes twice, and only events of sessions over Streamable HTTP have ids.

use std::{collections::HashSet, sync::Arc, time::Duration};

use lockkeeper::{
    config::Config,
    mcp::{Era, Revision},
};
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::{AbortHandle, JoinSet},
    time::timeout,
};

use super::{channel::Channel, headers::accepting};
use crate::{
    kit::tap::{Event, Tap},
    support::depends_on_speed,
};

/// Time limit for an expected message.
pub(crate) const SOON: Duration = Duration::from_mins(1);
/// The id of the handshake.
pub(super) const HANDSHAKE: &str = "open";

/// Bindings of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binding {
    Streamable,
    Sse,
    WebSocket,
    Stdio,
}

/// An endpoint of a gateway, with a credential.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    /// Shared by all clients of a test, since creating it is slow.
    pub(crate) http: Client,
    pub(crate) url: String,
    pub(crate) key: String,
    /// The path after `/mcp`, `/sse` and `/ws`: `/` and the name of a server, or empty for all of them.
    pub(crate) path: String,
    /// The configuration with all servers, for the client's own gateway.
    pub(crate) config: Option<Arc<Config>>,
}

/// A client, as it introduces itself to an endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Card {
    pub(crate) door: Door,
    pub(crate) binding: Binding,
    pub(crate) version: Revision,
    pub(crate) info: Value,
    pub(crate) capabilities: Value,
}

/// The stream of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The exchange of a POST with these requests.
    Post(Vec<Value>),
    /// A stream without a request.
    Standalone,
    /// The only stream of a channel.
    Channel,
}

#[derive(Debug)]
pub(crate) struct Arrived {
    pub(super) on: Origin,
    /// The id of its event.
    pub(super) event: Option<String>,
    pub(super) message: Value,
    /// The status of a response that is not a stream.
    pub(super) status: Option<StatusCode>,
}

/// A message, or the reason for its absence.
pub(super) type Arrival = Result<Arrived, String>;

/// The connection of one client.
pub(crate) struct PlayerConnection {
    pub(crate) card: Card,
    address: String,
    /// The channel of a binding other than HTTP.
    channel: Option<Channel>,
    pub(crate) session: Option<String>,
    sender: UnboundedSender<Arrival>,
    inbox: UnboundedReceiver<Arrival>,
    /// The ids of events so far.
    seen: HashSet<String>,
    last_event: Option<String>,
    /// True once a stream was resumed: answers may come on it.
    has_resumed: bool,
    reading: JoinSet<()>,
}

// === impl Card ===

impl Card {
    fn initialize_request(&self) -> Value {
        let params = json!({ "protocolVersion": self.version.as_str(), "capabilities": self.capabilities,
            "clientInfo": self.info });
        json!({ "jsonrpc": "2.0", "id": HANDSHAKE, "method": "initialize", "params": params })
    }

    /// A message in the envelope of 2026-07-28; unchanged if it has one.
    fn enveloped(&self, message: &Value) -> Value {
        let mut message = message.clone();
        let is_modern = self.version.era() == Era::Modern;
        if is_modern && message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].is_null() {
            let meta = &mut message["params"]["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = self.version.as_str().into();
            meta["io.modelcontextprotocol/clientInfo"] = self.info.clone();
            meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        }
        message
    }
}

// === impl PlayerConnection ===

impl PlayerConnection {
    /// A client that has sent nothing yet.
    pub(crate) fn new(card: Card) -> Self {
        let (sender, inbox) = unbounded_channel();
        let address = format!("{}/mcp{}", card.door.url, card.door.path);
        Self {
            card,
            address,
            channel: None,
            session: None,
            sender,
            inbox,
            seen: HashSet::new(),
            last_event: None,
            has_resumed: false,
            reading: JoinSet::new(),
        }
    }

    /// Opens everything that its binding needs, and a session if its version has them; returns the answer to the
    /// handshake.
    pub(crate) async fn open(card: Card) -> Result<(Self, Option<Arrived>), String> {
        let mut connection = Self::new(card);
        match connection.card.binding {
            Binding::Streamable => {}
            Binding::Sse => connection.open_events().await?,
            Binding::WebSocket | Binding::Stdio => {
                connection.channel = Some(Channel::open(&connection.card, connection.sender.clone()).await);
            }
        }
        if connection.is_stateless() {
            return Ok((connection, None));
        }
        connection.post(&connection.card.initialize_request()).await?;
        let greeting = connection.arrival().await?;
        if greeting.message.get("result").is_none() {
            return Err(format!("the handshake failed: {}", greeting.message));
        }
        connection.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
        Ok((connection, Some(greeting)))
    }

    /// Opens the connection that is the session (2024-11-05, HTTP+SSE).
    async fn open_events(&mut self) -> Result<(), String> {
        let mut tap = Tap::of(self.get(&format!("/sse{}", self.card.door.path)).await);
        let endpoint = loop {
            match tap.next().await {
                Some(event) if event.name.as_deref() == Some("endpoint") => break event,
                Some(_) => {}
                None => return Err("no endpoint event came".to_owned()),
            }
        };
        self.address = format!("{}{}", self.card.door.url, endpoint.data.unwrap_or_default());
        self.read(Origin::Standalone, tap);
        Ok(())
    }

    /// True for a version without sessions.
    pub(crate) fn is_stateless(&self) -> bool {
        self.card.version.era() == Era::Modern
    }

    /// True for a binding other than HTTP.
    pub(super) fn has_channel(&self) -> bool {
        self.channel.is_some()
    }

    /// True for a session over Streamable HTTP.
    fn is_streamable_session(&self) -> bool {
        self.card.binding == Binding::Streamable && !self.is_stateless()
    }

    /// Opens the standalone stream of a session over Streamable HTTP; does nothing for others, or if it is open.
    pub(crate) async fn listen(&mut self) -> Result<(), String> {
        if self.is_streamable_session() { self.open_stream(None).await } else { Ok(()) }
    }

    /// Stops reading all streams.
    pub(crate) fn leave(&mut self) {
        self.reading.abort_all();
    }

    /// Resumes the stream of the last event.
    pub(crate) async fn resume(&mut self) -> Result<(), String> {
        self.has_resumed = true;
        let last = self.last_event.clone().unwrap_or_default();
        self.open_stream(Some(last)).await
    }

    async fn open_stream(&mut self, last: Option<String>) -> Result<(), String> {
        let request = self.headed(self.card.door.http.get(&self.address));
        let request = last.into_iter().fold(request, |request, last| request.header("last-event-id", last));
        let response = successful(request.send().await.unwrap()).await?;
        self.read(Origin::Standalone, Tap::of(response));
        Ok(())
    }

    /// Ends the session; returns the status of the request that ends it, if there is one.
    pub(crate) async fn close(mut self) -> Option<StatusCode> {
        self.reading.shutdown().await;
        if let Some(channel) = self.channel.take() {
            channel.close().await;
        }
        if !self.is_streamable_session() {
            return None;
        }
        let deleted = self.headed(self.card.door.http.delete(&self.address)).send().await.unwrap();
        Some(deleted.status())
    }

    /// Stops the client's own gateway.
    pub(crate) fn stop_gateway(&self) {
        self.channel.as_ref().unwrap().stop_gateway();
    }

    /// Sends a message; if it is not a request, returns once it was accepted.
    pub(crate) async fn send(&mut self, message: &Value) -> Result<(), String> {
        let opens = message["method"] == "initialize";
        if opens || message.get("id").is_none() || message.get("method").is_none() {
            return self.post(message).await;
        }
        self.start(message);
        Ok(())
    }

    /// Sends a message, and waits until its response begins.
    pub(super) async fn post(&mut self, message: &Value) -> Result<(), String> {
        let message = self.card.enveloped(message);
        if let Some(channel) = &self.channel {
            channel.send(&message);
            return Ok(());
        }
        let response = successful(self.exchange(&message).await).await?;
        if let Some(id) = response.headers().get("mcp-session-id") {
            self.session = Some(id.to_str().unwrap().to_owned());
        }
        if response.status() != StatusCode::ACCEPTED {
            self.read(Origin::Post(ids(&message)), Tap::of(response));
        }
        Ok(())
    }

    /// Sends a request, and reads its response in the background; over HTTP the handle can abort that.
    pub(super) fn start(&mut self, message: &Value) -> Option<AbortHandle> {
        let message = self.card.enveloped(message);
        if let Some(channel) = &self.channel {
            channel.send(&message);
            return None;
        }
        let request = self.mirrored(self.card.door.http.post(&self.address), &message);
        let (on, sender, is_stateless) = (Origin::Post(ids(&message)), self.sender.clone(), self.is_stateless());
        Some(self.reading.spawn(async move {
            let response = request.send().await.unwrap();
            let status = response.status();
            let is_json = response.headers().get("content-type").is_some_and(|kind| kind == "application/json");
            if is_stateless && response.headers().contains_key("mcp-session-id") {
                let _ = sender.send(Err(format!("a session id: {:?}", response.headers())));
            } else if status == StatusCode::ACCEPTED {
                // the answer comes on another stream
            } else if status.is_success() || is_json {
                deliver(Tap::of(response), on, &sender, is_stateless).await;
            } else {
                let _ = sender.send(Err(format!("{status}: {}", response.text().await.unwrap())));
            }
        }))
    }

    /// Sends a message on the channel, without an envelope.
    pub(super) fn say_on_channel(&self, message: &Value) {
        self.channel.as_ref().unwrap().send(message);
    }

    /// Posts a message unchanged, and returns the response.
    pub(crate) async fn exchange(&self, message: &Value) -> Response {
        self.mirrored(self.card.door.http.post(&self.address), message).send().await.unwrap()
    }

    /// Requests a path, in the session if there is one.
    pub(crate) async fn get(&self, path: &str) -> Response {
        self.headed(self.card.door.http.get(format!("{}{path}", self.card.door.url))).send().await.unwrap()
    }

    /// Sends a request with only these headers.
    pub(crate) async fn bare(
        &self,
        (verb, path): (&str, &str),
        body: &Value,
        headers: &[(String, String)],
    ) -> Response {
        let Door { http, url, key, .. } = &self.card.door;
        let request = accepting(http.request(verb.parse().unwrap(), format!("{url}{path}")).bearer_auth(key));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
        if body.is_null() {
            return request.send().await.unwrap();
        }
        request.header("content-type", "application/json").body(body.to_string()).send().await.unwrap()
    }

    fn read(&mut self, on: Origin, tap: Tap) {
        let (sender, is_stateless) = (self.sender.clone(), self.is_stateless());
        self.reading.spawn(async move { deliver(tap, on, &sender, is_stateless).await });
    }

    /// The next message on any stream.
    pub(super) async fn arrival(&mut self) -> Arrival {
        let next = timeout(SOON, self.inbox.recv()).await;
        self.checked(next.ok().flatten().unwrap_or_else(|| Err("the client gets nothing".to_owned()))?)
    }

    /// A message that has arrived, if any.
    pub(super) fn arrived_already(&mut self) -> Option<Arrival> {
        let arrival = self.inbox.try_recv().ok()?;
        Some(arrival.and_then(|arrived| self.checked(arrived)))
    }

    fn checked(&mut self, arrived: Arrived) -> Arrival {
        let Arrived { on, event, message, .. } = &arrived;
        if let Some(event) = event {
            if !self.is_streamable_session() {
                return Err(format!("events have no ids there: {event} with {message}"));
            }
            if !self.seen.insert(event.clone()) {
                return Err(format!("{event} came twice: {message}"));
            }
            self.last_event = Some(event.clone());
        }
        let id = message.get("id").filter(|id| !id.is_null() && message.get("method").is_none());
        let has_streams = self.card.binding == Binding::Streamable && !self.has_resumed;
        if let Some(id) = id.filter(|_| has_streams)
            && !matches!(on, Origin::Post(ids) if ids.contains(id))
        {
            return Err(format!("on {on:?} came {message}"));
        }
        Ok(arrived)
    }

    /// The next message on any stream, without parts that depend on the machine.
    pub(crate) async fn next(&mut self) -> Result<Value, String> {
        loop {
            let message = self.arrival().await.and_then(Arrived::into_message)?;
            if !depends_on_speed(&message["params"]) {
                return Ok(message);
            }
        }
    }

    /// A message that has arrived, if any.
    pub(crate) fn came_already(&mut self) -> Option<Result<Value, String>> {
        Some(self.arrived_already()?.and_then(Arrived::into_message))
    }

    /// The answer to a request, and the messages before it.
    pub(crate) async fn answer(&mut self, id: &Value) -> Result<(Vec<Value>, Value), String> {
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

// === impl Arrived ===

impl Arrived {
    /// The message, unless its status is a refusal.
    pub(crate) fn into_message(self) -> Result<Value, String> {
        match self.status {
            Some(status) if !status.is_success() => Err(format!("{status}: {}", self.message)),
            _ => Ok(self.message),
        }
    }
}

/// The response, or the reason for its absence.
async fn successful(response: Response) -> Result<Response, String> {
    let status = response.status();
    if status.is_success() { Ok(response) } else { Err(format!("{status}: {}", response.text().await.unwrap())) }
}

/// Reads a stream to its end. In 2026-07-28 it carries only single messages.
async fn deliver(mut tap: Tap, on: Origin, sender: &UnboundedSender<Arrival>, is_stateless: bool) {
    let status = tap.is_whole().then(|| tap.status());
    while let Some(event) = tap.next().await {
        if is_stateless && (event.retry.is_some() || event.name.as_ref().is_some_and(|name| name != "message")) {
            let _ = sender.send(Err(format!("no event of such a kind: {event:?}")));
        }
        let Event { id, data, .. } = event;
        let Some(data) = data.filter(|data| is_stateless || !data.is_empty()) else { continue };
        let messages = match serde_json::from_str(&data).unwrap() {
            Value::Array(messages) if !is_stateless => messages,
            message => vec![message],
        };
        for message in messages {
            let _ = sender.send(Ok(Arrived { on: on.clone(), event: id.clone(), message, status }));
        }
    }
}

/// Id and method of each request in a message or a batch.
pub(super) fn requests(message: &Value) -> impl Iterator<Item = (&Value, &str)> {
    let all = message.as_array().map_or(std::slice::from_ref(message), Vec::as_slice);
    all.iter().filter_map(|one| Some((one.get("id")?, one.get("method")?.as_str()?)))
}

fn ids(message: &Value) -> Vec<Value> {
    requests(message).map(|(id, _)| id.clone()).collect()
}
