//! Turns of process starts: a few processes start at once, those that somebody waits for first. Knows nothing of
//! processes.
//!
//! A turn is held until the handshake, but no longer than [`MAX_HOLD`]: a start that hangs does not hold up the others.

use std::{
    collections::BTreeMap,
    num::NonZero,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::{model::LimitsConfig, support::Live};

/// The longest that a start holds its turn. Most of a slow start is waiting for a network.
const MAX_HOLD: Duration = Duration::from_secs(10);

/// Turns of process starts, shared by all backends.
#[derive(Debug)]
pub(crate) struct StartTurns {
    queue: Mutex<StartQueue>,
    changed: Notify,
    limits: Live<LimitsConfig>,
    /// Processes that start at once unless `parallel_starts` is set: at least four, since most of a start is waiting.
    unset: usize,
}

/// Held turns and waiting starts, by number.
#[derive(Debug, Default)]
struct StartQueue {
    last: u64,
    /// With the time at which each ends by itself.
    held: BTreeMap<u64, Instant>,
    /// In order of arrival.
    waiting: BTreeMap<u64, Demand>,
}

/// The demand for a start: set once somebody waits for the server. Clones share the state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Demand(Arc<AtomicBool>);

/// The right to start a process now. Dropping it passes the turn on.
#[derive(Debug)]
pub(crate) struct StartTurn {
    turns: Arc<StartTurns>,
    number: u64,
}

// === impl Demand ===

impl Demand {
    /// The demand of a start that somebody waits for.
    pub(crate) fn present() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// True if somebody waits.
    fn is_present(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Nobody waits any more: the server has started.
    pub(crate) fn met(&self) {
        self.0.store(false, Ordering::Release);
    }
}

// === impl StartTurns ===

impl StartTurns {
    /// Creates turns for as many starts at once as `parallel_starts` says.
    pub(crate) fn new(limits: Live<LimitsConfig>) -> Arc<Self> {
        let unset = thread::available_parallelism().map_or(1, NonZero::get).max(4);
        Arc::new(Self { queue: Mutex::default(), changed: Notify::new(), limits, unset })
    }

    /// Marks a start as one that somebody waits for.
    pub(crate) fn demand(&self, demand: &Demand) {
        if !demand.0.swap(true, Ordering::AcqRel) {
            self.changed.notify_waiters();
        }
    }

    /// Waits for a turn: those with a demand come first, else in order of arrival.
    pub(crate) async fn take(self: &Arc<Self>, demand: Demand) -> StartTurn {
        let number = {
            let mut queue = self.queue.lock();
            queue.last += 1;
            let number = queue.last;
            queue.waiting.insert(number, demand);
            number
        };
        // dropped early, it leaves the queue
        let turn = StartTurn { turns: Arc::clone(self), number };
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // no change is missed after this point
            changed.as_mut().enable();
            let entered = self.queue.lock().enter(number, self.limits.get().parallel_starts.unwrap_or(self.unset));
            let Some(free_at) = entered else {
                // there may be room for the next one
                self.changed.notify_waiters();
                return turn;
            };
            tokio::select! {
                () = changed => {}
                () = sleep_until(free_at) => {}
            }
        }
    }
}

// === impl StartQueue ===

impl StartQueue {
    /// Takes the turn of the start `number`; returns the time of the next check if it has to wait.
    fn enter(&mut self, number: u64, max: usize) -> Option<Instant> {
        let now = Instant::now();
        self.held.retain(|_, ends| *ends > now);
        let first = self.waiting.iter().min_by_key(|(number, demand)| (!demand.is_present(), **number));
        let is_first = first.is_some_and(|(first, _)| *first == number);
        if is_first && self.held.len() < max {
            self.waiting.remove(&number);
            self.held.insert(number, now + MAX_HOLD);
            return None;
        }
        Some(self.held.values().min().copied().unwrap_or(now + MAX_HOLD))
    }
}

// === impl StartTurn ===

impl Drop for StartTurn {
    fn drop(&mut self) {
        let mut queue = self.turns.queue.lock();
        queue.waiting.remove(&self.number);
        queue.held.remove(&self.number);
        drop(queue);
        self.turns.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::time::advance;

    use super::*;

    fn turns(max: usize) -> Arc<StartTurns> {
        StartTurns::new(Live::new(LimitsConfig { parallel_starts: Some(max), ..LimitsConfig::default() }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_start_at_once_and_those_that_somebody_waits_for_come_first() {
        let turns = turns(2);
        let first = turns.take(Demand::default()).await;
        let _second = turns.take(Demand::default()).await;
        let mut third = Box::pin(turns.take(Demand::default()));
        let late = Demand::default();
        let mut fourth = Box::pin(turns.take(late.clone()));
        assert!(third.as_mut().now_or_never().is_none() && fourth.as_mut().now_or_never().is_none());
        turns.demand(&late);
        drop(first);
        assert!(third.as_mut().now_or_never().is_none(), "somebody waits for the fourth");
        let fourth = fourth.await;
        assert!(third.as_mut().now_or_never().is_none());
        drop(fourth);
        third.await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_that_hangs_holds_its_turn_for_a_while_only() {
        let turns = turns(1);
        let hanging = turns.take(Demand::present()).await;
        let mut next = Box::pin(turns.take(Demand::default()));
        advance(MAX_HOLD / 2).await;
        assert!(next.as_mut().now_or_never().is_none());
        advance(MAX_HOLD / 2).await;
        let next = next.await;
        let mut last = Box::pin(turns.take(Demand::default()));
        // its turn ended by itself
        drop(hanging);
        assert!(last.as_mut().now_or_never().is_none());
        drop(next);
        last.await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_that_is_given_up_holds_up_nobody() {
        let turns = turns(1);
        let first = turns.take(Demand::default()).await;
        let mut given_up = Box::pin(turns.take(Demand::present()));
        assert!(given_up.as_mut().now_or_never().is_none());
        let last = turns.take(Demand::default());
        drop(given_up);
        drop(first);
        last.await;
    }
}
