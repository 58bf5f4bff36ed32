//! Automatic answers of a scripted server: its handshake, its lists, and the answer in a vector.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::{Value, json, value::RawValue};

use super::{conversation::Conversation, implied_messages, vector::Vector};
use crate::kit::prescribed::{Came, Keeping, Said};

/// The version without a handshake.
pub(super) const MODERN: &str = "2026-07-28";

/// Automatic answers of one server.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    version: String,
    /// The answer to `initialize`.
    greeting: Value,
    /// The answer to an offer of one version only.
    odd: Option<(String, Value)>,
    /// The `result` or `error` for each method, verbatim. Other methods are left to the test.
    answers: HashMap<String, String>,
    /// The status of these answers.
    status: u16,
    /// The list with a further page, and its cursor.
    page: Option<(String, Value)>,
    /// The answer to a probe of the era.
    probe: Option<Probe>,
    /// True if it assigns a session id over HTTP.
    has_session_id: bool,
}

/// A special answer to a probe of the era.
#[derive(Debug, Clone)]
struct Probe {
    /// Status and answer; without one the connection ends.
    answer: Option<(u16, String)>,
    /// True if it answers this way only once.
    once: bool,
    asked: Arc<AtomicBool>,
    /// True if it got `initialize`.
    greeted: Arc<AtomicBool>,
}

impl Plan {
    /// The server of a vector.
    pub(super) fn of(vector: &Vector) -> Self {
        let mut plan = Self::plain(version(vector));
        plan.has_session_id = vector.has_session_id();
        if version(vector) == MODERN && format!("{}{}", vector.given.get(), vector.expect).contains("task") {
            plan.greeting["capabilities"]["extensions"] = json!({ "io.modelcontextprotocol/tasks": {} });
        }
        let (given, message) = (vector.given(), vector.message());
        if vector.direction == "client>gateway" {
            plan.greeting["capabilities"] = vector.ctx.get("endpoint_caps").cloned().unwrap_or_else(|| json!({}));
            plan.take(&vector.expect["result"], &["serverInfo"]);
        }
        if let Some(capabilities) = vector.ctx.get("backend_caps") {
            plan.greeting["capabilities"] = capabilities.clone();
        }
        match (vector.answered(), answer(&message)) {
            _ if vector.conversation() == Some(Conversation::Probe) => {
                plan.probe = Some(Probe::of(&given, plan.is_modern()));
            }
            (Some("initialize"), Some(answer)) if vector.direction == "backend>gateway" => {
                plan.odd =
                    Some((vector.ctx["offered"].as_str().unwrap_or_default().to_owned(), answer["result"].clone()));
                plan.greeting["protocolVersion"] = vector.to.clone().into();
            }
            (Some("initialize"), Some(answer)) => plan.greeting = answer["result"].clone(),
            (method, Some(_))
                if vector.conversation() == Some(Conversation::ToClient) && message.get("id").is_some() =>
            {
                plan.learn(method.unwrap_or(implied_messages::METHOD), vector.given.get());
                plan.status = given["http"]["status"].as_u64().and_then(|status| status.try_into().ok()).unwrap_or(200);
            }
            _ => {}
        }
        if vector.conversation() != Some(Conversation::Steps) {
            for step in vector.steps("backend", "in") {
                plan.learn(step["method"].as_str().unwrap_or_default(), &step["msg"].to_string());
            }
        }
        if vector.ctx["advertised_output_schema_wrapped"] == true {
            plan.offer("outputSchema", &json!({ "anyOf": [{ "type": "object" }] }));
        }
        if let (Some(method), Some(cursor)) = (message["method"].as_str(), message["params"].get("cursor")) {
            // the client has it from the server
            plan.page = Some((method.to_owned(), cursor.clone()));
        }
        let listens = vector.ctx["listens"].as_object().into_iter().flatten();
        let about_tasks = listens.filter(|(_, filter)| filter["taskIds"].is_array()).count() > 0;
        let needs_tasks = about_tasks || vector.conversation() == Some(Conversation::Inputs);
        let support = vector.ctx.get("taskSupport").cloned().or_else(|| needs_tasks.then(|| json!("required")));
        if let Some(support) = support {
            plan.offer("execution", &json!({ "taskSupport": support }));
        }
        if vector.expected().is_some_and(|expected| expected["method"] == "subscriptions/listen") {
            // a server without changes of lists gets a listen only for these
            plan.greeting["capabilities"] = json!({ "resources": { "subscribe": true } });
        }
        plan
    }

