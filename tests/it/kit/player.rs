//! The player of a client, in any version over any binding. Its [`connection`] sends given messages. A [`Player`] holds
//! a conversation on one and is strict: it checks every message on every stream, and none may be left over. A message
//! that a client must never receive ends the test: a broken promise of the binding, an answer without a request, a
//! repeated server request, a message that violates the schema of its version.

mod channel;
mod connection;
mod headers;
mod stateless;

use std::collections::{HashMap, HashSet, VecDeque};

use lockkeeper::mcp::{Era, Revision};
use reqwest::StatusCode;
use serde_json::{Value, json};

use self::{connection::HANDSHAKE, stateless::Legs};
use crate::support::{depends_on_speed, in_time, strict};

pub(crate) use self::connection::{Arrived, Binding, Card, Door, Origin, PlayerConnection, SOON};

/// One pair of versions and bindings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) binding: Binding,
    pub(crate) client: Revision,
    pub(crate) transport: &'static str,
    pub(crate) server: Revision,
}

/// One client session with a scripted server.
pub(crate) struct Player {
    pub(crate) pair: Pair,
    /// The result of `initialize`.
    pub(crate) greeting: Value,
    connection: PlayerConnection,
    kept: VecDeque<(Origin, Value)>,
    feature: &'static str,
    last: u64,
    /// Methods of unanswered requests.
    pending: HashMap<String, String>,
    /// Ids of server requests so far.
    seen: HashSet<String>,
    /// The last progress under each token.
    progress: HashMap<String, f64>,
    /// State of a client without a session.
    legs: Legs,
}

impl Player {
    /// Opens a session with a standalone stream.
    pub(crate) async fn open(door: Door, pair: Pair) -> Self {
        Self::open_as(door, pair, capabilities(pair.client)).await
    }

