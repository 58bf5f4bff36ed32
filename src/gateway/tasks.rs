//! Tasks in the lists and capabilities that clients are shown, those of 2025-11-25 and those of the extension
//! (`translation` section 5). `tasks/list` is not offered on the merged endpoint: no cursor leads through several servers'
//! lists of tasks. Knows nothing of calls.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    backends::VisibleBackend,
    catalog::{List, ListKind, ServerInfo},
    gather::Gathered,
};
use crate::mcp::{
    Context, Feature, Payload,
    json::{self, At, At::Key},
};

/// The capability.
pub(crate) const CAPABILITY: &str = "tasks";

/// How a tool says that it can be called as a task, and need not (2025-11-25, tools).
const OPTIONAL: &str = r#"{"taskSupport":"optional"}"#;

/// What of the capability can be kept towards clients, where any backend has it: calls of tools as tasks, and cancelling.
pub(crate) fn capability(given: &[&ServerInfo]) -> Option<Value> {
    let has_tasks = |about: &ServerInfo| about.runs_tools_as_tasks() || about.extends_tasks();
    given.iter().any(|about| has_tasks(about)).then(|| {
        let mut kept = json!({ "requests": { "tools": { "call": {} } } });
        if given.iter().all(|about| !has_tasks(about) || about.cancels_tasks()) {
            kept["cancel"] = json!({});
        }
        kept
    })
}

/// Whose tools are to say that they can be called as tasks: without that word a client of 2025-11-25 must not do so, and
/// the extension of 2026-07-28, where the server decides, has no such word.
pub(crate) async fn takers(
    seen: &[VisibleBackend],
    given: &[Gathered<List>],
    kind: ListKind,
    context: &Context,
) -> Vec<bool> {
    let mut takers = vec![false; seen.len()];
    if kind != ListKind::Tools || !context.client.revision.has(Feature::CoreTasks) {
        return takers;
    }
    for ((taker, one), list) in takers.iter_mut().zip(seen).zip(given) {
        // whose tools were listed has said before what it is
        *taker = list.is_ok()
            && one.entry.catalog.server_info(context).wait().await.is_ok_and(|about| about.extends_tasks());
    }
    takers
}

/// A tool that says that it can be called as a task.
pub(crate) fn taking(tool: &Bytes) -> Bytes {
    json::with_member(tool, "execution", OPTIONAL)
}

/// A list of such tools.
pub(crate) fn taking_all(tools: &Payload) -> Payload {
    let taking = |tool: &str| String::from_utf8(taking(&Bytes::copy_from_slice(tool.as_bytes())).into()).ok();
    tools.rewrite(&[&[Key("tools"), At::Each]], taking)
}
