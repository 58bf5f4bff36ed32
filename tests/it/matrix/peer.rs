//! A client that hides nothing: every message that it gets is looked at, whatever stream it came on, and none may be left
//! over.

use std::{collections::VecDeque, time::Duration};

use lockkeeper::mcp::Revision;
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet};

use super::{Pair, world::World};

/// How long a message that must come may take.
const SOON: Duration = Duration::from_secs(30);

/// How a client reaches the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binding {
    Streamable,
    Sse,
}

/// One client session.
pub(super) struct Peer {
    pub(super) pair: Pair,
    http: Client,
    address: String,
    key: String,
    session: Option<String>,
    inbox: (mpsc::UnboundedSender<Value>, mpsc::UnboundedReceiver<Value>),
    kept: VecDeque<Value>,
    reading: JoinSet<()>,
    feature: &'static str,
    last: u64,
}

/// What comes on one stream: the last id, and where the messages go.
struct Stream {
    response: Response,
    messages: mpsc::UnboundedSender<Value>,
}

impl Peer {
    pub(super) async fn open(world: &World, pair: Pair) -> Self {
        let backend = format!("{}-{}", pair.transport, pair.server);
        let mut peer = Self {
            pair,
            http: Client::builder().no_proxy().build().unwrap(),
            address: format!("{}/mcp/{backend}", world.url),
            key: world.key.clone(),
            session: None,
            inbox: mpsc::unbounded_channel(),
            kept: VecDeque::new(),
            reading: JoinSet::new(),
            feature: "open",
            last: 0,
        };
        if pair.binding == Binding::Sse {
            peer.connect(&format!("{}/sse/{backend}", world.url), &world.url).await;
        }
        let mut capabilities = json!({ "sampling": {}, "roots": { "listChanged": true }, "elicitation": {} });
        if pair.client == Revision::V2025_11_25 {
            capabilities["elicitation"] = json!({ "form": {}, "url": {} });
        }
        let params = json!({ "protocolVersion": pair.client.as_str(), "capabilities": capabilities,
            "clientInfo": { "name": "matrix", "version": "1" } });
        let answer = peer.ask("initialize", params).await;
        assert_eq!(answer["result"]["protocolVersion"], pair.client.as_str(), "{pair:?}: {answer}");
        peer.tell("notifications/initialized", Value::Null).await;
        if pair.binding == Binding::Streamable {
            let stream = peer.request(peer.http.get(&peer.address)).send().await.unwrap();
            assert_eq!(stream.status(), 200);
            peer.read(stream);
        }
        peer
    }

    /// Opens the connection that is the session (2024-11-05).
    async fn connect(&mut self, address: &str, url: &str) {
        let response = self.request(self.http.get(address)).send().await.unwrap();
        let (sender, mut first) = mpsc::unbounded_channel();
        let all = self.inbox.0.clone();
        let mut stream = Stream { response, messages: sender };
        self.reading.spawn(async move { while stream.next().await {} });
        let endpoint = first.recv().await.unwrap();
        self.address = format!("{url}{}", endpoint.as_str().unwrap());
        self.reading.spawn(async move {
            while let Some(message) = first.recv().await {
                let _ = all.send(message);
            }
        });
    }

    pub(super) fn begin(&mut self, feature: &'static str) {
        self.feature = feature;
    }

    /// Posts a message; what comes back on its exchange goes into the inbox.
    pub(super) async fn post(&mut self, message: &Value) {
        let request = self.http.post(&self.address).header("content-type", "application/json");
        let response = self.request(request).body(message.to_string()).send().await.unwrap();
        assert!(response.status().is_success(), "{self:?}: {message} was answered {}", response.status());
        if let Some(id) = response.headers().get("mcp-session-id") {
            self.session = Some(id.to_str().unwrap().to_owned());
        }
        if response.status() != 202 {
            self.read(response);
        }
    }

