//! A server's session with one client.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::StatusCode;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    state::Core,
    steps::{Call, Exit},
};
use crate::kit::{
    carriers::{Received, Session},
    outlet::Outlet,
    record::Entry,
};

const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

pub(super) struct LegacySession(pub(super) Arc<Core>);

impl Session for LegacySession {
    fn take(self: Arc<Self>, received: Received, outlet: Outlet) -> BoxFuture<'static, ()> {
        let core = &self.0;
        if let Some(headers) = &received.headers {
            let texts =
                headers.iter().filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.into())));
            core.change(|state| state.headers = texts.collect());
        }
        let message = received.message;
        let (method, id) = (message["method"].as_str().map(str::to_owned), message.get("id").cloned());
        let question = match &method {
            None => core.state.borrow().methods.get(id.as_ref().and_then(Value::as_str).unwrap_or_default()).cloned(),
            Some(_) => None,
        };
        core.notes.write(Entry::Received { question, message: message.clone() });
        let params = message.get("params").cloned().unwrap_or_else(|| json!({}));
        match (method, id) {
            (None, _) => self.answered(&message),
            (Some(method), None) => {
                let running = core.state.borrow().running.get(&params["requestId"].to_string()).cloned();
                core.hear(&method, params.clone());
                if let (Some(running), "notifications/cancelled") = (running, method.as_str()) {
                    running.cancel();
                }
                if let Some(steps) = core.steps_of(&method) {
                    return Box::pin(async move {
                        let mut call = Call::new(Arc::clone(&self.0), Value::Null, &params, Exit::of(outlet));
                        call.run(steps).await;
                    });
                }
            }
            (Some(method), Some(id)) => {
                let cancelled = core.end.child_token();
                core.change(|state| {
                    state.running.insert(id.to_string(), cancelled.clone());
                    state.requests.insert(method.clone(), params.clone());
                });
                return Box::pin(async move {
                    tokio::select! {
                        () = self.serve(&method, (id, params), outlet) => {}
                        () = cancelled.cancelled() => {}
                    }
                });
            }
        }
        Box::pin(std::future::ready(()))
    }

    fn misused(&self, verb: &str) {
        self.0.notes.fault(format!("{verb} is not there"));
    }

    fn is_deaf(&self) -> bool {
        self.0.state.borrow().is_deaf
    }

    fn end(&self) -> &CancellationToken {
        &self.0.end
    }
}

impl LegacySession {
    /// An answer to a server request, which must be open, or must have been when the client answered.
    fn answered(&self, message: &Value) {
        let id = message["id"].as_str().unwrap_or_default();
        let is_open = self.0.change(|state| {
            let open = state.asked.get_mut(id).filter(|answer| answer.is_none());
            open.map(|answer| *answer = Some(message.clone())).is_some() || state.withdrawn.remove(id)
        });
        if !is_open {
            self.0.notes.fault(format!("nobody asked for {message}"));
        }
    }

    async fn serve(&self, method: &str, (id, params): (Value, Value), outlet: Outlet) {
        let prepared = self.0.change(|state| {
            if method == "tools/call" {
                state.received.push((method.to_owned(), params.clone()));
            }
            state.outcomes.remove(method)
        });
        let mut outcome = prepared.and_then(|mut outcomes| outcomes.pop_front());
        let mut brings_about = None;
        let steps = self.0.steps_of(method).or_else(|| self.0.offers.steps_of_call(method, &params));
        if let (None, Some(steps)) = (&outcome, steps) {
            let mut call = Call::new(Arc::clone(&self.0), id.clone(), &params, Exit::of(outlet.clone()));
            call.run(steps).await;
            if call.has_responded {
                return;
            }
            outcome = if method == "tools/call" { Some(call.outcome()) } else { call.given() };
        }
        let mut answer = match outcome {
            Some(outcome) => outcome,
            None if method == "tools/call" => self.tools_call(params, &outlet).await,
            None if method == "tasks/result" => {
                brings_about = self.unfinished(&params["taskId"]);
                self.tasks_result(&params, &outlet).await
            }
            None => self.outcome(method, &params),
        };
        answer["id"] = id;
        outlet.answer(answer, StatusCode::OK).await;
        drop(outlet);
        if let Some(task) = brings_about {
            self.0.finish(&task).await;
        }
    }

