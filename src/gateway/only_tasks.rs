//! Calls of tools of servers that have tasks (2025-11-25), for clients that do not ask for them in that manner
//! (`translation` 3.5): a call of a tool that runs only as a task asks for one, and so does a call of any tool that can run
//! as one, where its client has the extension of 2026-07-28. Knows nothing of how a task is waited for: that is the
//! backend's.
//!
//! The lists of the catalog tell. An error is not asked for first: servers tell a call that had to be a task in several
//! ways, and what has been called once is not called again.

use std::sync::Arc;

use super::{
    backends::VisibleBackend,
    catalog::{Catalog, ListKind, TaskSupport},
};
use crate::mcp::{Call, Context, Feature, Method, Reply};

/// The parameter that makes a call a task: how long it is kept is left to the server.
const TASK: (&str, &str) = ("task", "{}");

/// Calls this backend.
pub(crate) fn call(seen: &VisibleBackend, call: Call) -> Reply {
    let server = Arc::clone(&seen.entry.server);
    let has_tasks = call.context.client.revision.has(Feature::CoreTasks);
    if call.method != Method::ToolsCall || has_tasks || seen.entry.catalog.runs_tools_as_tasks() == Some(false) {
        return server.call(call);
    }
    let entry = Arc::clone(&seen.entry);
    Reply::later(async move {
        let Some(name) = call.params.string("name") else { return server.call(call) };
        let asks = match support(&entry.catalog, &call.context, &name).await {
            TaskSupport::Required => true,
            TaskSupport::Optional => call.context.client.takes_tasks(),
            TaskSupport::Forbidden => false,
        };
        if !asks {
            return server.call(call);
        }
        let params = call.params.with(TASK.0, TASK.1);
        server.call(Call { params, ..call })
    })
}

/// How the tool of this (own) name takes tasks. The list is waited for only where what is at hand does not have it.
async fn support(catalog: &Catalog, context: &Context, name: &str) -> TaskSupport {
    if catalog.runs_tools_as_tasks().is_none() {
        let info = catalog.server_info(context).wait().await;
        if !info.is_ok_and(|info| info.runs_tools_as_tasks()) {
            return TaskSupport::Forbidden;
        }
    }
    let lookup = catalog.list(context, ListKind::Tools);
    if let Some(support) = lookup.at_hand().and_then(|list| list.task_support(name)) {
        return support;
    }
    lookup.wait().await.ok().and_then(|list| list.task_support(name)).unwrap_or(TaskSupport::Forbidden)
}
