//! Waiting for what several backends were asked, and for how long. Knows nothing of what it is.
//!
//! A cold start waits for a short budget, counted from the start of each fetch, so that a backend which never answers
//! delays the first calls alone. A sole backend of which nothing is known is waited for to the end (`translation` 6.7), and so
//! is one whose reader was told of a change.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt as _, future::join_all, stream::FuturesUnordered};
use tokio::time::sleep_until;

use super::catalog::Asked;
use crate::mcp::ErrorObject;

/// What there is to give.
pub(crate) type Given<T> = Result<Arc<T>, ErrorObject>;

/// What happens when the budget is used up and no backend has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Nothing is given.
    Budget,
    /// The first answer is waited for: an empty list would mislead.
    UntilOne,
}

/// What each asked one has to give, in their order. Those who come later are owed: a change is told when they come.
pub(crate) async fn gather<T: PartialEq>(asked: Vec<Asked<T>>, budget: Duration, patience: Patience) -> Vec<Given<T>> {
    if let [one] = asked.as_slice()
        && (one.fallback.is_none() || one.is_told)
    {
        return join_all(asked.into_iter().map(sole)).await;
    }
    wait(&asked, budget, patience).await;
    asked.into_iter().map(give).collect()
}

/// What the only one that was asked has to give, waited for to the end.
pub(crate) async fn sole<T: PartialEq>(asked: Asked<T>) -> Given<T> {
    if asked.look.value.is_none() {
        asked.cell.settled().await;
    }
    give(asked)
}

async fn wait<T: PartialEq>(asked: &[Asked<T>], budget: Duration, patience: Patience) {
    let here = |one: &Asked<T>| one.look.value.is_some() || one.fallback.is_some();
    let mut some_here = asked.iter().any(here);
    // One that failed before is waited for only where there is nothing else to give.
    let waits = |one: &&Asked<T>| one.look.value.is_none() && (one.look.failure.is_none() || !some_here);
    let waiting: Vec<_> = asked.iter().filter(waits).filter(|one| one.look.began.is_some()).collect();
    let Some(latest) = waiting.iter().filter_map(|one| one.look.began).max() else { return };
    let mut pending: FuturesUnordered<_> = waiting
        .iter()
        .map(|one| async {
            one.cell.settled().await;
            one.cell.value().is_some()
        })
        .collect();
    let mut budget = std::pin::pin!(sleep_until(latest + budget));
    let mut used_up = false;
    loop {
        if used_up && (some_here || patience == Patience::Budget) {
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

fn give<T: PartialEq>(one: Asked<T>) -> Given<T> {
    if let Some(value) = one.cell.value() {
        return Ok(value);
    }
    one.cell.owe(one.fallback.clone());
    // It may have come between the two lines above.
    if let Some(value) = one.cell.value().or(one.fallback) {
        return Ok(value);
    }
    Err(one.cell.look(Duration::MAX).failure.unwrap_or_else(|| ErrorObject::internal("The backend is still starting.")))
}
