//! The same client in 2026-07-28: every request is self-contained, over HTTP with client and subject in its headers;
//! server requests come in results, and the next request brings their answers. A conversation sees a single call:
//! server requests look as in a session, and the end is the answer to the first request.
//!
//! On a channel each request has its own progress token, and a notification cancels it.
//!
//! Members of a result that belong to the version (type, cache hints, server name) are checked and removed.

use std::collections::{BTreeMap, HashMap, HashSet};

use lockkeeper::mcp::{Era, Level};
use reqwest::StatusCode;
use serde_json::{Map, Value, json};
use tokio::task::AbortHandle;

use super::{
    Player,
    connection::{Arrived, Origin},
};
use crate::{kit::scripted::Offers, support::strict};

const PREFIX: &str = "io.modelcontextprotocol/";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// Results with cache hints (2026-07-28, caching).
const CACHEABLE: [&str; 6] =
    ["server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"];
/// Methods whose results may have server requests (2026-07-28, MRTR).
const ASKING: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];

/// State of a client's calls between requests.
#[derive(Debug, Default)]
pub(super) struct Legs {
    /// The minimum level of log messages that its requests ask for.
    level: Option<&'static str>,
    /// The calls, by the id of their current request.
    calls: HashMap<String, StatelessExchange>,
    /// The call and the key of each server request, by its id in conversations.
    questions: HashMap<String, (Value, String)>,
    reading: HashMap<String, AbortHandle>,
    /// Request and original of each progress token on a channel.
    tokens: HashMap<String, (Value, Value)>,
    /// Requests cancelled on a channel.
    left: HashSet<String>,
    /// The last cache hints.
    hints: (Value, Value),
}

/// A call, in its current request.
#[derive(Debug, Clone)]
struct StatelessExchange {
    /// The id of its first request, used in conversations.
    first: Value,
    method: String,
    params: Value,
    open: Vec<String>,
    answers: Map<String, Value>,
    state: Option<Value>,
    progress: Option<f64>,
    /// The acknowledged filter of a listen.
    granted: Option<Value>,
}

impl StatelessExchange {
    fn wants_progress(&self) -> bool {
        self.params["_meta"].get("progressToken").is_some()
    }
}

impl Player {
    /// Asks for log messages of this level in all further requests. In a session without a level the server decides; a
    /// 2026-07-28 server needs a level.
    pub(crate) async fn wants_logs(&mut self, level: &'static str) {
        self.legs.level = Some(level);
        if !self.is_stateless() && self.pair.server.era() == Era::Modern {
            assert_eq!(self.ask("logging/setLevel", json!({ "level": level })).await["result"], json!({}), "{self:?}");
        }
    }

    /// Asks for no log messages in all further requests.
    pub(crate) fn wants_no_logs(&mut self) {
        self.legs.level = None;
    }

    /// The last cache hints.
    pub(crate) fn hints(&self) -> (Value, Value) {
        self.legs.hints.clone()
    }

    /// The parameters of the request that would continue a call with an answer about roots.
    pub(crate) fn params_to_go_on(&self, call: &Value, question: &Value) -> Value {
        let leg = &self.legs.calls[&self.wire(call).to_string()];
        let (_, key) = &self.legs.questions[&question["id"].to_string()];
        let mut params = leg.params.clone();
        params["inputResponses"] = json!({ key: { "roots": [] } });
        if let Some(state) = &leg.state {
            params["requestState"] = state.clone();
        }
        params
    }

    /// Opens a listen with this filter, all of which must be acknowledged.
    pub(crate) async fn listen(&mut self, filter: Value) -> Value {
        let (id, granted) = self.listen_for(filter.clone()).await;
        assert_eq!(granted, filter, "{self:?}");
        id
    }

    /// Opens a listen with this filter; returns its id and the acknowledged filter.
    pub(crate) async fn listen_for(&mut self, filter: Value) -> (Value, Value) {
        let id = self.send("subscriptions/listen", json!({ "notifications": filter })).await;
        let granted = self.next("notifications/subscriptions/acknowledged").await["params"]["notifications"].take();
        (id, granted)
    }