    /// Opens a session with these capabilities and a standalone stream.
    pub(crate) async fn open_as(door: Door, pair: Pair, capabilities: Value) -> Self {
        let mut player = Self::quiet(door, pair, capabilities).await;
        if player.is_stateless() {
            let all = json!({ "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true });
            player.listen(all).await;
        } else {
            let opened = in_time(format!("{player:?}: a standalone stream"), player.connection.listen()).await;
            opened.unwrap_or_else(|fault| panic!("{player:?}: {fault}"));
        }
        player
    }

    /// Opens a session without a standalone stream, if its binding allows it.
    async fn quiet(door: Door, pair: Pair, capabilities: Value) -> Self {
        let info = json!({ "name": "matrix", "version": "1" });
        let card = Card { door, binding: pair.binding, version: pair.client, info, capabilities };
        let opened = in_time(format!("{pair:?}: the handshake"), PlayerConnection::open(card)).await;
        let (connection, greeting) = opened.unwrap_or_else(|fault| panic!("{pair:?}: {fault}"));
        let mut player = Self {
            pair,
            greeting: Value::Null,
            connection,
            kept: VecDeque::new(),
            feature: "open",
            last: 0,
            pending: HashMap::new(),
            seen: HashSet::new(),
            progress: HashMap::new(),
            legs: Legs::default(),
        };
        let mut answer = match greeting {
            None => player.ask("server/discover", json!({})).await,
            Some(greeting) => {
                player.pending.insert(json!(HANDSHAKE).to_string(), "initialize".to_owned());
                player.keep(greeting);
                let answer = player.answer(&json!(HANDSHAKE)).await;
                assert_eq!(answer["result"]["protocolVersion"], pair.client.as_str(), "{pair:?}: {answer}");
                answer
            }
        };
        player.greeting = answer["result"].take();
        player
    }

    pub(crate) fn begin(&mut self, feature: &'static str) {
        self.feature = feature;
    }

    /// True for a version without sessions.
    pub(crate) fn is_stateless(&self) -> bool {
        self.pair.client.era() == Era::Modern
    }

    pub(crate) async fn close(self) {
        let what = format!("{self:?}: the end of the session");
        let ended = in_time(&what, self.connection.close()).await;
        assert!(ended.is_none_or(|status| status == StatusCode::NO_CONTENT), "{what}: {ended:?}");
    }

    /// Posts a message; messages on its exchange go to the inbox.
    pub(crate) async fn post(&mut self, message: &Value) {
        self.expect_answers(message);
        let what = format!("{self:?}: the response to {message}");
        let accepted = in_time(&what, self.connection.post(message)).await;
        accepted.unwrap_or_else(|refused| panic!("{what}: {refused}"));
    }

    fn expect_answers(&mut self, message: &Value) {
        for (id, method) in connection::requests(message) {
            self.pending.insert(id.to_string(), method.to_owned());
        }
    }

    /// Sends a request, and returns its id.
    pub(crate) async fn send(&mut self, method: &str, params: Value) -> Value {
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

    pub(crate) fn next_id(&mut self) -> Value {
        self.last += 1;
        json!(self.last)
    }

    pub(crate) async fn tell(&mut self, method: &str, params: Value) {
        let mut message = json!({ "jsonrpc": "2.0", "method": method });
        if !params.is_null() {
            message["params"] = params;
        }
        self.post(&message).await;
    }

    /// Sends a request, and returns its answer.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        self.answer(&id).await
    }

    pub(crate) async fn script(&mut self, steps: Value) -> Value {
        self.send("tools/call", script(&steps)).await
    }

    /// Makes a scripted call, and returns its report.
    pub(crate) async fn play(&mut self, steps: Value) -> Value {
        let call = self.script(steps).await;
        self.told(&call).await
    }

    /// The report of a scripted call.
    pub(crate) async fn told(&mut self, id: &Value) -> Value {
        let answer = self.answer(id).await;
        let text = answer["result"]["content"][0]["text"].as_str();
        serde_json::from_str(text.unwrap_or_else(|| panic!("{self:?}: {answer}"))).unwrap()
    }

    pub(crate) async fn answer(&mut self, id: &Value) -> Value {
        let what = format!("the answer to {id}");
        self.find(&what, |message| message.get("method").is_none() && message["id"] == *id).await.1
    }

    /// The next message with this method.
    pub(crate) async fn next(&mut self, method: &str) -> Value {
        self.next_with_origin(method).await.1
    }

    /// The next message with this method, and its stream.
    pub(crate) async fn next_with_origin(&mut self, method: &str) -> (Origin, Value) {
        self.find(method, |message| message["method"] == method).await
    }

    pub(crate) async fn reply(&mut self, question: &Value, answer: Value) {
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
            let arrived = self.connection.arrival().await.unwrap_or_else(|fault| {
                let (kept, pending) = (&self.kept, &self.pending);
                panic!("{self:?}: {what} did not come, as {fault}; there is {kept:?}, and {pending:?} is open")
            });
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

    /// True for progress that reports a wait for the client. Progress under one token must increase.
    fn is_a_wait(&mut self, told: &Value) -> bool {
        let (token, now) = (told["progressToken"].to_string(), told["progress"].as_f64().unwrap());
        let last = self.progress.insert(token, now);
        assert!(last.is_none_or(|last| last < now), "{self:?}: {last:?} and then {told}");
        let waits = told["message"].as_str().is_some_and(|text| text.starts_with("waiting for input (round "));
        assert!(!waits || self.pair.server.era() == Era::Modern, "{self:?}: {told}");
        waits
    }

    /// True if a message with this method has arrived.
    pub(crate) fn has(&self, method: &str) -> bool {
        self.kept.iter().any(|(_, message)| message["method"] == method)
    }

    /// Skips notifications with this method that have arrived.
    fn pass_over(&mut self, method: &str) {
        self.take_in();
        self.kept.retain(|(_, message)| message["method"] != method);
    }

    /// Asserts that no unexpected message came, except for a change of prompts: a connection that starts listening
    /// within a minute of a change is notified.
    pub(crate) fn has_nothing_but_changes(&mut self) {
        self.pass_over("notifications/prompts/list_changed");
        self.nothing_is_left();
    }

    fn take_in(&mut self) {
        while let Some(arrived) = self.connection.arrived_already() {
            let arrived = arrived.unwrap_or_else(|fault| panic!("{self:?}: {fault}"));
            self.keep(arrived);
        }
    }

    /// Asserts that no unexpected message came.
    pub(crate) fn nothing_is_left(&mut self) {
        self.take_in();
        assert!(self.kept.is_empty(), "{self:?} at {}: left over: {:?}", self.connection.card.door.path, self.kept);
    }

    /// Checks a message against everything that a client must never receive.
    fn checked(&mut self, arrived: Arrived) -> (Origin, Value) {
        let Arrived { on, message, .. } = arrived;
        let (id, method) = (&message["id"], message["method"].as_str());
        match method {
            None if !id.is_null() => {
                let asked = self.pending.remove(&id.to_string());
                let asked = asked.unwrap_or_else(|| panic!("{self:?}: nobody asked for {message}"));
                strict::answer(self.pair.client, &asked, &message).unwrap_or_else(|fault| panic!("{self:?}: {fault}"));
            }
            Some(_) if !id.is_null() => {
                assert!(self.seen.insert(id.to_string()), "{self:?}: it is asked twice: {message}");
                strict::request(self.pair.client, &message).unwrap_or_else(|fault| panic!("{self:?}: {fault}"));
            }
            _ => strict::notification(self.pair.client, &message).unwrap_or_else(|fault| panic!("{self:?}: {fault}")),
        }
        (on, message)
    }
}

impl std::fmt::Debug for Player {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}, {}", self.pair, self.feature)
    }
}

/// All capabilities of a client of this version.
pub(crate) fn capabilities(client: Revision) -> Value {
    if client.era() == Era::Modern {
        return json!({ "sampling": {}, "roots": {}, "elicitation": { "form": {}, "url": {} } });
    }
    // older versions do not define the capability `tasks`, so it has no effect there
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
pub(crate) fn script(steps: &Value) -> Value {
    json!({ "name": "script", "arguments": { "steps": steps }, "_meta": { "progressToken": "t" } })
}