    fn request(&self, request: RequestBuilder) -> RequestBuilder {
        let request = request.bearer_auth(&self.key).header("accept", "application/json, text/event-stream");
        match &self.session {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        }
    }

    fn read(&mut self, response: Response) {
        let mut stream = Stream { response, messages: self.inbox.0.clone() };
        self.reading.spawn(async move { while stream.next().await {} });
    }

    /// Sends a request and gives its id.
    pub(super) async fn send(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let id = json!(self.last);
        self.post(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    pub(super) async fn tell(&mut self, method: &str, params: Value) {
        let mut message = json!({ "jsonrpc": "2.0", "method": method });
        if !params.is_null() {
            message["params"] = params;
        }
        self.post(&message).await;
    }

    /// Sends a request and gives its answer.
    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        self.answer(&id).await
    }

    /// Begins a call of the script.
    pub(super) async fn script(&mut self, steps: Value) -> Value {
        let params = json!({ "name": "script", "arguments": { "steps": steps }, "_meta": { "progressToken": "t" } });
        self.send("tools/call", params).await
    }

    /// What the script told.
    pub(super) async fn told(&mut self, id: &Value) -> Value {
        let answer = self.answer(id).await;
        let text = answer["result"]["content"][0]["text"].as_str();
        serde_json::from_str(text.unwrap_or_else(|| panic!("{self:?}: {answer}"))).unwrap()
    }

    pub(super) async fn answer(&mut self, id: &Value) -> Value {
        self.find("the answer", |message| message.get("method").is_none() && message["id"] == *id).await
    }

    /// The next message of this method.
    pub(super) async fn next(&mut self, method: &str) -> Value {
        self.find(method, |message| message["method"] == method).await
    }

    /// Answers a question.
    pub(super) async fn reply(&mut self, question: &Value, answer: Value) {
        let mut message = json!({ "jsonrpc": "2.0", "id": question["id"] });
        let key = if answer.get("code").is_some() { "error" } else { "result" };
        message[key] = answer;
        self.post(&message).await;
    }

    async fn find(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.kept.iter().position(&wanted) {
            return self.kept.remove(at).unwrap();
        }
        loop {
            let next = tokio::time::timeout(SOON, self.inbox.1.recv()).await;
            let Ok(Some(message)) = next else { panic!("{self:?}: {what} did not come; there is {:?}", self.kept) };
            if wanted(&message) {
                return message;
            }
            self.kept.push_back(message);
        }
    }

    /// No message came that the feature did not ask for.
    pub(super) fn nothing_is_left(&mut self) {
        while let Ok(message) = self.inbox.1.try_recv() {
            self.kept.push_back(message);
        }
        assert!(self.kept.is_empty(), "{self:?}: left over: {:?}", self.kept);
    }
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}, {}", self.pair, self.feature)
    }
}

impl Stream {
    /// Reads everything; `false` at the end.
    async fn next(&mut self) -> bool {
        if self.response.headers().get("content-type").is_some_and(|kind| kind == "application/json") {
            let mut text = Vec::new();
            while let Ok(Some(chunk)) = self.response.chunk().await {
                text.extend_from_slice(&chunk);
            }
            match serde_json::from_slice(&text).unwrap() {
                Value::Array(messages) => messages.into_iter().for_each(|message| drop(self.messages.send(message))),
                message => drop(self.messages.send(message)),
            }
            return false;
        }
        let mut text = String::new();
        while let Ok(Some(chunk)) = self.response.chunk().await {
            text.push_str(std::str::from_utf8(&chunk).unwrap());
            while let Some((event, rest)) = text.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or_default();
                if event.starts_with("event: endpoint") {
                    let _ = self.messages.send(json!(data));
                } else if !data.is_empty() {
                    let _ = self.messages.send(serde_json::from_str(data).unwrap());
                }
                text = rest.to_owned();
            }
        }
        false
    }
}
