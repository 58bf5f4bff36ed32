//! The steps of a call; their findings become the text of its result.

use std::{collections::VecDeque, sync::Arc};

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::{
    rounds::Rounds,
    script::{filled, has_gaps, words},
    state::Core,
    stateless::{PREFIX, Refusal},
};
use crate::kit::{
    outlet::{Outlet, Piece, spaced},
    record::Entry,
};

/// Output of a call.
pub(super) struct Exit {
    pub(super) outlet: Outlet,
    /// The metadata of all its messages, if they belong to a task.
    pub(super) related: Option<Value>,
}

pub(super) struct Call {
    pub(super) core: Arc<Core>,
    exit: Exit,
    id: Value,
    params: Value,
    arguments: Value,
    token: Value,
    pub(super) told: Map<String, Value>,
    /// The outcome that replaces `told`.
    outcome: Option<Value>,
    /// True once its outcome has been sent.
    pub(super) has_responded: bool,
    pub(super) rounds: Option<Rounds>,
}

/// Reason for stopping a call.
pub(super) enum Halt {
    /// The result has server requests.
    Asked,
    Refused(Refusal),
    Over,
}

/// The arguments of a step.
struct Arguments<'a>(&'a [Value]);

// === impl Exit ===

impl Exit {
    pub(super) fn of(outlet: Outlet) -> Self {
        Self { outlet, related: None }
    }

    async fn message(&self, mut message: Value) {
        if let (Some(related), Some(params)) = (&self.related, message.get_mut("params")) {
            params["_meta"] = related.clone();
        }
        self.outlet.message(message).await;
    }
}

// === impl Arguments ===

impl Arguments<'_> {
    fn text(&self, at: usize) -> &str {
        self.0[at].as_str().unwrap()
    }

    fn value(&self, at: usize) -> Value {
        self.0.get(at).cloned().unwrap_or_else(|| json!({}))
    }
}

// === impl Call ===

impl Call {
    pub(super) fn new(core: Arc<Core>, id: Value, params: &Value, exit: Exit) -> Self {
        let (arguments, token) = (params["arguments"].clone(), params["_meta"]["progressToken"].clone());
        let (params, told) = (params.clone(), Map::new());
        Self { core, exit, id, params, arguments, token, told, outcome: None, has_responded: false, rounds: None }
    }

