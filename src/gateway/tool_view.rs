//! A server whose tools follow the operator's rules: some are left out, others have another name, description or default
//! arguments. The rules hold for calls as for lists. Knows nothing of routes.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Map, Value, json, value::RawValue};
use tokio::{sync::Mutex as AsyncMutex, time::Instant};

use super::paths;
use crate::{
    mcp::{Call, Context, ErrorObject, Event, Method, Outcome, Payload, Reply, Server, json},
    model::{ToolRules, WritingTools},
};

/// The most tools whose annotations are kept.
const MAX_KNOWN: usize = 100_000;
/// The most pages that are read for the annotation of a tool.
const MAX_PAGES: usize = 100;
/// Time between two readings of a list for names that are not known.
const READ_AGAIN: Duration = Duration::from_secs(10);

/// A server whose tools follow rules. Clones share it.
#[derive(Clone)]
pub(crate) struct ToolView {
    server: Arc<dyn Server>,
    rules: Arc<ToolRules>,
    /// Own names of listed tools, and whether they change nothing.
    read_only: Arc<Mutex<HashMap<String, bool>>>,
    /// The last time at which the list was read for a name that was not known.
    last_read: Arc<AsyncMutex<Option<Instant>>>,
}

// === impl ToolView ===

impl ToolView {
    /// Puts rules on the tools of `server`.
    pub(crate) fn new(server: Arc<dyn Server>, rules: Arc<ToolRules>) -> Self {
        Self { server, rules, read_only: Arc::default(), last_read: Arc::default() }
    }

    /// True if the rules are these.
    pub(crate) fn follows(&self, rules: &ToolRules) -> bool {
        *self.rules == *rules
    }

    /// False if the rules leave out the tool that clients would see under this name, as far as it is known.
    pub(crate) fn may_offer(&self, shown: &str) -> bool {
        let Some(own) = self.rules.own(shown).filter(|own| self.rules.offers(own)) else { return false };
        self.rules.writing == WritingTools::Offered || self.read_only.lock().get(&own) != Some(&false)
    }

    /// The tools of a list that there are, as clients see them.
    fn listed(&self, list: &Payload) -> Payload {
        let Some(tools) = list.member("tools").and_then(|text| serde_json::from_str::<Vec<&RawValue>>(text).ok())
        else {
            return list.clone();
        };
        let tools: Vec<String> = tools.iter().filter_map(|tool| self.entry(tool.get())).collect();
        list.with("tools", &format!("[{}]", tools.join(",")))
    }

    /// An entry of a list as clients see it; `None` if they do not.
    fn entry(&self, tool: &str) -> Option<String> {
        // the catalog says what is wrong with a tool without a name
        let Some(own) = json::member(tool.as_bytes(), "name").and_then(json::unquote) else {
            return Some(tool.to_owned());
        };
        let annotations = json::member(tool.as_bytes(), "annotations").unwrap_or("{}");
        let changes_nothing = json::member(annotations.as_bytes(), "readOnlyHint") == Some("true");
        self.learn(&own, changes_nothing);
        if !self.rules.offers(&own) || (self.rules.writing == WritingTools::LeftOut && !changes_nothing) {
            return None;
        }
        let mut edited = Bytes::copy_from_slice(tool.as_bytes());
        let shown = self.rules.shown(&own);
        if self.rules.own(&shown).as_ref() != Some(&own) {
            // another one is called under this name
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

    fn learn(&self, own: &str, changes_nothing: bool) {
        let mut known = self.read_only.lock();
        if known.len() < MAX_KNOWN || known.contains_key(own) {
            known.insert(own.to_owned(), changes_nothing);
        }
    }

    fn call_tool(&self, call: Call) -> Reply {
        let found = call.params.find(paths::NAME);
        let Some(shown) = found.string(call.params.json()) else { return self.server.call(call) };
        let Some(own) = self.rules.own(&shown).filter(|own| self.rules.offers(own)) else {
            return Reply::failed(unknown(&shown));
        };
        let params = call.params.replaced(&found, &json::quote(&own));
        let params = self.with_arguments(&own, params);
        let call = Call { params, ..call };
        if self.rules.writing == WritingTools::Offered {
            return self.server.call(call);
        }
        let known = self.read_only.lock().get(&own).copied();
        match known {
            Some(true) => self.server.call(call),
            Some(false) => Reply::failed(unknown(&shown)),
            None => {
                let view = self.clone();
                Reply::later(async move {
                    if view.find_out(&own, &call.context).await {
                        view.server.call(call)
                    } else {
                        Reply::failed(unknown(&shown))
                    }
                })
            }
        }
    }

    /// Reads the server's list; true if it says that this tool changes nothing. Names that are not there cannot make it read
    /// the list again and again.
    async fn find_out(&self, own: &str, context: &Context) -> bool {
        let mut last_read = self.last_read.lock().await;
        let known = self.read_only.lock().get(own).copied();
        if let Some(changes_nothing) = known {
            return changes_nothing;
        }
        if last_read.is_some_and(|last| last.elapsed() < READ_AGAIN) {
            return false;
        }
        let found = self.read_list(own, context).await;
        *last_read = Some(Instant::now());
        found
    }

    async fn read_list(&self, own: &str, context: &Context) -> bool {
        let mut params = Payload::absent(context.client.revision);
        for _ in 0..MAX_PAGES {
            let call = Call { method: Method::ToolsList, params, context: context.clone() };
            let Outcome::Complete(page) = self.server.call(call).outcome().await else { return false };
            self.listed(&page);
            if let Some(changes_nothing) = self.read_only.lock().get(own) {
                return *changes_nothing;
            }
            let Some(cursor) = page.string("nextCursor") else { return false };
            params = Payload::of(context.client.revision, &serde_json::json!({ "cursor": cursor }));
        }
        false
    }

    /// The parameters with the default arguments that the call does not give.
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

/// A listed tool whose arguments with a default are not required.
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

/// The error of a tool that is left out: that of one that does not exist.
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

    fn expect(&self) {
        self.server.expect();
    }
}
