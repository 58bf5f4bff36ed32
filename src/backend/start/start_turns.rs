//! Turns of process starts. A few processes start at once; starts that a call waits for come first. Among these, users
//! take turns, and one user never holds all turns.
//!
//! A turn is held until the handshake, but no longer than [`MAX_HOLD`]: so a start that hangs does not delay the others
//! for longer.

use std::{
    collections::{BTreeMap, HashMap},
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

use crate::{
    model::{LimitsConfig, UserId},
    support::Live,
};

/// Maximum time that a start holds its turn. Most of a slow start is waiting for the network.
const MAX_HOLD: Duration = Duration::from_secs(10);

/// Turns of process starts, shared by all backends.
#[derive(Debug)]
pub(crate) struct StartTurns {
    queue: Mutex<StartQueue>,
    changed: Notify,
    limits: Live<LimitsConfig>,
    /// Number of processes that start at once if `parallel_starts` is not set: one for each processor, at least four,
    /// since most of a start is waiting.
    unset: usize,
}

/// Held turns and waiting starts, by number.
#[derive(Debug, Default)]
struct StartQueue {
    last: u64,
    held: BTreeMap<u64, HeldTurn>,
    /// By number, that is, in order of arrival.
    waiting: BTreeMap<u64, WaitingStart>,
    /// Number of the last turn of each user and of the gateway (`None`). Cleared when no start waits.
    served: HashMap<Option<UserId>, u64>,
    last_served: u64,
}

#[derive(Debug)]
struct HeldTurn {
    user: Option<UserId>,
    /// The time when it ends by itself.
    ends: Instant,
}

#[derive(Debug)]
struct WaitingStart {
    user: Option<UserId>,
    demand: Demand,
}

/// True while a call waits for the server. Clones share the state.
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
    /// Demand of a start that a call waits for from the beginning.
    pub(crate) fn present() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    fn is_present(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Clears the demand: the server has started.
    pub(crate) fn met(&self) {
        self.0.store(false, Ordering::Release);
    }
}

// === impl StartTurns ===

impl StartTurns {
    /// Creates the turns: `parallel_starts` at once, or as many as the number of processors suggests.
    pub(crate) fn new(limits: Live<LimitsConfig>) -> Arc<Self> {
        let unset = thread::available_parallelism().map_or(1, NonZero::get).max(4);
        Arc::new(Self { queue: Mutex::default(), changed: Notify::new(), limits, unset })
    }

    /// Records that a call waits for a start, which moves it ahead.
    pub(crate) fn demand(&self, demand: &Demand) {
        if !demand.0.swap(true, Ordering::AcqRel) {
            self.changed.notify_waiters();
        }
    }

    /// Waits for a turn for a start of this user, or of the gateway (`None`).
    pub(crate) async fn take(self: &Arc<Self>, user: Option<UserId>, demand: Demand) -> StartTurn {
        let number = {
            let mut queue = self.queue.lock();
            queue.last += 1;
            let number = queue.last;
            queue.waiting.insert(number, WaitingStart { user, demand });
            number
        };
        // if this is dropped during the wait, the start leaves the queue
        let turn = StartTurn { turns: Arc::clone(self), number };
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // from here on, no change is missed
            changed.as_mut().enable();
            let entered = self.queue.lock().enter(number, self.limits.get().parallel_starts.unwrap_or(self.unset));
            let Some(free_at) = entered else {
                // the next start may also find room
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
    /// Takes the turn of the start `number`. If it has to wait, returns when to check again.
    fn enter(&mut self, number: u64, max: usize) -> Option<Instant> {
        let now = Instant::now();
        self.held.retain(|_, held| held.ends > now);
        if self.held.len() < max && self.next(max) == Some(number) {
            if let Some(WaitingStart { user, .. }) = self.waiting.remove(&number) {
                self.last_served += 1;
                self.served.insert(user.clone(), self.last_served);
                self.held.insert(number, HeldTurn { user, ends: now + MAX_HOLD });
            }
            return None;
        }
        Some(self.held.values().map(|held| held.ends).min().unwrap_or(now + MAX_HOLD))
    }

    /// The start whose turn is next. Starts that a call waits for come first, then those of the user with the fewest
    /// turns, then of the user whose last turn is longest ago. The gateway counts as a user, but may hold all turns.
    fn next(&self, max: usize) -> Option<u64> {
        let mut turns: HashMap<&Option<UserId>, usize> = HashMap::new();
        for held in self.held.values() {
            *turns.entry(&held.user).or_default() += 1;
        }
        // one user leaves at least one turn to others
        let most = (max - max.div_ceil(8)).max(1);
        let order = |(number, start): (&u64, &WaitingStart)| {
            let held = turns.get(&start.user).copied().unwrap_or_default();
            let served = self.served.get(&start.user).copied().unwrap_or_default();
            (start.user.is_none() || held < most).then_some((!start.demand.is_present(), held, served, *number))
        };
        self.waiting.iter().filter_map(order).min().map(|(.., number)| number)
    }

    /// Removes a start that is over or was given up.
    fn leave(&mut self, number: u64) {
        self.waiting.remove(&number);
        self.held.remove(&number);
        if self.waiting.is_empty() {
            self.served.clear();
        }
    }
}

// === impl StartTurn ===

impl Drop for StartTurn {
    fn drop(&mut self) {
        let mut queue = self.turns.queue.lock();
        queue.leave(self.number);
        drop(queue);
        self.turns.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use futures_util::FutureExt as _;
    use tokio::time::advance;

    use super::*;

    fn turns(max: usize) -> Arc<StartTurns> {
        StartTurns::new(Live::new(LimitsConfig { parallel_starts: Some(max), ..LimitsConfig::default() }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_start_at_once_and_those_that_somebody_waits_for_come_first() {
        let turns = turns(2);
        let first = turns.take(None, Demand::default()).await;
        let _second = turns.take(None, Demand::default()).await;
        let mut third = Box::pin(turns.take(None, Demand::default()));
        let late = Demand::default();
        let mut fourth = Box::pin(turns.take(None, late.clone()));
        assert!(third.as_mut().now_or_never().is_none() && fourth.as_mut().now_or_never().is_none());
        turns.demand(&late);
        drop(first);
        assert!(third.as_mut().now_or_never().is_none(), "somebody waits for the fourth");
        let fourth = fourth.await;
        assert!(third.as_mut().now_or_never().is_none());
        drop(fourth);
        third.await;
    }

    /// Takes the starts whose turn it is, polling each once.
    fn given(starts: &mut Vec<Pin<Box<impl Future<Output = StartTurn>>>>) -> Vec<StartTurn> {
        let mut given = Vec::new();
        starts.retain_mut(|start| match start.as_mut().now_or_never() {
            Some(turn) => {
                given.push(turn);
                false
            }
            None => true,
        });
        given
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_with_many_starts_holds_up_nobody_elses() {
        let turns = turns(4);
        let [hostile, ann] = ["hostile", "ann"].map(|name| Some(UserId::new(name)));
        let take = |user: &Option<UserId>| Box::pin(turns.take(user.clone(), Demand::present()));
        let mut theirs: Vec<_> = (0..20).map(|_| take(&hostile)).collect();
        let held = given(&mut theirs);
        assert_eq!(held.len(), 3, "one turn is for others");
        let _first = take(&ann).now_or_never().unwrap();
        let mut hers = vec![take(&ann), take(&ann)];
        assert!(given(&mut hers).is_empty());
        drop(held);
        // that user holds no turn now, so gets the first of three
        let mut held = given(&mut theirs);
        assert_eq!(held.len(), 1);
        let second = given(&mut hers);
        assert_eq!(second.len(), 1, "then it is her turn, though they wait for longer");
        held.extend(given(&mut theirs));
        assert_eq!((held.len(), given(&mut hers).len()), (2, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_that_hangs_holds_its_turn_for_a_while_only() {
        let turns = turns(1);
        let hanging = turns.take(None, Demand::present()).await;
        let mut next = Box::pin(turns.take(None, Demand::default()));
        advance(MAX_HOLD / 2).await;
        assert!(next.as_mut().now_or_never().is_none());
        advance(MAX_HOLD / 2).await;
        let next = next.await;
        let mut last = Box::pin(turns.take(None, Demand::default()));
        // its turn has ended by itself
        drop(hanging);
        assert!(last.as_mut().now_or_never().is_none());
        drop(next);
        last.await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_that_is_given_up_holds_up_nobody() {
        let turns = turns(1);
        let first = turns.take(None, Demand::default()).await;
        let mut given_up = Box::pin(turns.take(None, Demand::present()));
        assert!(given_up.as_mut().now_or_never().is_none());
        let last = turns.take(None, Demand::default());
        drop(given_up);
        drop(first);
        last.await;
    }
}