    /// Cancels a call and stops reading it.
    pub(crate) fn leave(&mut self, call: &Value) {
        let wire = self.wire(call);
        self.legs.calls.remove(&wire.to_string());
        let runs = self.pending.remove(&wire.to_string()).is_some();
        if !self.connection.has_channel() {
            self.legs.reading.remove(&wire.to_string()).unwrap().abort();
        } else if runs {
            let cancelled =
                json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": wire } });
            self.connection.say_on_channel(&cancelled);
            self.legs.left.insert(wire.to_string());
        }
    }

    /// Continues a call despite unanswered server requests, with parameters modified by `change`.
    pub(crate) fn go_on(&mut self, call: &Value, change: impl FnOnce(&mut Value)) {
        let wire = self.wire(call).to_string();
        let mut leg = self.legs.calls.remove(&wire).unwrap();
        let mut params = leg.params.clone();
        if self.pair.server.era() == Era::Modern {
            // the server sees a new request
            leg.progress = None;
        }
        leg.open.clear();
        let answers = std::mem::take(&mut leg.answers);
        if !answers.is_empty() {
            params["inputResponses"] = answers.into();
        }
        if let Some(state) = leg.state.take() {
            params["requestState"] = state;
        }
        change(&mut params);
        let id = self.next_id();
        self.request_alone(&id, leg, params);
    }

    /// The id of a call's current request.
    fn wire(&self, call: &Value) -> Value {
        let mut calls = self.legs.calls.iter();
        let found = calls.find(|(_, leg)| leg.first == *call).map(|(wire, _)| wire);
        serde_json::from_str(found.unwrap_or_else(|| panic!("{self:?}: {call} is over"))).unwrap()
    }

    pub(super) fn send_alone(&mut self, id: &Value, method: &str, params: Value) {
        let params = if params.is_null() { json!({}) } else { params };
        let leg = StatelessExchange {
            first: id.clone(),
            method: method.to_owned(),
            params: params.clone(),
            open: Vec::new(),
            answers: Map::new(),
            state: None,
            progress: None,
            granted: None,
        };
        self.request_alone(id, leg, params);
    }

    /// Sends one request of a call, and reads its answer in the background.
    fn request_alone(&mut self, id: &Value, leg: StatelessExchange, mut params: Value) {
        if let Some(level) = self.legs.level {
            params["_meta"][format!("{PREFIX}logLevel")] = level.into();
        }
        if self.connection.has_channel()
            && let Some(token) = params.get_mut("_meta").and_then(|meta| meta.get_mut("progressToken"))
        {
            let own = json!(format!("{token} of {id}"));
            self.legs.tokens.insert(own.to_string(), (id.clone(), std::mem::replace(token, own)));
        }
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": leg.method, "params": params });
        self.legs.calls.insert(id.to_string(), leg);
        self.expect_answers(&message);
        let reading = self.connection.start(&message);
        self.legs.reading.extend(reading.map(|reading| (id.to_string(), reading)));
    }

    /// Answers one server request; the call continues once all are answered.
    pub(super) fn reply_alone(&mut self, question: &Value, answer: Value) {
        assert!(answer.get("code").is_none(), "{self:?}: this version has no such answer: {answer}");
        let id = question["id"].to_string();
        let (call, key) = self.legs.questions.remove(&id).unwrap_or_else(|| panic!("{self:?}: {question}"));
        let wire = self.wire(&call).to_string();
        let leg = self.legs.calls.get_mut(&wire).unwrap();
        leg.open.retain(|open| *open != key);
        leg.answers.insert(key, answer);
        if leg.open.is_empty() {
            self.go_on(&call, |_| ());
        }
    }

