//! The first result of each tool with an output schema, held against that schema, so that the operator hears of a server
//! that breaks its own promise. Results are passed on as they are. Knows nothing of lists.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use serde_json::Value;

use super::output_schema::contradiction;
use crate::{
    mcp::{Call, Event, Method, Outcome, Payload, Reply, Server},
    support::printable_name,
};

/// Maximum size of a schema or a result that is checked, in bytes.
const MAX_SIZE: usize = 256 << 10;
/// Maximum number of tools that wait for their first result.
const MAX_TOOLS: usize = 1_000;
/// Maximum number of tools that are told, and length of their names.
const MAX_TOLD: (usize, usize) = (10, 80);

/// The output schemas of one backend that are to be checked, and what was found.
#[derive(Debug, Default)]
pub(crate) struct OutputChecks {
    /// False if nothing is to be checked: then the path of a call skips the rest.
    is_pending: AtomicBool,
    state: Mutex<ChecksState>,
}

#[derive(Debug, Default)]
struct ChecksState {
    pending: HashMap<String, Value>,
    faults: BTreeMap<String, String>,
}

/// A server whose results are checked. Cheap to clone.
#[derive(Clone)]
pub(crate) struct CheckedOutputs {
    server: Arc<dyn Server>,
    checks: Arc<OutputChecks>,
}

// === impl OutputChecks ===

impl OutputChecks {
    /// Checks the next result of each of these tools, by their entries in a list; what was found before is forgotten.
    pub(crate) fn expect<'a>(&self, tools: impl Iterator<Item = (&'a str, &'a [u8])>) {
        let schema = |(name, entry): (&str, &[u8])| {
            let mut entry: Value = serde_json::from_slice(entry).ok()?;
            Some((name.to_owned(), entry.get_mut("outputSchema")?.take()))
        };
        let pending = tools.filter(|(_, entry)| entry.len() <= MAX_SIZE).filter_map(schema).take(MAX_TOOLS).collect();
        let mut state = self.state.lock();
        *state = ChecksState { pending, faults: BTreeMap::new() };
        self.is_pending.store(!state.pending.is_empty(), Ordering::Relaxed);
    }

    /// A sentence for each tool that breaks its schema.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let sentence = |(tool, fault): (&String, &String)| {
            let tool = printable_name(tool, MAX_TOLD.1);
            format!(
                "the `structuredContent` of tool `{tool}` does not fit its `outputSchema`: {fault}; it is passed on"
            )
        };
        self.state.lock().faults.iter().take(MAX_TOLD.0).map(sentence).collect()
    }

    fn take(&self, tool: &str) -> Option<Value> {
        let mut state = self.state.lock();
        let schema = state.pending.remove(tool);
        self.is_pending.store(!state.pending.is_empty(), Ordering::Relaxed);
        schema
    }

    fn check(&self, tool: &str, schema: &Value, result: &Payload) {
        if result.json().len() > MAX_SIZE {
            return;
        }
        let Some(result) = result.view::<Value>().filter(is_of_the_tool) else { return };
        let fault = match result.get("structuredContent") {
            Some(content) => contradiction(schema, content),
            None => Some("there is none".to_owned()),
        };
        if let Some(fault) = fault {
            self.state.lock().faults.insert(tool.to_owned(), fault);
        }
    }
}

/// True for a result of a tool, and not for an error or for the task that will have the result.
fn is_of_the_tool(result: &Value) -> bool {
    let is_complete = result.get("resultType").is_none_or(|kind| kind == "complete");
    is_complete && result["isError"] != true && result.get("task").is_none()
}

// === impl CheckedOutputs ===

impl CheckedOutputs {
    /// The server whose results are checked by `checks`.
    pub(crate) const fn new(server: Arc<dyn Server>, checks: Arc<OutputChecks>) -> Self {
        Self { server, checks }
    }
}

impl Server for CheckedOutputs {
    fn call(&self, call: Call) -> Reply {
        if !self.checks.is_pending.load(Ordering::Relaxed) || call.method != Method::ToolsCall {
            return self.server.call(call);
        }
        let tool = call.params.string("name").unwrap_or_default();
        let Some(schema) = self.checks.take(&tool) else { return self.server.call(call) };
        let checks = Arc::clone(&self.checks);
        self.server.call(call).map(move |event| {
            if let Event::Done(Outcome::Complete(result)) = &event {
                checks.check(&tool, &schema, result);
            }
            event
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mcp::Revision;

    fn checked(result: &Value) -> Vec<String> {
        let checks = OutputChecks::default();
        let entry = json!({ "name": "sum", "outputSchema": { "type": "object", "required": ["sum"] } }).to_string();
        checks.expect([("sum", entry.as_bytes()), ("plain", b"{}")].into_iter());
        assert!(checks.take("plain").is_none());
        let schema = checks.take("sum").unwrap();
        assert!(!checks.is_pending.load(Ordering::Relaxed), "each tool once");
        checks.check("sum", &schema, &Payload::of(Revision::V2025_11_25, result));
        checks.warnings()
    }

    #[test]
    fn a_result_of_a_tool_is_held_against_its_schema_and_nothing_else_is() {
        for fine in [
            json!({ "structuredContent": { "sum": 7 } }),
            json!({ "isError": true }),
            json!({ "task": { "taskId": "1" } }),
            json!({ "resultType": "task" }),
        ] {
            assert_eq!(checked(&fine), [""; 0], "{fine}");
        }
        let [told] = &checked(&json!({ "structuredContent": {} }))[..] else { panic!() };
        assert_eq!(
            told,
            "the `structuredContent` of tool `sum` does not fit its `outputSchema`: /sum is missing; it is passed on"
        );
        assert!(checked(&json!({ "content": [] }))[0].contains("there is none"));
    }
}
