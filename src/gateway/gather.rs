//! Waits for the answers of several backends, up to a limit.
//!
//! At a cold start the wait is a short budget, counted from the start of each fetch, so that a silent backend delays
//! only the first calls. A single backend about which nothing is known is awaited to the end (`translation` 6.7), and
//! so is one whose change the reader knows about. If the list of an earlier run will do, there is no wait.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt as _, future::join_all, stream::FuturesUnordered};
use tokio::time::{sleep_until, timeout_at};

use super::catalog::Lookup;
use crate::mcp::ErrorObject;

/// Maximum wait for a value whose change a client knows about, counted from the start of its fetch.
const RENEWAL: Duration = Duration::from_millis(250);

/// A value, or why it is missing.
pub(crate) type Gathered<T> = Result<Arc<T>, ErrorObject>;

/// What to do if the budget runs out before any backend has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitPolicy {
    /// Return what there is, even if that is nothing.
    Budget,
    /// Wait for the first answer: an empty list would mislead.
    UntilOne,
}

/// Collects the values, in order. If one is missing, a change is reported when it arrives.
pub(crate) async fn gather<T: PartialEq>(
    asked: Vec<Lookup<T>>,
    budget: Duration,
    policy: WaitPolicy,
) -> Vec<Gathered<T>> {
    renewed(&asked).await;
    if let [one] = asked.as_slice()
        && (one.fallback.is_none() && !one.may_be_remembered || one.is_told)
    {
        return join_all(asked.into_iter().map(Lookup::wait)).await;
    }
    wait(&asked, budget, policy).await;
    asked.into_iter().map(Lookup::take).collect()
}

/// Waits a moment for values whose change a client knows about.
async fn renewed<T: PartialEq>(asked: &[Lookup<T>]) {
    let known = asked.iter().filter(|one| one.freshness.outdated && one.freshness.value.is_some());
    let settling = known.filter_map(|one| Some((one.freshness.began? + RENEWAL, one.cached.settled())));
    join_all(settling.map(|(deadline, settled)| timeout_at(deadline, settled))).await;
}

async fn wait<T: PartialEq>(asked: &[Lookup<T>], budget: Duration, policy: WaitPolicy) {
    let here = |one: &Lookup<T>| one.freshness.value.is_some() || one.fallback.is_some() || one.remembered().is_some();
    let mut some_here = asked.iter().any(here);
    // wait for a backend that failed before only if there is nothing else to return
    let waits = |one: &&Lookup<T>| {
        let is_shown = one.freshness.value.is_some() || one.remembered().is_some();
        !is_shown && (one.freshness.failure.is_none() || !some_here)
    };
    let waiting: Vec<_> = asked.iter().filter(waits).filter(|one| one.freshness.began.is_some()).collect();
    let Some(latest) = waiting.iter().filter_map(|one| one.freshness.began).max() else { return };
    let mut pending: FuturesUnordered<_> = waiting.iter().map(|one| one.available()).collect();
    let mut budget = std::pin::pin!(sleep_until(latest + budget));
    let mut used_up = false;
    loop {
        if used_up && (some_here || policy == WaitPolicy::Budget) {
            return;
        }
        tokio::select! {
            came = pending.next() => match came {
                None => return,
                Some(value) => some_here |= value,
            },
            () = budget.as_mut(), if !used_up => used_up = true,
        }
    }
}
