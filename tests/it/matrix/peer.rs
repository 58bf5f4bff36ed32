//! A strict client: it checks every message on every stream, and none may be left over. A message that a client must
//! never get ends the test: an answer on the stream of another request, a repeated event or server request, a message
//! that violates the schema of its version.

mod channel;
mod http;
mod stateless;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};

use lockkeeper::{
    config::Config,
    mcp::{Era, Revision},
};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet};

use self::{channel::Channel, stateless::Legs};
use super::Pair;
use crate::{
    kit::tap::Tap,
    support::{depends_on_speed, in_time, strict},
};

/// Time limit for an expected message.
pub(super) const SOON: Duration = Duration::from_mins(1);

/// Bindings of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binding {
    Streamable,
    Sse,
    WebSocket,
    Stdio,
}

/// Endpoint and credential of a client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Door<'a> {
    /// Shared by all clients of a test, since creating it is slow.
    pub(super) http: &'a Client,
    pub(super) url: &'a str,
    pub(super) key: &'a str,
    pub(super) backend: &'a str,
    /// The configuration with all servers, for a gateway of the client's own.
    pub(super) config: &'a Config,
}

/// One client session.
pub(super) struct Peer {
    pub(super) pair: Pair,
    /// The result of `initialize`.
    pub(super) greeting: Value,
    http: Client,
    address: String,
    key: String,
    /// The connection of a binding that is no HTTP.
    channel: Option<Channel>,
    session: Option<String>,
    inbox: (mpsc::UnboundedSender<Arrived>, mpsc::UnboundedReceiver<Arrived>),
    kept: VecDeque<(Origin, Value)>,
    reading: JoinSet<()>,
    feature: &'static str,
    last: u64,
    /// Methods of unanswered requests.
    pending: HashMap<String, String>,
    /// Ids of events and server requests so far.
    seen: HashSet<String>,
    /// The last progress under each token.
    progress: HashMap<String, f64>,
    /// State of a client without a session.
    legs: Legs,
}

/// Stream of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// The exchange of a POST with these requests.
    Post(Vec<Value>),
    /// A stream without a request.
    Standalone,
    /// The only stream of a channel.
    Channel,
}

/// A received message.
struct Arrived {
    on: Origin,
    event: Option<String>,
    message: Value,
    /// The status of a response that is no stream.
    status: Option<StatusCode>,
}

impl Peer {
    /// Opens a session with a standalone stream.
    pub(super) async fn open(door: Door<'_>, pair: Pair) -> Self {
        Self::open_as(door, pair, &capabilities(pair.client)).await
    }

