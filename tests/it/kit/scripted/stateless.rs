//! A 2026-07-28 server. It sends requests only in results, and its knowledge of a call between two requests is in the
//! state. It checks everything it receives against the specification: violations are refused as required, and recorded
//! as faults.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    rounds::Rounds,
    state::Core,
    steps::{Call, Exit, Halt},
};
use crate::kit::{
    carriers::{Received, Session},
    outlet::Outlet,
    record::Entry,
};

pub(super) const PREFIX: &str = "io.modelcontextprotocol/";
/// The methods whose results have cache hints.
const CACHEABLE: [&str; 6] =
    ["server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"];
/// The methods whose results may contain server requests.
pub(super) const ASKING: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];
/// Members that the version adds to parameters.
const ENVELOPE: [&str; 4] = ["protocolVersion", "clientInfo", "clientCapabilities", "logLevel"];

pub(super) struct StatelessServer(pub(super) Arc<Core>);

/// An error, and its HTTP status.
pub(super) struct Refusal {
    status: StatusCode,
    error: Value,
}

// === impl Refusal ===

impl Refusal {
    pub(super) fn new(status: u16, code: i64, message: &str) -> Self {
        let status = StatusCode::from_u16(status).unwrap();
        Self { status, error: json!({ "code": code, "message": message }) }
    }

    pub(super) fn with(mut self, data: Value) -> Self {
        self.error["data"] = data;
        self
    }
}

// === impl StatelessServer ===

impl Session for StatelessServer {
    fn take(self: Arc<Self>, received: Received, outlet: Outlet) -> BoxFuture<'static, ()> {
        let Received { message, headers, gone } = received;
        let core = &self.0;
        core.notes.write(Entry::Received { question: None, message: message.clone() });
        let method = message["method"].as_str().unwrap_or_default();
        let Some(id) = message.get("id").filter(|_| !method.is_empty()).cloned() else {
            if method == "notifications/cancelled" && headers.is_none() {
                self.cancelled(&message["params"]["requestId"]);
            } else {
                core.notes.fault(format!("no request: {message}"));
            }
            return Box::pin(std::future::ready(()));
        };
        // over HTTP several gateways may use the same id
        let running = core.end.child_token();
        if headers.is_none() {
            core.change(|state| state.running.insert(id.to_string(), running.clone()));
        }
        Box::pin(async move {
            tokio::select! {
                () = self.serve((&id, &message), headers.as_ref(), outlet) => {}
                () = running.cancelled() => {}
                () = gone.cancelled() => {
                    self.0.notes.write(Entry::Closed(id.clone()));
                    self.0.hear("notifications/cancelled", json!({ "requestId": id }));
                }
            }
            self.0.change(|state| state.running.remove(&id.to_string()));
        })
    }

    fn misused(&self, verb: &str) {
        self.0.notes.fault(format!("{verb} is not there"));
    }

    fn end(&self) -> &CancellationToken {
        &self.0.end
    }
}

impl StatelessServer {
    fn cancelled(&self, id: &Value) {
        if let Some(running) = self.0.change(|state| state.running.remove(&id.to_string())) {
            running.cancel();
        }
        self.0.hear("notifications/cancelled", json!({ "requestId": id }));
    }

    async fn serve(&self, (id, message): (&Value, &Value), headers: Option<&HeaderMap>, outlet: Outlet) {
        if let Some(steps) = self.0.steps_of(message["method"].as_str().unwrap()) {
            let mut call = Call::new(Arc::clone(&self.0), id.clone(), &message["params"], Exit::of(outlet.clone()));
            call.run(steps).await;
            if let Some(mut answer) = call.given() {
                answer["id"] = id.clone();
                return outlet.answer(answer, StatusCode::OK).await;
            }
        }
        let judged = headers.map_or(Ok(()), |headers| self.0.judge_headers(headers, message));
        let gateways = if headers.is_some() { self.0.gateways } else { 1 };
        let outcome = match judged.and_then(|()| self.judge(message, gateways)) {
            Ok(()) => self.outcome(message, &outlet).await,
            Err(refusal) => Err(refusal),
        };
        let (mut answer, status) = match outcome {
            Ok(outcome) => (outcome, StatusCode::OK),
            Err(Refusal { status, error }) => (json!({ "error": error }), status),
        };
        answer["id"] = id.clone();
        outlet.answer(answer, status).await;
        if headers.is_none() && message["method"] == "subscriptions/listen" {
            let over = json!({ "method": "notifications/cancelled", "params": { "requestId": id } });
            outlet.message(over).await;
        }
    }