    /// A server of this version with this answer to `method`.
    pub(super) fn answering(version: &str, method: &str, message: &Value) -> Self {
        let mut plan = Self::plain(version);
        plan.learn(method, &message.to_string());
        plan
    }

    fn plain(version: &str) -> Self {
        let mut capabilities = json!({ "tools": { "listChanged": true }, "prompts": { "listChanged": true },
            "resources": { "subscribe": true, "listChanged": true }, "logging": {} });
        if version >= "2025-03-26" {
            capabilities["completions"] = json!({});
        }
        if version == "2025-11-25" {
            capabilities["tasks"] = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
        }
        let greeting = json!({ "protocolVersion": version, "capabilities": capabilities,
            "serverInfo": { "name": "srv", "version": "3" } });
        let answers = [
            ("ping", json!({ "result": {} })),
            ("logging/setLevel", json!({ "result": {} })),
            ("resources/subscribe", json!({ "result": {} })),
            ("resources/unsubscribe", json!({ "result": {} })),
            ("tools/list", tools(None)),
            ("prompts/list", json!({ "result": { "prompts": [{ "name": "p" }] } })),
            ("resources/list", json!({ "result": { "resources": [{ "uri": "x:r", "name": "r" }] } })),
            ("resources/templates/list", json!({ "result": { "resourceTemplates": [] } })),
        ];
        let answers = answers.map(|(method, mut answer)| {
            if version == MODERN {
                answer["result"]["resultType"] = "complete".into();
            }
            if version == MODERN && method.ends_with("/list") {
                answer["result"]["ttlMs"] = 0.into();
                answer["result"]["cacheScope"] = "private".into();
            }
            (method.to_owned(), answer.to_string())
        });
        Self {
            version: version.to_owned(),
            greeting,
            odd: None,
            answers: answers.into(),
            status: 200,
            page: None,
            probe: None,
            has_session_id: true,
        }
    }

    /// Answers `method` like this response from now on.
    fn learn(&mut self, method: &str, message: &str) {
        self.answers.extend(written(message).map(|answer| (method.to_owned(), answer)));
    }

    /// Adds this member to the tool.
    fn offer(&mut self, name: &str, value: &Value) {
        self.answers.insert("tools/list".to_owned(), tools(Some((name, value))).to_string());
    }

    fn take(&mut self, from: &Value, members: &[&str]) {
        for member in members {
            if let Some(value) = from.get(member) {
                self.greeting[member] = value.clone();
            }
        }
    }

    /// True for a server of the version without a handshake.
    pub(super) fn is_modern(&self) -> bool {
        self.version == MODERN
    }

    /// How the server and its clients keep together; `is_channel` for one that is not over HTTP.
    pub(super) fn keeping(&self, is_channel: bool) -> Keeping {
        match (self.is_modern(), is_channel || self.has_session_id) {
            (true, _) => Keeping::Listens,
            (false, true) => Keeping::Sessions,
            (false, false) => Keeping::Nothing,
        }
    }