    /// Checks a message against everything that a client must never receive; returns the part for a conversation.
    pub(super) fn checked_alone(&mut self, arrived: Arrived) -> Vec<(Origin, Value)> {
        let Arrived { on, mut message, status, .. } = arrived;
        let wire = match &on {
            Origin::Post(ids) => ids[0].clone(),
            Origin::Channel => self.request_on_channel(&mut message),
            Origin::Standalone => panic!("{self:?}: a stream without a request"),
        };
        let Some(mut leg) = self.legs.calls.remove(&wire.to_string()) else {
            // sent before the call was cancelled
            return Vec::new();
        };
        if message.get("method").is_some() {
            let told = self.told_alone(&wire, &mut leg, message);
            self.legs.calls.insert(wire.to_string(), leg);
            return vec![(on, told)];
        }
        assert_eq!(message["id"], wire, "{self:?}: on the answer to {wire} came {message}");
        self.pending.remove(&wire.to_string());
        if let Some(status) = status {
            assert_eq!(status, status_of(&message), "{self:?}: {message}");
        }
        if message["result"]["resultType"] == "input_required" {
            return self.asked_alone(&wire, leg, &message);
        }
        strict::answer(self.pair.client, &leg.method, &message).unwrap_or_else(|fault| panic!("{self:?}: {fault}"));
        message["id"] = leg.first.clone();
        if message.get("result").is_some() {
            self.consume(&wire, &leg, &mut message["result"]);
        }
        vec![(on, message)]
    }

    /// A notification. On a listen: only acknowledged ones, after the acknowledgement and with its tag. Otherwise: only
    /// notifications of the request.
    fn told_alone(&self, wire: &Value, leg: &mut StatelessExchange, mut message: Value) -> Value {
        let method = message["method"].as_str().unwrap().to_owned();
        assert!(message.get("id").is_none(), "{self:?}: a server asks in results alone: {message}");
        strict::notification(self.pair.client, &message).unwrap_or_else(|fault| panic!("{self:?}: {fault}"));
        let tag = message["params"]["_meta"].get(SUBSCRIPTION).cloned();
        if leg.method != "subscriptions/listen" {
            assert_eq!(tag, None, "{self:?}: {message}");
            match method.as_str() {
                "notifications/progress" => {
                    assert!(leg.wants_progress(), "{self:?}: {message}");
                    assert_eq!(message["params"]["progressToken"], leg.params["_meta"]["progressToken"], "{self:?}");
                    let now = message["params"]["progress"].as_f64();
                    assert!(leg.progress < now, "{self:?}: {:?} and then {message}", leg.progress);
                    leg.progress = now;
                }
                "notifications/message" => {
                    let level = Level::parse(message["params"]["level"].as_str().unwrap());
                    let wanted = Level::parse(self.legs.level.unwrap_or_else(|| panic!("{self:?}: {message}")));
                    assert!(level >= wanted, "{self:?}: {message}");
                }
                _ => panic!("{self:?}: not of this request: {message}"),
            }
            return message;
        }
        assert_eq!(tag.as_ref(), Some(wire), "{self:?}: {message}");
        let params = message["params"].as_object_mut().unwrap();
        let meta = params["_meta"].as_object_mut().unwrap();
        meta.remove(SUBSCRIPTION);
        if meta.is_empty() {
            params.remove("_meta");
        }
        if let Some(granted) = &leg.granted {
            let member = match method.strip_prefix("notifications/") {
                Some("tools/list_changed") => "toolsListChanged",
                Some("prompts/list_changed") => "promptsListChanged",
                Some("resources/list_changed") => "resourcesListChanged",
                Some("resources/updated") => "resourceSubscriptions",
                _ => panic!("{self:?}: not on a listen: {message}"),
            };
            assert!(granted.get(member).is_some(), "{self:?}: {message} with {granted}");
        } else {
            assert_eq!(method, "notifications/subscriptions/acknowledged", "{self:?}: {message}");
            leg.granted = Some(message["params"]["notifications"].clone());
        }
        message
    }

