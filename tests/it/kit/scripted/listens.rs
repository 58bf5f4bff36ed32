//! Listens of 2026-07-28, and messages outside of calls.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use lockkeeper::mcp::Era;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::state::Core;
use crate::kit::outlet::Outlet;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

#[derive(Clone)]
pub(super) struct Listen {
    pub(super) granted: Value,
    tag: Value,
    outlet: Outlet,
    over: CancellationToken,
}

/// Removes the listen at the end of its request.
struct Registered<'a>(&'a Core, u64);

impl Listen {
    pub(super) fn has_chosen(&self, uri: &Value) -> bool {
        self.granted["resourceSubscriptions"].as_array().is_some_and(|uris| uris.contains(uri))
    }

    fn chose(&self, message: &Value) -> bool {
        let member = match message["method"].as_str().unwrap() {
            "notifications/resources/updated" => return self.has_chosen(&message["params"]["uri"]),
            "notifications/tools/list_changed" => "toolsListChanged",
            "notifications/prompts/list_changed" => "promptsListChanged",
            "notifications/resources/list_changed" => "resourcesListChanged",
            _ => return false,
        };
        self.granted.get(member).is_some()
    }

    fn tagged(&self, mut message: Value) -> Value {
        message["params"]["_meta"][SUBSCRIPTION] = self.tag.clone();
        message
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.listens.remove(&self.1));
    }
}

impl Core {
    /// Sends a message outside of calls; if clients choose what to receive, only to clients that chose it.
    pub(super) async fn say_aside(&self, message: Value) {
        if self.offers.version.era() == Era::Legacy {
            return self.aside.message(message).await;
        }
        let listens: Vec<Listen> = self.state.borrow().listens.values().cloned().collect();
        for listen in listens.iter().filter(|listen| listen.chose(&message)) {
            listen.outlet.message(listen.tagged(message.clone())).await;
        }
    }

    /// Finishes a task and notifies everyone.
    pub(super) async fn finish(&self, id: &Value) {
        let task = self.change(|state| {
            let task = state.tasks.iter_mut().find(|task| task["taskId"] == *id).unwrap();
            task["status"] = "completed".into();
            task.clone()
        });
        self.say_aside(json!({ "method": "notifications/tasks/status", "params": task })).await;
    }

    /// Serves a listen until it ends; returns its result.
    pub(super) async fn listen(self: &Arc<Self>, id: &Value, params: &Value, outlet: Outlet) -> Value {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let wanted = params["notifications"].as_object().unwrap();
        let mut granted: Map<String, Value> = wanted
            .iter()
            .filter(|(_, value)| **value == json!(true))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let uris = wanted.get("resourceSubscriptions").and_then(Value::as_array).cloned().unwrap_or_default();
        let uris: Vec<Value> = uris.into_iter().filter(|uri| uri != "x:refused").collect();
        if !uris.is_empty() {
            granted.insert("resourceSubscriptions".to_owned(), uris.into());
        }
        let over = CancellationToken::new();
        let listen = Listen { granted: granted.into(), tag: id.clone(), outlet, over: over.clone() };
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let granted = json!({ "notifications": listen.granted });
        let acknowledged = json!({ "method": "notifications/subscriptions/acknowledged", "params": granted });
        self.change(|state| {
            // nothing else may come before this
            listen.outlet.message_now(listen.tagged(acknowledged));
            state.listens.insert(number, listen);
        });
        let _registered = Registered(self, number);
        over.cancelled().await;
        json!({ "_meta": { SUBSCRIPTION: id } })
    }

    pub(super) fn end_listens(&self) {
        self.state.borrow().listens.values().for_each(|listen| listen.over.cancel());
    }
}
