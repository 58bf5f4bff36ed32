//! A server's own behaviour: the steps of its methods and tools, and its lists. In the texts of a step, `{/POINTER}` is
//! replaced by a value: from the message (`id`, `params`, `headers`), from the call's findings (`told`), from the
//! session (`kept`), or from the `process`. A text that consists only of this becomes the value itself.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::kit::outlet::spaced;

/// The tools of [`Script::everyday`].
const EVERYDAY: &str = include_str!("everyday.json");
/// Stands for every tool without its own steps.
const ANY: &str = "*";

/// The script of a server.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Script {
    /// The entries of the tool list.
    #[serde(default)]
    pub(super) tools: Vec<Value>,
    /// The steps of calls, by tool name.
    #[serde(default)]
    calls: Map<String, Value>,
    /// The steps of other methods; answered as usual if the steps produce no outcome.
    #[serde(default)]
    methods: Map<String, Value>,
}

/// Holds back servers in the step `gate` while it is closed.
#[derive(Debug, Clone)]
pub(crate) struct Gate(Arc<watch::Sender<bool>>);

// === impl Script ===

impl Script {
    /// A server with the tool `echo`, and with unlisted tools.
    pub(crate) fn everyday() -> Self {
        serde_json::from_str(EVERYDAY).unwrap()
    }

    /// A server with this name that accepts every version offered to it.
    pub(crate) fn named(name: &str) -> Self {
        Self::default().greeting(&json!({
            "protocolVersion": "{/params/protocolVersion}",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": name, "version": "1" },
        }))
    }

    /// The same with a different handshake result.
    pub(crate) fn greeting(self, result: &Value) -> Self {
        self.on("initialize", json!([["give", { "result": result }]]))
    }

    /// The same with these steps for a method.
    pub(crate) fn on(mut self, method: &str, steps: Value) -> Self {
        self.methods.insert(method.to_owned(), steps);
        self
    }

    /// The same with an additional first step for a method.
    pub(crate) fn first(mut self, method: &str, step: Value) -> Self {
        let mut steps = vec![step];
        steps.extend(self.of_method(method).unwrap_or_default());
        self.methods.insert(method.to_owned(), steps.into());
        self
    }

    /// The same without steps for a method.
    pub(crate) fn usual(mut self, method: &str) -> Self {
        self.methods.remove(method);
        self
    }

    /// The same with these steps for an unlisted tool.
    pub(crate) fn hidden(mut self, tool: &str, steps: Value) -> Self {
        self.calls.insert(tool.to_owned(), steps);
        self
    }

    /// The same with these steps for every tool without its own.
    pub(crate) fn any_tool(self, steps: Value) -> Self {
        self.hidden(ANY, steps)
    }

    /// The same with this entry in the tool list.
    pub(crate) fn listed(mut self, tool: Value) -> Self {
        self.tools.push(tool);
        self
    }

    /// The same with listed tools that have only names.
    pub(crate) fn lists(self, tools: &[&str]) -> Self {
        let tool = |name: &&str| json!({ "name": name, "inputSchema": { "type": "object" } });
        tools.iter().map(tool).fold(self, Self::listed)
    }

    pub(super) fn of_method(&self, method: &str) -> Option<Vec<Value>> {
        self.methods.get(method).map(steps)
    }

    /// The steps of a call: the tool's, or the call's own, or the default ones.
    pub(super) fn of_call(&self, params: &Value) -> Vec<Value> {
        let own = params["name"].as_str().and_then(|name| self.calls.get(name));
        let brought = Some(&params["arguments"]["steps"]).filter(|steps| steps.is_array());
        own.or(brought).or_else(|| self.calls.get(ANY)).map(steps).unwrap_or_default()
    }
}

// === impl Gate ===

impl Gate {
    pub(crate) fn opened() -> Self {
        Self(Arc::new(watch::Sender::new(true)))
    }

    pub(crate) fn closed() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn close(&self) {
        self.0.send_replace(false);
    }

    pub(super) async fn pass(&self) {
        // `self` holds the sender, so it cannot be gone
        let _ = self.0.subscribe().wait_for(|is_open| *is_open).await;
    }
}

fn steps(of: &Value) -> Vec<Value> {
    of.as_array().unwrap_or_else(|| panic!("no steps: {of}")).clone()
}

/// True if a text in this value has a placeholder.
pub(super) fn has_gaps(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("{/"),
        Value::Array(values) => values.iter().any(has_gaps),
        Value::Object(members) => members.values().any(has_gaps),
        _ => false,
    }
}

/// The value with its placeholders replaced.
pub(super) fn filled(value: &Value, from: &Value) -> Value {
    match value {
        Value::String(text) => filled_text(text, from),
        Value::Array(values) => values.iter().map(|value| filled(value, from)).collect(),
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| (name.clone(), filled(value, from));
            Value::Object(members.iter().map(member).collect())
        }
        _ => value.clone(),
    }
}

fn filled_text(text: &str, from: &Value) -> Value {
    let at = |pointer: &str| from.pointer(pointer).cloned().unwrap_or_default();
    if let Some(pointer) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'))
        && pointer.starts_with('/')
        && !pointer.contains('{')
    {
        return at(pointer);
    }
    let (mut done, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("{/") {
        let (pointer, after) = after.split_once('}').unwrap();
        done += before;
        done += &words(&at(&format!("/{pointer}")));
        rest = after;
    }
    (done + rest).into()
}

/// The text, or the value as text.
pub(super) fn words(value: &Value) -> String {
    value.as_str().map_or_else(|| spaced(value), str::to_owned)
}