    /// A result with server requests, in the form of a session.
    fn asked_alone(&mut self, wire: &Value, mut leg: StatelessExchange, message: &Value) -> Vec<(Origin, Value)> {
        assert!(ASKING.contains(&leg.method.as_str()), "{self:?}: in {} came {message}", leg.method);
        strict::asking(self.pair.client, message).unwrap_or_else(|fault| panic!("{self:?}: {fault}"));
        let (requests, state) = (&message["result"]["inputRequests"], message["result"].get("requestState"));
        assert!(requests.is_object() || state.is_some(), "{self:?}: {message}");
        leg.state = state.cloned();
        let empty = Map::new();
        let requests: BTreeMap<&String, &Value> = requests.as_object().unwrap_or(&empty).iter().collect();
        leg.open = requests.keys().map(|key| (*key).clone()).collect();
        let first = leg.first.clone();
        self.legs.calls.insert(wire.to_string(), leg);
        if requests.is_empty() {
            self.go_on(&first, |_| ());
        }
        let asked = requests.into_iter().map(|(key, request)| {
            let id = json!(format!("{key} of {wire}"));
            self.legs.questions.insert(id.to_string(), (first.clone(), key.clone()));
            let mut question = request.clone();
            question["id"] = id;
            (Origin::Post(vec![first.clone()]), question)
        });
        asked.collect()
    }

    /// Removes the version's own members from a call's result.
    fn consume(&mut self, wire: &Value, leg: &StatelessExchange, result: &mut Value) {
        let server = self.pair.server;
        let result = result.as_object_mut().unwrap();
        let kind = result.remove("resultType");
        assert_eq!(kind, Some("complete".into()), "{self:?}: {result:?}");
        let mut meta = match result.remove("_meta") {
            Some(Value::Object(meta)) => meta,
            _ => Map::new(),
        };
        if CACHEABLE.contains(&leg.method.as_str()) {
            let hints = (result.remove("ttlMs").unwrap(), result.remove("cacheScope").unwrap());
            // a server of the other era has no cache hints
            if server.era() == Era::Legacy {
                assert_eq!(hints, (json!(0), json!("private")), "{self:?}");
            }
            self.legs.hints = hints;
        }
        if leg.method == "subscriptions/listen" {
            assert_eq!(meta.remove(SUBSCRIPTION).as_ref(), Some(wire), "{self:?}");
        } else {
            let named = meta.remove(&format!("{PREFIX}serverInfo"));
            assert_eq!(named, Some(Offers::of(server).identity()), "{self:?}: {} gave {result:?}", leg.method);
        }
        if !meta.is_empty() {
            result.insert("_meta".to_owned(), meta.into());
        }
    }

    /// The request that a message on a channel belongs to. Restores its progress token.
    fn request_on_channel(&self, message: &mut Value) -> Value {
        let tag = message["params"]["_meta"].get(SUBSCRIPTION).cloned();
        let wire = match message["method"].as_str() {
            None => message["id"].clone(),
            Some("notifications/progress") => {
                let token = &mut message["params"]["progressToken"];
                let known = self.legs.tokens.get(&token.to_string());
                let (wire, original) = known.unwrap_or_else(|| panic!("{self:?}: nobody chose {token}")).clone();
                *token = original;
                wire
            }
            // nothing shows which request it belongs to
            Some("notifications/message") => self.newest_call(),
            Some(_) => tag.unwrap_or_else(|| panic!("{self:?}: {message} belongs to no request")),
        };
        let key = wire.to_string();
        let known = self.pending.contains_key(&key) || self.legs.left.contains(&key);
        assert!(known, "{self:?}: nobody asked for {message}");
        wire
    }

    /// The newest running request other than a listen.
    fn newest_call(&self) -> Value {
        let running = self.pending.iter().filter(|(_, method)| *method != "subscriptions/listen");
        let newest = running.filter_map(|(id, _)| id.parse::<u64>().ok()).max();
        json!(newest.unwrap_or_else(|| panic!("{self:?}: a log message outside of calls")))
    }
}

/// The status of a response that is not a stream (`translation` 2.2).
fn status_of(message: &Value) -> StatusCode {
    match message["error"]["code"].as_i64() {
        Some(-32601) => StatusCode::NOT_FOUND,
        Some(-32022..=-32020) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}
