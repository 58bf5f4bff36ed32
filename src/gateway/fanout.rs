//! Messages to every backend: the log level, and client notifications. Knows nothing of their content.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::{
    access::{MessageVerdict, VisibleBackend},
    shared::GatewayState,
};
use crate::{
    mcp::{Call, Payload, Reply, Revision},
    model::Target,
};

/// Notifies every backend at `target` that the caller sees and may notify of this. Those that do not accept it within the cold budget are skipped.
pub(crate) fn notify(shared: &Arc<GatewayState>, target: Target, call: Call) -> Reply {
    let shared = Arc::clone(shared);
    Reply::later(async move {
        let seen = shared.backends.load().all_visible(&target, &call.context.caller);
        let open = seen.iter().filter(|one| matches!(one.message(&call), MessageVerdict::Open));
        let told = open.map(|one| one.entry.server.call(call.clone()).outcome());
        join_all(told.map(|told| timeout(shared.settings.cold_budget, told))).await;
        Reply::complete(Payload::absent(Revision::NEWEST_LEGACY))
    })
}

/// Sets the log level at each of `seen`. Each stores it for sessions that it opens, and sends it to its server if that
/// declares `logging`; so the answer is never an error (`translation` 3.4, LOG). A slow backend gets it in the
/// background: the client waits at most for the cold budget.
pub(crate) fn set_level(shared: &Arc<GatewayState>, seen: Vec<VisibleBackend>, call: Call) -> Reply {
    let shared = Arc::clone(shared);
    Reply::later(async move {
        let told: Vec<_> = seen
            .iter()
            .map(|one| {
                let told = one.entry.server.call(call.clone()).outcome();
                shared.deps.tracker.spawn(shared.deps.cancel.clone().run_until_cancelled_owned(told))
            })
            .collect();
        join_all(told.into_iter().map(|told| timeout(shared.settings.cold_budget, told))).await;
        Reply::complete(Payload::empty(Revision::NEWEST_LEGACY))
    })
}
