//! The first result of each tool with an output schema, compared with that schema, so that the operator learns of a
//! server that breaks its own promise. Results pass unchanged.

use std::{
    collections::{BTreeMap, HashMap},
    sync::atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;

use super::output_schema::contradiction;
use crate::{
    mcp::{Payload, json::Object},
    support::printable_name,
};

/// Maximum size of a schema or a result that is checked, in bytes.
const MAX_SIZE: usize = 256 << 10;
/// Maximum number of tools that wait for their first result.
const MAX_TOOLS: usize = 1_000;
/// Maximum number of reported tools, and length of their names.
const MAX_TOLD: (usize, usize) = (10, 80);

/// The pending output schemas of one backend, and the findings so far.
#[derive(Debug, Default)]
pub(crate) struct OutputChecks {
    is_pending: AtomicBool,
    state: Mutex<ChecksState>,
}

#[derive(Debug, Default)]
struct ChecksState {
    /// The entries of tools with a schema.
    pending: HashMap<String, Bytes>,
    faults: BTreeMap<String, String>,
}

// === impl OutputChecks ===

impl OutputChecks {
    /// Checks the next result of each of these tools, by their entries in a list, and forgets earlier findings.
    pub(crate) fn expect<'a>(&self, tools: impl Iterator<Item = (&'a str, &'a Bytes)>) {
        let has_schema = |entry: &Bytes| Object::parse(entry).is_some_and(|entry| entry.get("outputSchema").is_some());
        let pending = tools.filter(|(_, entry)| entry.len() <= MAX_SIZE && has_schema(entry)).take(MAX_TOOLS);
        let pending = pending.map(|(name, entry)| (name.to_owned(), entry.clone())).collect();
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

    /// False if nothing is pending: then a call skips the rest.
    pub(super) fn is_pending(&self) -> bool {
        self.is_pending.load(Ordering::Relaxed)
    }

    pub(super) fn is_expected(&self, tool: &str) -> bool {
        self.state.lock().pending.contains_key(tool)
    }

    /// The schema of a tool, for a single check.
    fn take(&self, tool: &str) -> Option<Value> {
        let mut state = self.state.lock();
        let entry = state.pending.remove(tool);
        self.is_pending.store(!state.pending.is_empty(), Ordering::Relaxed);
        drop(state);
        Some(serde_json::from_slice::<Value>(&entry?).ok()?.get_mut("outputSchema")?.take())
    }

    pub(super) fn check(&self, tool: &str, result: &Payload) {
        if result.json().len() > MAX_SIZE {
            return;
        }
        let Some(result) = result.view::<Value>().filter(is_of_the_tool) else { return };
        let Some(schema) = self.take(tool) else { return };
        let fault = match result.get("structuredContent") {
            Some(content) => contradiction(&schema, content),
            None => Some("there is none".to_owned()),
        };
        if let Some(fault) = fault {
            self.state.lock().faults.insert(tool.to_owned(), fault);
        }
    }
}

/// True for a result of a tool, but not for an error, or for a task that will have the result.
fn is_of_the_tool(result: &Value) -> bool {
    let is_complete = result.get("resultType").is_none_or(|kind| kind == "complete");
    is_complete && result["isError"] != true && result.get("task").is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mcp::Revision;

    fn checked(result: &Value) -> (Vec<String>, bool) {
        let checks = OutputChecks::default();
        let entry = json!({ "name": "sum", "outputSchema": { "type": "object", "required": ["sum"] } }).to_string();
        checks.expect([("sum", &Bytes::from(entry)), ("plain", &Bytes::from_static(b"{}"))].into_iter());
        assert!(checks.is_expected("sum") && !checks.is_expected("plain"));
        checks.check("sum", &Payload::of(Revision::V2025_11_25, result));
        (checks.warnings(), checks.is_pending.load(Ordering::Relaxed))
    }

    #[test]
    fn a_result_of_a_tool_is_held_against_its_schema_and_nothing_else_is() {
        assert_eq!(checked(&json!({ "structuredContent": { "sum": 7 } })), (Vec::new(), false), "each tool once");
        for other in [json!({ "isError": true }), json!({ "task": { "taskId": "1" } }), json!({ "resultType": "task" })]
        {
            assert_eq!(checked(&other), (Vec::new(), true), "{other}");
        }
        let (told, _) = checked(&json!({ "structuredContent": {} }));
        let sentence =
            "the `structuredContent` of tool `sum` does not fit its `outputSchema`: /sum is missing; it is passed on";
        assert_eq!(told, [sentence]);
        assert!(checked(&json!({ "content": [] })).0[0].contains("there is none"));
    }
}
