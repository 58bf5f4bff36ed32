//! State that a server keeps for its clients.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::Arc,
};

use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{listens::Listen, offers::Offers, script::Gate};
use crate::kit::{outlet::Outlet, record::Notes};

/// A server's session with one client; a 2026-07-28 server over HTTP has one for all clients.
pub(super) struct Core {
    /// A unique name.
    pub(super) name: String,
    pub(super) aside: Outlet,
    pub(super) notes: Notes,
    pub(super) offers: Arc<Offers>,
    pub(super) gateways: usize,
    pub(super) state: watch::Sender<State>,
    pub(super) end: CancellationToken,
    pub(super) gate: Gate,
    /// The process of its program, if it has one.
    pub(super) process: Value,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) tools: Vec<String>,
    pub(super) prompts: Vec<String>,
    pub(super) resources: Vec<String>,
    /// Received messages in order, and by method the ones not awaited yet.
    pub(super) received: Vec<(String, Value)>,
    pub(super) heard: HashMap<String, VecDeque<Value>>,
    /// The methods of server requests by id, and their answers.
    pub(super) methods: HashMap<String, String>,
    pub(super) asked: HashMap<String, Option<Value>>,
    /// Withdrawn server requests: an answer may cross the withdrawal.
    pub(super) withdrawn: HashSet<String>,
    /// The last parameters of each method, and prepared outcomes of its next requests.
    pub(super) requests: HashMap<String, Value>,
    pub(super) outcomes: HashMap<String, VecDeque<Value>>,
    /// Running requests by their ids.
    pub(super) running: HashMap<String, CancellationToken>,
    pub(super) tasks: Vec<Value>,
    /// The parameters of the calls that created tasks, by task id.
    pub(super) chores: HashMap<String, Value>,
    pub(super) listens: BTreeMap<u64, Listen>,
    /// Number of uses of each id and each token (2026-07-28).
    pub(super) used: HashMap<String, usize>,
    /// The headers of the last HTTP request.
    pub(super) headers: Map<String, Value>,
    /// Values kept by steps for steps of other requests.
    pub(super) kept: Map<String, Value>,
    /// True if it has stopped reading.
    pub(super) is_deaf: bool,
}

// === impl State ===

impl State {
    pub(super) fn of(offers: &Offers) -> watch::Sender<Self> {
        let names = |name: &str| if offers.script.is_some() { Vec::new() } else { vec![name.to_owned()] };
        watch::Sender::new(Self {
            tools: names("script"),
            prompts: names("p"),
            resources: names("r"),
            ..Self::default()
        })
    }

    pub(super) fn count(&self, method: &str) -> usize {
        self.received.iter().filter(|(name, _)| name == method).count()
    }

    pub(super) fn task(&self, id: &Value) -> Option<&Value> {
        self.tasks.iter().find(|task| task["taskId"] == *id)
    }
}

// === impl Core ===

impl Core {
    /// The steps of a method in its script.
    pub(super) fn steps_of(&self, method: &str) -> Option<Vec<Value>> {
        self.offers.script.as_ref()?.of_method(method)
    }

    pub(super) fn hear(&self, method: &str, params: Value) {
        self.change(|state| {
            state.received.push((method.to_owned(), params.clone()));
            state.heard.entry(method.to_owned()).or_default().push_back(params);
        });
    }

    /// Waits for the next request of this method that was not awaited yet; returns its parameters.
    pub(super) async fn heard(&self, method: &str) -> Value {
        loop {
            let next = |state: &mut State| state.heard.get_mut(method).and_then(VecDeque::pop_front);
            if let Some(params) = self.change(next) {
                return params;
            }
            self.until(|state| state.heard.get(method).is_some_and(|all| !all.is_empty())).await;
        }
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut result = None;
        self.state.send_modify(|state| result = Some(change(state)));
        result.unwrap()
    }

    pub(super) async fn until(&self, is_so: impl FnMut(&State) -> bool) {
        // `self` holds the sender, so it cannot be gone
        let _ = self.state.subscribe().wait_for(is_so).await;
    }
}