    /// The answer to a message.
    pub(super) fn respond(&self, message: &Value) -> Said {
        let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else { return Said::Nothing };
        let answer = match method {
            _ if asks_for_probe(message) => {
                let refusal = json!({ "error": { "code": -32601, "message": "Method not found" } });
                return Said::Answer(200, enveloped(id, &refusal.to_string()));
            }
            // on a channel, a server is probed after a handshake without an answer
            "initialize" if self.probe.as_ref().is_some_and(Probe::ends_before_it) => return Said::Ends,
            "initialize" if self.is_modern() => {
                let data = json!({ "supported": [MODERN], "requested": message["params"]["protocolVersion"] });
                json!({ "error": { "code": -32022, "message": "Unsupported protocol version", "data": data } })
            }
            "initialize" => match &self.odd {
                Some((offered, greeting)) if message["params"]["protocolVersion"] == *offered => {
                    json!({ "result": greeting })
                }
                _ => json!({ "result": self.greeting }),
            },
            "server/discover" if let Some(said) = self.probe.as_ref().and_then(|probe| probe.respond(id)) => {
                return said;
            }
            "server/discover" if self.is_modern() => json!({ "result": { "resultType": "complete",
                "supportedVersions": [MODERN], "capabilities": self.greeting["capabilities"], "ttlMs": 0,
                "cacheScope": "private",
                "_meta": { "io.modelcontextprotocol/serverInfo": self.greeting["serverInfo"] } } }),
            "server/discover" => json!({ "error": { "code": -32601, "message": "Method not found" } }),
            "subscriptions/listen" if self.is_modern() => {
                let params = json!({ "notifications": message["params"]["notifications"],
                    "_meta": { "io.modelcontextprotocol/subscriptionId": id } });
                let method = "notifications/subscriptions/acknowledged";
                return Said::Opens(json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
            }
            method
                if let Some((of, cursor)) = &self.page
                    && of == method
                    && message["params"].get("cursor").is_none()
                    && let Some(answer) = self.answers.get(method) =>
            {
                let mut answer: Value = serde_json::from_str(answer).unwrap();
                answer["result"]["nextCursor"] = cursor.clone();
                answer
            }
            method => match self.answers.get(method) {
                Some(answer) => return Said::Answer(self.status, enveloped(id, answer)),
                None => return Said::Nothing,
            },
        };
        Said::Answer(status(&answer), enveloped(id, &answer.to_string()))
    }
}

/// True for a message by which the gateway probes servers whose version has no word for what they can.
pub(super) fn is_probe(came: &Came) -> bool {
    matches!(came, Came::Message(heard) if asks_for_probe(&heard.message))
}

fn asks_for_probe(message: &Value) -> bool {
    message["params"]["ref"]["name"] == "lockkeeper-probe"
}

/// The status of an automatic response.
fn status(answer: &Value) -> u16 {
    match answer["error"]["code"].as_i64() {
        Some(-32022..=-32020) => 400,
        Some(-32601) => 404,
        _ => 200,
    }
}

/// The version of a vector's server.
pub(super) fn version(vector: &Vector) -> &str {
    let sender = vector.direction.starts_with("backend") && vector.conversation() != Some(Conversation::Probe);
    let version = if sender { &vector.from } else { &vector.to };
    let waits = vector.conversation() == Some(Conversation::Suspension) || vector.expect["state"] == "era=legacy";
    // only a server with a handshake is meant
    if waits && version == MODERN { "2025-11-25" } else { version }
}

/// The list of the only tool, with a further member.
fn tools(member: Option<(&str, &Value)>) -> Value {
    let mut tool = json!({ "name": "t", "inputSchema": { "type": "object" } });
    if let Some((name, value)) = member {
        tool[name] = value.clone();
    }
    json!({ "result": { "tools": [tool] } })
}

// === impl Probe ===

impl Probe {
    fn of(given: &Value, once: bool) -> Self {
        let message = given.get("body").unwrap_or(given);
        let status = given["http"]["status"].as_u64().and_then(|status| status.try_into().ok());
        let answer = answer(message).map(|answer| (status.unwrap_or(200), answer.to_string()));
        Self { answer, once, asked: Arc::default(), greeted: Arc::default() }
    }

    /// True for a first `initialize` before the probe, to a server that ends instead of an answer to the probe.
    fn ends_before_it(&self) -> bool {
        self.answer.is_none() && !self.asked.load(Ordering::Relaxed) && !self.greeted.swap(true, Ordering::Relaxed)
    }

    /// The answer, unless it was given before.
    fn respond(&self, id: &Value) -> Option<Said> {
        if self.asked.swap(true, Ordering::Relaxed) && self.once {
            return None;
        }
        Some(self.answer.as_ref().map_or(Said::Ends, |(status, answer)| Said::Answer(*status, enveloped(id, answer))))
    }
}

/// The response to the request `id` with this content.
fn enveloped(id: &Value, answer: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},{}"#, &answer[1..])
}

/// The content of a response without its id, verbatim: some rules keep the order of members.
fn written(message: &str) -> Option<String> {
    let members: HashMap<String, Box<RawValue>> = serde_json::from_str(message).ok()?;
    if let Some(body) = members.get("body") {
        return written(body.get());
    }
    ["result", "error"].into_iter().find_map(|name| Some(format!(r#"{{"{name}":{}}}"#, members.get(name)?)))
}

/// The content of a response without its id.
fn answer(message: &Value) -> Option<Value> {
    ["result", "error"].into_iter().find_map(|name| Some(json!({ name: message.get(name)? })))
}