    /// The members of its envelope, without the prefix of their names (2026-07-28).
    fn envelope(&self) -> Value {
        let meta = self.params["_meta"].as_object().unwrap();
        meta.iter().filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?.to_owned(), value.clone()))).collect()
    }

    pub(super) fn steps(&self) -> Vec<Value> {
        let scripted = self.core.offers.steps_of_call("tools/call", &self.params);
        scripted.unwrap_or_else(|| self.arguments["steps"].as_array().cloned().unwrap_or_default())
    }

    /// Runs all steps, or until the call ends. For a server that sends its own requests.
    pub(super) async fn run(&mut self, steps: Vec<Value>) {
        let mut left = VecDeque::from(steps);
        while let Some(step) = left.pop_front() {
            if step[0] == "when" {
                let [_, pointer, value, then @ ..] = step.as_array().unwrap().as_slice() else {
                    panic!("no step: {step}")
                };
                if self.known().pointer(pointer.as_str().unwrap()) == Some(value) {
                    then.iter().rev().for_each(|step| left.push_front(step.clone()));
                }
                continue;
            }
            match self.step(&step).await {
                Ok(()) => {}
                Err(Halt::Over) => return,
                Err(Halt::Asked | Halt::Refused(_)) => panic!("a server with sessions asks in requests: {step}"),
            }
        }
    }

    /// Values for placeholders in steps.
    fn known(&self) -> Value {
        let (kept, headers) = {
            let state = self.core.state.borrow();
            (state.kept.clone(), state.headers.clone())
        };
        let (id, params, process) = (&self.id, &self.params, &self.core.process);
        json!({ "id": id, "params": params, "headers": headers, "told": self.told, "kept": kept, "process": process })
    }

    /// The outcome set by a step.
    pub(super) fn given(self) -> Option<Value> {
        self.outcome
    }

    /// The outcome after all steps, as a member of the response.
    pub(super) fn outcome(self) -> Value {
        let Self { told, outcome, .. } = self;
        outcome
            .unwrap_or_else(|| json!({ "result": { "content": [{ "type": "text", "text": spaced(&told.into()) }] } }))
    }

    pub(super) async fn step(&mut self, step: &Value) -> Result<(), Halt> {
        let full = if has_gaps(step) { &filled(step, &self.known()) } else { step };
        let [name, arguments @ ..] = full.as_array().unwrap().as_slice() else { panic!("no step: {step}") };
        let arguments = Arguments(arguments);
        let name = name.as_str().unwrap();
        match name {
            "ask" | "ask_aside" | "answer" | "withdraw" => self.question(name, &arguments).await,
            "progress" | "tell" | "aside" | "grow" | "finish" => {
                self.say(name, &arguments).await;
                Ok(())
            }
            "give" => {
                self.outcome = Some(arguments.value(0));
                Ok(())
            }
            "again" => Err(self.rounds.as_mut().unwrap().again()),
            // it requests something that the client did not declare
            "insist" => {
                self.rounds.as_mut().unwrap().insists = true;
                Ok(())
            }
            // it keeps no state of a call between two requests: each begins at the first step
            "forget" => {
                let rounds = self.rounds.as_mut().unwrap();
                rounds.keeps_state = false;
                if rounds.has_state() {
                    self.core.notes.fault("a state was invented");
                }
                Ok(())
            }
            "text" | "respond" | "write" | "long" | "keep" | "gate" | "deaf" => {
                self.act(name, &arguments).await;
                Ok(())
            }
            "end" => Err(Halt::Over),
            "hold" => std::future::pending().await,
            "die" => {
                self.core.end.cancel();
                std::future::pending().await
            }
            _ => {
                self.look(name, &arguments).await;
                Ok(())
            }
        }
    }

    /// Runs a step of a script.
    async fn act(&mut self, step: &str, arguments: &Arguments<'_>) {
        let outlet = &self.exit.outlet;
        match step {
            // a result with this text, and with these members
            "text" => {
                let mut result = arguments.value(1);
                result["content"] = json!([{ "type": "text", "text": words(&arguments.value(0)) }]);
                self.outcome = Some(json!({ "result": result }));
            }
            // sends the outcome before further steps
            "respond" => {
                let mut answer = self.outcome.take().unwrap();
                answer["id"] = self.id.clone();
                outlet.answer(answer, StatusCode::OK).await;
                self.has_responded = true;
            }
            "write" => drop(outlet.write(Piece::Line(words(&arguments.value(0)).into())).await),
            "long" => {
                let length = usize::try_from(arguments.value(0).as_u64().unwrap()).unwrap();
                outlet.write(Piece::Line("x".repeat(length).into())).await;
            }
            "keep" => {
                self.core.change(|state| state.kept.insert(arguments.text(0).to_owned(), arguments.value(1)));
            }
            "gate" => self.core.gate.pass().await,
            _ => self.core.change(|state| state.is_deaf = true),
        }
    }

    /// Steps about server requests.
    async fn question(&mut self, step: &str, arguments: &Arguments<'_>) -> Result<(), Halt> {
        let name = arguments.text(0);
        match (step, &mut self.rounds) {
            ("ask", Some(rounds)) => rounds.ask(name, arguments.text(1), &arguments.value(2))?,
            ("answer", Some(rounds)) => {
                let answer = rounds.answer(name)?;
                self.told.insert(name.to_owned(), answer);
            }
            ("ask" | "ask_aside", _) => {
                let (method, params) = (arguments.text(1), arguments.value(2));
                self.core.change(|state| {
                    state.withdrawn.remove(name);
                    state.asked.insert(name.to_owned(), None);
                    state.methods.insert(name.to_owned(), method.to_owned());
                });
                let request = json!({ "id": name, "method": method, "params": params });
                if step == "ask" {
                    self.exit.message(request).await;
                } else {
                    self.core.say_aside(request).await;
                }
            }
            ("answer", None) => {
                self.core.until(|state| state.asked.get(name).is_some_and(Option::is_some)).await;
                let answer = self.core.change(|state| state.asked.remove(name)).flatten().unwrap();
                let answer = answer.get("result").or_else(|| answer.get("error")).cloned();
                let at = if arguments.0.len() > 1 { arguments.text(1) } else { name };
                self.told.insert(at.to_owned(), answer.unwrap_or_default());
            }
            _ => {
                self.core.change(|state| {
                    state.asked.remove(name);
                    state.withdrawn.insert(name.to_owned());
                });
                let params = json!({ "requestId": name });
                self.exit.message(json!({ "method": "notifications/cancelled", "params": params })).await;
            }
        }
        Ok(())
    }

    /// Steps that send messages.
    async fn say(&mut self, step: &str, arguments: &Arguments<'_>) {
        match step {
            "progress" => {
                let mut params = json!({ "progressToken": self.token, "progress": arguments.value(0) });
                for (name, value) in arguments.value(1).as_object().unwrap() {
                    params[name] = value.clone();
                }
                self.exit.message(json!({ "method": "notifications/progress", "params": params })).await;
            }
            "tell" => {
                let (method, params) = (arguments.text(0), arguments.value(1));
                let level = params["level"].as_str().filter(|_| method == "notifications/message");
                if let (Some(rounds), Some(level)) = (&self.rounds, level)
                    && !rounds.wants(level)
                {
                    return;
                }
                self.exit.message(json!({ "method": method, "params": params })).await;
            }
            "aside" => {
                self.core.say_aside(json!({ "method": arguments.text(0), "params": arguments.value(1) })).await;
            }
            "finish" => self.core.finish(&arguments.value(0)).await,
            _ => {
                let kind = arguments.text(0);
                self.core.change(|state| {
                    let names = match kind {
                        "tools" => &mut state.tools,
                        "prompts" => &mut state.prompts,
                        _ => &mut state.resources,
                    };
                    names.push(format!("another-{}", names.len()));
                });
                self.core.say_aside(json!({ "method": format!("notifications/{kind}/list_changed") })).await;
            }
        }
    }

    /// Steps that wait for something, or find it out.
    async fn look(&mut self, step: &str, arguments: &Arguments<'_>) {
        let core = Arc::clone(&self.core);
        match step {
            "hear" => drop(self.told.insert(arguments.text(0).to_owned(), core.heard(arguments.text(0)).await)),
            // number of requests with a method in this session, and the last parameters
            "count" => {
                let method = arguments.text(0);
                let state = core.state.borrow();
                let last = state.received.iter().rfind(|(name, _)| name == method);
                self.told.insert("count".to_owned(), state.count(method).into());
                self.told.insert("last".to_owned(), last.map(|(_, params)| params.clone()).unwrap_or_default());
            }
            // the next request of this method ends like this
            "prepare" => core.change(|state| {
                let outcomes = state.outcomes.entry(arguments.text(0).to_owned()).or_default();
                if self.rounds.is_none() {
                    outcomes.clear();
                }
                outcomes.push_back(arguments.value(1));
            }),
            // the parameters of the last request of this method
            "request" => {
                let params = core.state.borrow().requests.get(arguments.text(0)).cloned();
                self.told.insert(arguments.text(0).to_owned(), params.unwrap_or_default());
            }
            "hear_of" => {
                let wanted = (arguments.text(0).to_owned(), arguments.value(1));
                core.until(|state| state.received.contains(&wanted)).await;
            }
            "until" => {
                let times = usize::try_from(arguments.value(1).as_u64().unwrap()).unwrap();
                core.until(|state| state.count(arguments.text(0)) >= times).await;
            }
            // waits until a client subscribes to this resource, or none does
            "listening" => {
                let (uri, wanted) = (arguments.value(0), arguments.value(1));
                let listens = |listens: bool| wanted == listens;
                core.until(|state| listens(state.listens.values().any(|listen| listen.has_chosen(&uri)))).await;
            }
            "end_listens" => core.end_listens(),
            // identifies the session at this server
            "who" => drop(self.told.insert("who".to_owned(), core.name.clone().into())),
            // the caller's identity and capabilities: from this call, since the gateway's own requests may come in
            // between
            "envelope" => drop(self.told.insert("envelope".to_owned(), self.envelope())),
            // stores a finding for later calls
            "note" => {
                let mark = self.arguments["mark"].clone();
                core.notes.write(Entry::Noted { mark, told: self.told.clone().into() });
            }
            "noted" | "left" => self.elsewhere(step, &arguments.value(0)).await,
            _ => panic!("no step {step}"),
        }
    }

    /// Steps about the call with a mark, at any server of this record.
    async fn elsewhere(&mut self, step: &str, mark: &Value) {
        let record = &self.core.notes.record;
        if step == "noted" {
            let noted = |entries: &[Entry]| {
                entries.iter().find_map(|entry| match entry {
                    Entry::Noted { mark: of, told } if of == mark => Some(told.clone()),
                    _ => None,
                })
            };
            let noted = record.found(noted).await;
            self.told.insert("noted".to_owned(), noted);
            return;
        }
        // cancelled
        let is_left = |entries: &[Entry]| {
            let messages = || entries.iter().filter_map(Entry::message);
            let called =
                messages().filter(|one| one["method"] == "tools/call" && one["params"]["arguments"]["mark"] == *mark);
            let mut ids = called.map(|one| &one["id"]);
            let is_cancelled = |id: &Value| {
                messages().any(|one| one["method"] == "notifications/cancelled" && one["params"]["requestId"] == *id)
            };
            let is_closed =
                |id: &Value| entries.iter().any(|entry| matches!(entry, Entry::Closed(closed) if closed == id));
            ids.any(|id| is_cancelled(id) || is_closed(id)).then_some(())
        };
        record.found(is_left).await;
    }
}