    /// Opens a session with these capabilities and a standalone stream.
    pub(super) async fn open_as(door: Door<'_>, pair: Pair, capabilities: &Value) -> Self {
        let mut peer = Self::quiet(door, pair, capabilities).await;
        if peer.is_stateless() {
            let all = json!({ "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true });
            peer.listen(all).await;
        } else if pair.binding == Binding::Streamable {
            let stream = peer.resume(None).await;
            peer.read(Origin::Standalone, stream);
        }
        peer
    }

    /// Opens a session without a standalone stream, if its binding allows that.
    pub(super) async fn quiet(door: Door<'_>, pair: Pair, capabilities: &Value) -> Self {
        let mut peer = Self {
            pair,
            greeting: Value::Null,
            http: door.http.clone(),
            address: format!("{}/mcp/{}", door.url, door.backend),
            key: door.key.to_owned(),
            channel: None,
            session: None,
            inbox: mpsc::unbounded_channel(),
            kept: VecDeque::new(),
            reading: JoinSet::new(),
            feature: "open",
            last: 0,
            pending: HashMap::new(),
            seen: HashSet::new(),
            progress: HashMap::new(),
            legs: Legs::of(capabilities),
        };
        match pair.binding {
            Binding::Streamable => {}
            Binding::Sse => peer.connect(&format!("{}/sse/{}", door.url, door.backend), door.url).await,
            Binding::WebSocket | Binding::Stdio => {
                let opened = in_time(format!("{peer:?}: a channel"), peer.open_channel(door)).await;
                peer.channel = Some(opened);
            }
        }
        if peer.is_stateless() {
            peer.greeting = peer.ask("server/discover", json!({})).await["result"].take();
            return peer;
        }
        let params = json!({ "protocolVersion": pair.client.as_str(), "capabilities": capabilities,
            "clientInfo": { "name": "matrix", "version": "1" } });
        let answer = peer.ask("initialize", params).await;
        assert_eq!(answer["result"]["protocolVersion"], pair.client.as_str(), "{pair:?}: {answer}");
        peer.greeting = answer["result"].clone();
        peer.tell("notifications/initialized", Value::Null).await;
        peer
    }

    pub(super) fn begin(&mut self, feature: &'static str) {
        self.feature = feature;
    }

    /// True for a version without sessions.
    pub(super) fn is_stateless(&self) -> bool {
        self.pair.client.era() == Era::Modern
    }

    /// Ends the session.
    pub(super) async fn close(mut self) {
        self.reading.shutdown().await;
        if let Some(channel) = self.channel.take() {
            in_time(format!("{self:?}: the end of the channel"), channel.close()).await;
        }
        if self.pair.binding == Binding::Streamable && !self.is_stateless() {
            let deleted = self.request(self.http.delete(&self.address)).send();
            let ended = in_time(format!("{self:?}: the end of the session"), deleted).await.unwrap();
            assert_eq!(ended.status(), StatusCode::NO_CONTENT, "{self:?}");
        }
    }

    /// Posts a message; messages on its exchange go into the inbox.
    pub(super) async fn post(&mut self, message: &Value) {
        if self.channel.is_some() {
            return self.send_on_channel(message);
        }
        let response = self.exchange(message).await;
        assert!(response.status().is_success(), "{self:?}: {message} was answered {}", response.status());
        if response.status() != StatusCode::ACCEPTED {
            self.read(Origin::Post(requests(message).map(|(id, _)| id.clone()).collect()), Tap::of(response));
        }
    }

    fn expect_answers(&mut self, message: &Value) {
        for (id, method) in requests(message) {
            self.pending.insert(id.to_string(), method.to_owned());
        }
    }

    /// Sends a request, and returns its id.
    pub(super) async fn send(&mut self, method: &str, params: Value) -> Value {
        let id = self.next_id();
        if self.is_stateless() {
            self.send_alone(&id, method, params);
            return id;
        }
        self.progress.remove(&params["_meta"]["progressToken"].to_string());
        let mut message = json!({ "jsonrpc": "2.0", "id": id, "method": method });
        if !params.is_null() {
            message["params"] = params;
        }
        self.post(&message).await;
        id
    }

    /// An unused id.
    pub(super) fn next_id(&mut self) -> Value {
        self.last += 1;
        json!(self.last)
    }

    pub(super) async fn tell(&mut self, method: &str, params: Value) {
        let mut message = json!({ "jsonrpc": "2.0", "method": method });
        if !params.is_null() {
            message["params"] = params;
        }
        self.post(&message).await;
    }

    /// Sends a request, and returns its answer.
    pub(super) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        self.answer(&id).await
    }

    /// Starts a scripted call.
    pub(super) async fn script(&mut self, steps: Value) -> Value {
        self.send("tools/call", script(&steps)).await
    }

    /// Makes a scripted call, and returns its report.
    pub(super) async fn play(&mut self, steps: Value) -> Value {
        let call = self.script(steps).await;
        self.told(&call).await
    }

    /// The report of a scripted call.
    pub(super) async fn told(&mut self, id: &Value) -> Value {
        let answer = self.answer(id).await;
        let text = answer["result"]["content"][0]["text"].as_str();
        serde_json::from_str(text.unwrap_or_else(|| panic!("{self:?}: {answer}"))).unwrap()
    }

    pub(super) async fn answer(&mut self, id: &Value) -> Value {
        let what = format!("the answer to {id}");
        self.find(&what, |message| message.get("method").is_none() && message["id"] == *id).await.1
    }

    /// The next message with this method.
    pub(super) async fn next(&mut self, method: &str) -> Value {
        self.next_with_origin(method).await.1
    }

    /// The next message with this method, and its stream.
    pub(super) async fn next_with_origin(&mut self, method: &str) -> (Origin, Value) {
        self.find(method, |message| message["method"] == method).await
    }

    /// Answers a server request.
    pub(super) async fn reply(&mut self, question: &Value, answer: Value) {
        if self.is_stateless() {
            return self.reply_alone(question, answer);
        }
        let mut message = json!({ "jsonrpc": "2.0", "id": question["id"] });
        let key = if answer.get("code").is_some() { "error" } else { "result" };
        message[key] = answer;
        self.post(&message).await;
    }

    async fn find(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> (Origin, Value) {
        if let Some(at) = self.kept.iter().position(|(_, message)| wanted(message)) {
            return self.kept.remove(at).unwrap();
        }
        loop {
            let next = tokio::time::timeout(SOON, self.inbox.1.recv()).await;
            let Ok(Some(arrived)) = next else {
                panic!("{self:?}: {what} did not come; there is {:?}, and {:?} is open", self.kept, self.pending)
            };
            self.keep(arrived);
            if let Some(at) = self.kept.iter().position(|(_, message)| wanted(message)) {
                return self.kept.remove(at).unwrap();
            }
        }
    }

    fn keep(&mut self, arrived: Arrived) {
        if self.is_stateless() {
            let messages = self.checked_alone(arrived);
            self.kept.extend(messages.into_iter().filter(|(_, message)| !depends_on_speed(&message["params"])));
        } else {
            let (on, message) = self.checked(arrived);
            let waits = message["method"] == "notifications/progress" && self.is_a_wait(&message["params"]);
            if !waits && !depends_on_speed(&message["params"]) {
                self.kept.push_back((on, message));
            }
        }
    }

    /// True for progress that reports a wait for the client. Progress under one token must rise.
    fn is_a_wait(&mut self, told: &Value) -> bool {
        let (token, now) = (told["progressToken"].to_string(), told["progress"].as_f64().unwrap());
        let last = self.progress.insert(token, now);
        assert!(last.is_none_or(|last| last < now), "{self:?}: {last:?} and then {told}");
        let waits = told["message"].as_str().is_some_and(|text| text.starts_with("waiting for input (round "));
        assert!(!waits || self.pair.server.era() == Era::Modern, "{self:?}: {told}");
        waits
    }

    /// True if a message with this method has arrived.
    pub(super) fn has(&self, method: &str) -> bool {
        self.kept.iter().any(|(_, message)| message["method"] == method)
    }

    /// Skips notifications with this method that have arrived.
    fn pass_over(&mut self, method: &str) {
        self.take_in();
        self.kept.retain(|(_, message)| message["method"] != method);
    }

    /// Asserts that no unexpected message came, except for a change of prompts: a connection that starts to listen
    /// within a minute of a change is notified.
    pub(super) fn has_nothing_but_changes(&mut self) {
        self.pass_over("notifications/prompts/list_changed");
        self.nothing_is_left();
    }

    fn take_in(&mut self) {
        while let Ok(arrived) = self.inbox.1.try_recv() {
            self.keep(arrived);
        }
    }

    /// Asserts that no unexpected message came.
    pub(super) fn nothing_is_left(&mut self) {
        self.take_in();
        assert!(self.kept.is_empty(), "{self:?} at {}: left over: {:?}", self.address, self.kept);
    }

    /// Checks a message against everything that a client must never get.
    fn checked(&mut self, arrived: Arrived) -> (Origin, Value) {
        let Arrived { on, event, message, .. } = arrived;
        if let Some(event) = event {
            assert_eq!(self.pair.binding, Binding::Streamable, "{self:?}: HTTP+SSE has no event ids: {event}");
            assert!(self.seen.insert(format!("event {event}")), "{self:?}: {event} came twice: {message}");
        }
        let (id, method) = (&message["id"], message["method"].as_str());
        match method {
            None if !id.is_null() => {
                let asked = self.pending.remove(&id.to_string());
                let asked = asked.unwrap_or_else(|| panic!("{self:?}: nobody asked for {message}"));
                if self.pair.binding == Binding::Streamable {
                    let own = matches!(&on, Origin::Post(ids) if ids.contains(id));
                    assert!(own, "{self:?}: on {on:?} came {message}");
                }
                strict::answer(self.pair.client, &asked, &message).unwrap_or_else(|fault| panic!("{self:?}: {fault}"));
            }
            Some(_) if !id.is_null() => {
                assert!(self.seen.insert(format!("question {id}")), "{self:?}: it is asked twice: {message}");
                strict::request(self.pair.client, &message).unwrap_or_else(|fault| panic!("{self:?}: {fault}"));
            }
            _ => strict::notification(self.pair.client, &message).unwrap_or_else(|fault| panic!("{self:?}: {fault}")),
        }
        (on, message)
    }
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}, {}", self.pair, self.feature)
    }
}

