//! A server whose tools follow the operator's rules: some are left out, others have another name, description or
//! default arguments. A call is checked here by the name of its tool; whether the tool is in the caller's list is
//! checked before (`VisibleBackend::tool`), since only the list describes it.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json, value::RawValue};

use crate::{
    mcp::{
        Call, Context, ErrorObject, Event, Method, Outcome, Payload, Reply, Server, ToolHint, json, methods::places,
    },
    model::{ToolRules, WritingTools},
};

/// `server` with tools that follow `rules`; `None` leaves them unchanged.
pub fn tool_view(server: Arc<dyn Server>, rules: Option<&Arc<ToolRules>>) -> Arc<dyn Server> {
    match rules {
        Some(rules) => Arc::new(ToolView { server, rules: Arc::clone(rules) }),
        None => server,
    }
}

#[derive(Clone)]
struct ToolView {
    server: Arc<dyn Server>,
    rules: Arc<ToolRules>,
}

// === impl ToolView ===

impl ToolView {
    /// The offered tools of a list, as clients see them.
    fn listed(&self, list: &Payload) -> Payload {
        let Some(tools) = list.member("tools").and_then(|text| serde_json::from_str::<Vec<&RawValue>>(text).ok())
        else {
            return list.clone();
        };
        let tools: Vec<String> = tools.iter().filter_map(|tool| self.entry(tool.get())).collect();
        list.with("tools", &format!("[{}]", tools.join(",")))
    }

    /// An entry of a list as clients see it; `None` if it is hidden.
    fn entry(&self, tool: &str) -> Option<String> {
        // the catalog reports the fault of a tool without a name
        let Some(own) = json::member(tool.as_bytes(), "name").and_then(json::unquote) else {
            return Some(tool.to_owned());
        };
        let is_left_out = || ToolHint::of(tool.as_bytes()) != ToolHint::Reads;
        if !self.rules.offers(&own) || (self.rules.read_only == WritingTools::LeftOut && is_left_out()) {
            return None;
        }
        let mut edited = Bytes::copy_from_slice(tool.as_bytes());
        let shown = self.rules.shown(&own);
        if self.rules.own(&shown).as_ref() != Some(&own) {
            // another tool has this name
            return None;
        }
        if shown != own {
            edited = json::with_member(&edited, "name", &json::quote(&shown));
        }
        if let Some(description) = self.rules.descriptions.get(&own) {
            edited = json::with_member(&edited, "description", &json::quote(description));
        }
        if let Some(defaults) = self.rules.arguments.get(&own) {
            edited = without_required(edited, defaults);
        }
        Some(String::from_utf8_lossy(&edited).into_owned())
    }

    fn call_tool(&self, call: Call) -> Reply {
        let found = call.params.find(places::NAME);
        let Some(shown) = found.string(call.params.json()) else { return self.server.call(call) };
        let Some(own) = self.rules.offered(&shown) else { return Reply::failed(unknown(&shown)) };
        let params = call.params.replaced(&found, &json::quote(&own));
        let params = self.with_arguments(&own, params);
        self.server.call(Call { params, ..call })
    }

    /// The parameters, with default arguments where the call has none.
    fn with_arguments(&self, own: &str, params: Payload) -> Payload {
        let Some(defaults) = self.rules.arguments.get(own) else { return params };
        let mut arguments = Bytes::copy_from_slice(
            params.member("arguments").filter(|given| *given != "null").unwrap_or("{}").as_bytes(),
        );
        for (name, value) in defaults {
            if json::member(&arguments, name).is_none() {
                arguments = json::with_member(&arguments, name, &value.to_string());
            }
        }
        params.with("arguments", &String::from_utf8_lossy(&arguments))
    }
}

/// A listed tool, with its default arguments no longer required.
fn without_required(tool: Bytes, defaults: &Map<String, Value>) -> Bytes {
    let Some(schema) = json::member(&tool, "inputSchema") else { return tool };
    let required =
        json::member(schema.as_bytes(), "required").and_then(|text| serde_json::from_str::<Vec<String>>(text).ok());
    let Some(required) = required else { return tool };
    let left: Vec<&String> = required.iter().filter(|name| !defaults.contains_key(*name)).collect();
    if left.len() == required.len() {
        return tool;
    }
    let schema = json::with_member(&Bytes::copy_from_slice(schema.as_bytes()), "required", &json!(left).to_string());
    json::with_member(&tool, "inputSchema", &String::from_utf8_lossy(&schema))
}

/// The error for a hidden tool: the same as for one that does not exist.
fn unknown(name: &str) -> ErrorObject {
    metrics::counter!("lockkeeper_gateway_unknown_names_total").increment(1);
    ErrorObject::invalid_params(&format!("Unknown tool: {name}"))
}

impl Server for ToolView {
    fn call(&self, call: Call) -> Reply {
        match call.method {
            Method::ToolsCall => self.call_tool(call),
            Method::ToolsList => {
                let view = self.clone();
                self.server.call(call).map(move |event| match event {
                    Event::Done(Outcome::Complete(list)) => Event::Done(Outcome::Complete(view.listed(&list))),
                    event => event,
                })
            }
            _ => self.server.call(call),
        }
    }

    fn expect(&self, client: &Context) {
        self.server.expect(client);
    }
}
