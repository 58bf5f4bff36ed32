//! The rounds of a 2026-07-28 call: after a missing answer, the state says where the steps continue.

use lockkeeper::support::Digest;
use serde_json::{Map, Value, json};

use super::{
    stateless::{PREFIX, Refusal},
    steps::{Call, Halt},
};

/// Characters of every width, quotes and line breaks: a transport that meddles with texts would change some.
const HEAD: &str = "\u{e9}\u{1f600}\"\\\n\t";

/// State of a call between rounds.
pub(super) struct Rounds {
    params: Value,
    level: Option<String>,
    abilities: Value,
    pub(super) insists: bool,
    pub(super) keeps_state: bool,
    /// Answers that no step has used yet.
    responses: Map<String, Value>,
    /// Server requests of steps that got no answer yet: method and parameters.
    open: Map<String, Value>,
    at: usize,
    /// True once the step at `at` has begun.
    has_begun: bool,
}

impl Rounds {
    pub(super) fn begin(params: &Value) -> Self {
        let meta = &params["_meta"];
        Self {
            params: params.clone(),
            level: meta[format!("{PREFIX}logLevel")].as_str().map(str::to_owned),
            abilities: meta[format!("{PREFIX}clientCapabilities")].clone(),
            insists: false,
            keeps_state: true,
            responses: params["inputResponses"].as_object().cloned().unwrap_or_default(),
            open: Map::new(),
            at: 0,
            has_begun: false,
        }
    }

    /// Restores the state that came with the request.
    pub(super) fn go_on(&mut self, call: &mut Call) -> Result<(), Refusal> {
        let Some(state) = self.params.get("requestState") else { return Ok(()) };
        let Some(state) = opened(state.as_str().unwrap_or_default(), &call.core.name) else {
            call.core.notes.fault(format!("no state of this server: {state}"));
            return Err(Refusal::new(200, -32602, "Invalid or expired requestState"));
        };
        if state["of"] != digest(&self.params) {
            call.core.notes.fault(format!("the state of another call: {}", self.params));
        }
        let members = |name: &str| state[name].as_object().unwrap().clone();
        self.open = members("open");
        let stray = self.responses.keys().find(|name| !self.open.contains_key(*name) && *name != "nobody");
        if let Some(stray) = stray {
            call.core.notes.fault(format!("nobody asked {stray}"));
        }
        self.at = usize::try_from(state["at"].as_u64().unwrap()).unwrap();
        call.told = members("told");
        let came = std::mem::replace(&mut self.responses, members("kept"));
        self.responses.extend(came);
        Ok(())
    }

    pub(super) fn next<'a>(&mut self, steps: &'a [Value]) -> Option<&'a Value> {
        self.at += usize::from(self.has_begun);
        self.has_begun = true;
        steps.get(self.at)
    }

    /// Makes the client repeat the request at once.
    pub(super) fn again(&mut self) -> Halt {
        self.at += 1;
        Halt::Asked
    }

    /// True if a log message of this level is wanted.
    pub(super) fn wants(&self, level: &str) -> bool {
        const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
        let rank = |level: &str| LEVELS.iter().position(|known| *known == level).unwrap();
        self.level.as_deref().is_some_and(|wanted| rank(level) >= rank(wanted))
    }

    pub(super) fn ask(&mut self, name: &str, method: &str, params: &Value) -> Result<(), Halt> {
        let needs = match method {
            "sampling/createMessage" => "sampling",
            "elicitation/create" => "elicitation",
            _ => "roots",
        };
        let mode = params["mode"].as_str().unwrap_or("form");
        let is_able = self.abilities.get(needs).is_some_and(|able| {
            let modes = able.as_object().unwrap();
            needs != "elicitation" || modes.contains_key(mode) || mode == "form" && modes.is_empty()
        });
        if !is_able && !self.insists {
            let required = if needs == "elicitation" { json!({ mode: {} }) } else { json!({}) };
            let refusal = Refusal::new(400, -32021, &format!("The client cannot be asked for {needs}"));
            return Err(Halt::Refused(refusal.with(json!({ "requiredCapabilities": { needs: required } }))));
        }
        self.open.insert(name.to_owned(), json!([method, params]));
        Ok(())
    }

    pub(super) fn answer(&mut self, name: &str) -> Result<Value, Halt> {
        let answer = self.responses.remove(name).ok_or(Halt::Asked)?;
        self.open.remove(name);
        Ok(answer)
    }

    /// True if the request came with a state.
    pub(super) fn has_state(&self) -> bool {
        self.params.get("requestState").is_some()
    }

    /// The result with server requests. Keeps the answers received, so that only the rest is requested again.
    pub(super) fn asking(self, call: &Call) -> Value {
        let asked = self.open.iter().filter(|(name, _)| !self.responses.contains_key(*name));
        let requests: Map<String, Value> =
            asked.map(|(name, one)| (name.clone(), json!({ "method": one[0], "params": one[1] }))).collect();
        let mut result = json!({ "resultType": "input_required" });
        if !requests.is_empty() {
            result["inputRequests"] = requests.into();
        }
        if self.keeps_state {
            let of = digest(&self.params);
            let state =
                json!({ "at": self.at, "told": call.told, "open": self.open, "kept": self.responses, "of": of });
            result["requestState"] = sealed(&state, &call.core.name).into();
        }
        result
    }
}

fn digest(params: &Value) -> String {
    let of = json!([params["name"], params["arguments"], params["uri"]]);
    format!("{:?}", Digest::sha256(of.to_string()).as_bytes())
}

fn mark(text: &str, key: &str) -> String {
    format!("{:?}", Digest::sha256(format!("{key}{text}")).as_bytes())
}

fn sealed(state: &Value, key: &str) -> String {
    let text = state.to_string();
    let mark = mark(&text, key);
    format!("{HEAD}{text}#{mark}")
}

fn opened(state: &str, key: &str) -> Option<Value> {
    let (text, found) = state.strip_prefix(HEAD)?.rsplit_once('#')?;
    if found == mark(text, key) { Some(serde_json::from_str(text).unwrap()) } else { None }
}
