//! Forwards client notifications to every backend.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::{access::MessageVerdict, shared::GatewayState};
use crate::{
    mcp::{Call, Payload, Reply, Revision},
    model::Target,
};

/// Forwards a client's notification to every backend at `target` that the caller sees and may send it to. Skips
/// backends that do not accept it within the cold budget.
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