    /// The outcome of an immediate request, as a member of the response.
    fn outcome(&self, method: &str, params: &Value) -> Value {
        let core = &self.0;
        if matches!(method, "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" | "tasks/cancel") {
            core.hear(method, params.clone());
        }
        let found = match method {
            "initialize" => {
                core.change(|state| state.received.push((method.to_owned(), params.clone())));
                let offers = &core.offers;
                Some(json!({ "protocolVersion": offers.version.as_str(), "capabilities": offers.capabilities(),
                    "serverInfo": offers.identity(), "instructions": offers.instructions() }))
            }
            "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => Some(json!({})),
            "tasks/get" => core.state.borrow().task(&params["taskId"]).cloned(),
            "tasks/list" => Some(json!({ "tasks": core.state.borrow().tasks })),
            "tasks/cancel" => core.state.borrow().task(&params["taskId"]).cloned().map(|mut task| {
                task["status"] = "cancelled".into();
                task
            }),
            _ => match core.offers.result((method, params), &core.state.borrow()) {
                Some(Ok(result)) => Some(result),
                Some(Err(_)) => None,
                None => return json!({ "error": { "code": -32601, "message": "Method not found" } }),
            },
        };
        found.map_or_else(|| not_there(params), |result| json!({ "result": result }))
    }

    async fn tools_call(&self, params: Value, outlet: &Outlet) -> Value {
        let core = &self.0;
        let is_chore = params["name"] == "chore";
        let Some(task) = params.get("task") else {
            if is_chore {
                return json!({ "error": { "code": -32601, "message": "runs only as a task" } });
            }
            return self.run(&params, Exit::of(outlet.clone())).await;
        };
        let at = "2026-01-01T00:00:00Z";
        let ttl = task.get("ttl").cloned().unwrap_or_else(|| json!(60000));
        core.change(|state| {
            let id = format!("task-{}-{}", core.name, state.tasks.len());
            let task = json!({ "taskId": id, "status": "working", "createdAt": at, "lastUpdatedAt": at, "ttl": ttl });
            state.tasks.push(task.clone());
            if is_chore {
                state.chores.insert(id, params);
            }
            json!({ "result": { "task": task } })
        })
    }

    async fn run(&self, params: &Value, exit: Exit) -> Value {
        let mut call = Call::new(Arc::clone(&self.0), Value::Null, params, exit);
        call.run(call.steps()).await;
        call.outcome()
    }

    /// The id of a running task that no call created, if this is one: the request for its result completes it.
    fn unfinished(&self, task: &Value) -> Option<Value> {
        let state = self.0.state.borrow();
        let is_chore = state.chores.contains_key(task.as_str().unwrap_or_default());
        let works = state.task(task).is_some_and(|known| known["status"] == "working");
        (works && !is_chore).then(|| task.clone())
    }

    async fn tasks_result(&self, params: &Value, outlet: &Outlet) -> Value {
        let core = &self.0;
        let task = &params["taskId"];
        let related = json!({ RELATED_TASK: { "taskId": task } });
        let (known, call) = {
            let state = core.state.borrow();
            (state.task(task).cloned(), state.chores.get(task.as_str().unwrap_or_default()).cloned())
        };
        let Some(known) = known else { return not_there(params) };
        let Some(call) = call else {
            let text = json!({ "type": "text", "text": core.name });
            return json!({ "result": { "content": [text], "_meta": related } });
        };
        // it runs while its result is awaited: its messages are marked as the task's, and its status is reported
        for status in ["working", "completed"] {
            let mut told = known.clone();
            told["status"] = status.into();
            let told = json!({ "method": "notifications/tasks/status", "params": told });
            core.aside.message(told.clone()).await;
            outlet.message(told).await;
        }
        let mut outcome = self.run(&call, Exit { outlet: outlet.clone(), related: Some(related.clone()) }).await;
        outcome["result"]["_meta"] = related;
        json!({ "result": outcome["result"] })
    }
}

fn not_there(params: &Value) -> Value {
    json!({ "error": { "code": -32002, "message": "not there", "data": params } })
}