/// All capabilities of a client of this version.
pub(crate) fn capabilities(client: Revision) -> Value {
    if client.era() == Era::Modern {
        return json!({ "sampling": {}, "roots": {}, "elicitation": { "form": {}, "url": {} } });
    }
    // older versions do not know the capability `tasks`: there it means nothing
    let tasks = json!({ "requests": { "sampling": { "createMessage": {} } } });
    let mut capabilities = json!({ "sampling": {}, "roots": { "listChanged": true }, "tasks": tasks });
    if client >= Revision::V2025_06_18 {
        capabilities["elicitation"] = json!({});
    }
    if client == Revision::V2025_11_25 {
        capabilities["elicitation"] = json!({ "form": {}, "url": {} });
    }
    capabilities
}

/// The parameters of a scripted call.
pub(super) fn script(steps: &Value) -> Value {
    json!({ "name": "script", "arguments": { "steps": steps }, "_meta": { "progressToken": "t" } })
}

/// Id and method of each request in a message or a batch.
fn requests(message: &Value) -> impl Iterator<Item = (&Value, &str)> {
    let all = message.as_array().map_or(std::slice::from_ref(message), Vec::as_slice);
    all.iter().filter_map(|one| Some((one.get("id")?, one.get("method")?.as_str()?)))
}
