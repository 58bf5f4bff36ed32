//! Tools that run only as tasks (`execution.taskSupport: required`, 2025-11-25), for clients that have no tasks
//! (`translation` 3.5): their calls ask for one. Knows nothing of how a task is waited for: that is the backend's.
//!
//! The lists of the catalog tell. An error is not asked for first: servers tell a call that had to be a task in several
//! ways, and what has been called once is not called again.

use std::sync::Arc;

use super::{
    catalog::{Catalog, Kind},
    gather::sole,
    set::Seen,
};
use crate::mcp::{Call, Context, Feature, Method, Reply};

/// The parameter that makes a call a task: how long it is kept is left to the server.
const TASK: (&str, &str) = ("task", "{}");

/// Calls this backend.
pub(crate) fn call(seen: &Seen, call: Call) -> Reply {
    let server = Arc::clone(&seen.mounted.server);
    let has_tasks = call.context.client.revision.has(Feature::CoreTasks);
    let catalog = &seen.mounted.catalog;
    if call.method != Method::ToolsCall || has_tasks || catalog.runs_tools_as_tasks() == Some(false) {
        return server.call(call);
    }
    let catalog = Arc::clone(catalog);
    Reply::later(async move {
        let Some(name) = call.params.string("name") else { return server.call(call) };
        if !runs_only_as_task(&catalog, &call.context, &name).await {
            return server.call(call);
        }
        let params = call.params.with(TASK.0, TASK.1);
        server.call(Call { params, ..call })
    })
}

/// Whether the tool of this (own) name says so. The list is waited for only where what is at hand does not have it.
async fn runs_only_as_task(catalog: &Arc<Catalog>, context: &Context, name: &str) -> bool {
    if catalog.runs_tools_as_tasks().is_none() {
        let about = sole(catalog.about(context)).await;
        if !about.is_ok_and(|about| about.runs_tools_as_tasks()) {
            return false;
        }
    }
    let asked = catalog.list(context, Kind::Tools);
    let at_hand = asked.look.value.clone().or_else(|| asked.fallback.clone());
    if let Some(only) = at_hand.and_then(|list| list.runs_only_as_task(name)) {
        return only;
    }
    sole(asked).await.is_ok_and(|list| list.runs_only_as_task(name) == Some(true))
}