    /// Checks that a request has everything required.
    fn judge(&self, message: &Value, gateways: usize) -> Result<(), Refusal> {
        let (core, version) = (&self.0, self.0.offers.version.as_str());
        let (method, params) = (message["method"].as_str().unwrap(), &message["params"]);
        let unsupported = |requested: &Value| {
            let data = json!({ "supported": [version], "requested": requested });
            Refusal::new(400, -32022, "Unsupported protocol version").with(data)
        };
        if method == "initialize" {
            core.notes.fault("there is no handshake");
            return Err(unsupported(&params["protocolVersion"]));
        }
        let meta = &params["_meta"];
        let member = |name: &str| &meta[format!("{PREFIX}{name}")];
        let has = [
            ("protocolVersion", member("protocolVersion").is_string()),
            ("clientCapabilities", member("clientCapabilities").is_object()),
            ("clientInfo", member("clientInfo").is_object()),
        ];
        if let Some((name, _)) = has.iter().find(|(_, has)| !has) {
            core.notes.fault(format!("{method} without {name}: {meta}"));
            return Err(Refusal::new(400, -32602, &format!("Invalid params: no {name}")));
        }
        if *member("protocolVersion") != version {
            core.notes.fault(format!("{method} in {meta}"));
            return Err(unsupported(member("protocolVersion")));
        }
        for key in meta.as_object().unwrap().keys() {
            if key.strip_prefix(PREFIX).is_some_and(|name| !ENVELOPE.contains(&name)) {
                core.notes.fault(format!("{method} has {key}, which is of another version"));
            }
        }
        for (kind, one) in [("id", &message["id"]), ("token", &meta["progressToken"])] {
            let used = core.change(|state| {
                let used = state.used.entry(format!("{kind} {one}")).or_default();
                *used += 1;
                *used
            });
            if !one.is_null() && used > gateways {
                core.notes.fault(format!("{one} is used twice"));
            }
        }
        if !ASKING.contains(&method) && (params.get("inputResponses").is_some() || params.get("requestState").is_some())
        {
            core.notes.fault(format!("nothing was asked in {method}"));
        }
        if params.get("task").is_some() {
            core.notes.fault(format!("{method} with a task"));
        }
        Ok(())
    }

    /// The outcome of a request, as a member of the response.
    async fn outcome(&self, message: &Value, outlet: &Outlet) -> Result<Value, Refusal> {
        let (core, method, params) = (&self.0, message["method"].as_str().unwrap(), &message["params"]);
        let prepared = core.change(|state| {
            state.requests.insert(method.to_owned(), own(params));
            state.received.push((method.to_owned(), own(params)));
            state.outcomes.get_mut(method).and_then(std::collections::VecDeque::pop_front)
        });
        if let Some(prepared) = prepared {
            return Ok(match prepared.get("result") {
                Some(result) => json!({ "result": core.complete(method, result.clone()) }),
                None => prepared,
            });
        }
        match method {
            "tools/call" => self.call(params, outlet).await,
            "subscriptions/listen" => {
                let result = core.listen(&message["id"], params, outlet.clone()).await;
                Ok(json!({ "result": core.complete(method, result) }))
            }
            _ => match core.offers.result((method, params), &core.state.borrow()) {
                Some(Ok(result)) => Ok(json!({ "result": core.complete(method, result) })),
                Some(Err(_)) => {
                    Err(Refusal::new(200, -32602, "Resource not found").with(json!({ "uri": params["uri"] })))
                }
                None => Err(Refusal::new(404, -32601, "Method not found")),
            },
        }
    }

    async fn call(&self, params: &Value, outlet: &Outlet) -> Result<Value, Refusal> {
        let mut call = Call::new(Arc::clone(&self.0), Value::Null, params, Exit::of(outlet.clone()));
        let mut rounds = Rounds::begin(params);
        rounds.go_on(&mut call)?;
        let steps = call.steps();
        call.rounds = Some(rounds);
        while let Some(step) = call.rounds.as_mut().and_then(|rounds| rounds.next(&steps)) {
            match call.step(step).await {
                Ok(()) => {}
                Err(Halt::Asked) => {
                    let result = call.rounds.take().unwrap().asking(&call);
                    return Ok(json!({ "result": self.0.complete("tools/call", result) }));
                }
                Err(Halt::Refused(refusal)) => return Err(refusal),
                Err(Halt::Over) => break,
            }
        }
        let outcome = call.outcome();
        Ok(match outcome.get("result") {
            Some(result) => json!({ "result": self.0.complete("tools/call", result.clone()) }),
            None => outcome,
        })
    }
}

impl Core {
    /// A result with the members that the version adds.
    fn complete(&self, method: &str, mut result: Value) -> Value {
        let members = result.as_object_mut().unwrap();
        members.entry("resultType").or_insert_with(|| "complete".into());
        let is_complete = members["resultType"] == "complete";
        if CACHEABLE.contains(&method) && is_complete {
            members.entry("ttlMs").or_insert_with(|| 0.into());
            members.entry("cacheScope").or_insert_with(|| "private".into());
        }
        if method != "subscriptions/listen" {
            let meta = members.entry("_meta").or_insert_with(|| json!({})).as_object_mut().unwrap();
            meta.entry(format!("{PREFIX}serverInfo")).or_insert_with(|| self.offers.identity());
        }
        result
    }
}

/// The parameters without the members that the version adds.
fn own(params: &Value) -> Value {
    let mut params = params.clone();
    let members = params.as_object_mut().unwrap();
    if let Some(Value::Object(meta)) = members.get_mut("_meta") {
        meta.retain(|key, _| !key.strip_prefix(PREFIX).is_some_and(|name| ENVELOPE.contains(&name)));
        if meta.is_empty() {
            members.remove("_meta");
        }
    }
    params
}
