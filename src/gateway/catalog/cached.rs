//! A value that is fetched from a backend and served from memory.
//!
//! At most one fetch runs at a time, for all readers. After a failure the old value stays: a restarted backend will
//! offer it again.

use std::{
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use crate::{
    mcp::ErrorObject,
    model::BackendId,
    support::{
        Account,
        memory::{Holding, Listed, Relief},
    },
};

/// Pause before a failed fetch is retried.
const RETRY: Duration = Duration::from_secs(1);
/// Pause after a fetch for a reported change that found no change. Starts with the second such fetch in a row, and
/// doubles with each further one.
const CALM: Duration = Duration::from_millis(200);
/// Maximum of these pauses. Later reports start again without a pause.
const LONGEST_CALM: Duration = Duration::from_mins(1);

/// A value that is fetched, cached and refreshed.
pub(crate) struct Cached<T> {
    state: Mutex<CachedState<T>>,
    /// Number of finished fetches.
    rounds: watch::Sender<u64>,
    /// Set once the value is charged to an account.
    listed: OnceLock<Listed>,
}

struct CachedState<T> {
    value: Option<Arc<T>>,
    failure: Option<ErrorObject>,
    /// Number of the running or latest fetch.
    round: u64,
    /// The time when the running fetch began.
    began: Option<Instant>,
    /// The time when the last fetch ended.
    ended: Option<Instant>,
    /// The time when a fetch last brought a value that differs from the one that clients had.
    changed: Option<Instant>,
    /// True if the backend reported a change since the running or last fetch started.
    stale: bool,
    /// History of such reports.
    reports: ChangeReports,
    /// True if a client knows about a change that the value does not have.
    outdated: bool,
    /// What clients got in place of a missing value: nothing, or another value.
    to_notify: Option<Substitute<T>>,
    /// The value of an earlier run, until a new one arrives.
    remembered: Option<Arc<T>>,
}

/// History of fetches for reported changes.
#[derive(Default)]
struct ChangeReports {
    /// True if the running or latest fetch was for a reported change.
    is_fetched: bool,
    /// Number of such fetches in a row that found no change.
    fruitless: u32,
    /// True if a fetch is planned for the end of a pause.
    is_planned: bool,
}

/// What clients got in place of a missing value.
enum Substitute<T> {
    Nothing,
    Another(Arc<T>),
}

/// The content of a [`Cached`], and how fresh it is.
pub(crate) struct Freshness<T> {
    pub(crate) value: Option<Arc<T>>,
    pub(crate) failure: Option<ErrorObject>,
    pub(crate) began: Option<Instant>,
    /// True if it should be fetched now.
    pub(crate) due: bool,
    /// The time to check again if it is due.
    pub(crate) due_at: Instant,
    /// True if a client knows about a change that the value does not have.
    pub(crate) outdated: bool,
}

pub(crate) struct Lookup<T> {
    /// The cache that a running fetch will fill.
    pub(crate) cached: Arc<Cached<T>>,
    pub(crate) freshness: Freshness<T>,
    /// The gateway's own list, to use until the cache is filled.
    pub(crate) fallback: Option<Arc<T>>,
    /// True if the reader knows about a change. If it reads only this backend, it waits for the new value.
    pub(crate) is_told: bool,
    /// True if the value of an earlier run will do until there is a new one.
    pub(crate) may_be_remembered: bool,
    pub(crate) backend: BackendId,
}

/// Outcome of a fetch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FetchEnd {
    /// True if the value differs from the one that clients have.
    pub(crate) changed: bool,
    /// True if the value became stale during the fetch, so that it must be fetched again.
    pub(crate) again: bool,
}

// === impl Cached ===

impl<T: PartialEq> Cached<T> {
    /// Creates an empty cache, which is due.
    pub(crate) fn new() -> Self {
        let state = CachedState {
            value: None,
            failure: None,
            round: 0,
            began: None,
            ended: None,
            changed: None,
            stale: true,
            reports: ChangeReports::default(),
            outdated: false,
            to_notify: None,
            remembered: None,
        };
        Self { state: Mutex::new(state), rounds: watch::Sender::new(0), listed: OnceLock::new() }
    }

    /// The current state. A value is due if it is stale and no pause delays it, or if it is older than `refresh`; after
    /// a failure, one second later.
    pub(crate) fn look(&self, refresh: Duration) -> Freshness<T> {
        let state = self.state.lock();
        let rested = |pause| state.ended.is_none_or(|ended| ended.elapsed() >= pause);
        let due = state.began.is_none()
            && match (&state.failure, &state.value) {
                (Some(_), _) => rested(RETRY),
                (None, Some(_)) => state.stale && state.calm().is_none() || rested(refresh),
                (None, None) => true,
            };
        let now = Instant::now();
        let due_at = match (state.began, state.ended) {
            (None, Some(ended)) if state.failure.is_none() && !state.stale => {
                ended.checked_add(refresh).unwrap_or_else(|| now + RETRY)
            }
            // a running fetch may fail, so check again then
            _ => now + RETRY,
        };
        let CachedState { value, failure, began, outdated, .. } = &*state;
        Freshness { value: value.clone(), failure: failure.clone(), began: *began, due, due_at, outdated: *outdated }
    }

    /// Plans a fetch for a reported change, delayed because the reports before it were false alarms. Returns the delay;
    /// `None` if no delay applies, or a fetch is already planned.
    pub(crate) fn plan(&self) -> Option<Duration> {
        let mut state = self.state.lock();
        if !state.stale || state.reports.is_planned || state.began.is_some() {
            return None;
        }
        let calm = state.calm()?;
        state.reports.is_planned = true;
        Some(calm)
    }

    /// True if the next fetch for a reported change is delayed, because earlier reports were false alarms.
    pub(crate) fn is_kept(&self) -> bool {
        self.state.lock().calm().is_some()
    }

    /// Ends the pause of a planned fetch: it may run now.
    pub(crate) fn planned(&self) {
        self.state.lock().reports.is_planned = false;
    }

    /// Marks a fetch as running; false if one is already.
    pub(crate) fn begin(&self) -> bool {
        let mut state = self.state.lock();
        if state.began.is_some() {
            return false;
        }
        state.began = Some(Instant::now());
        state.round += 1;
        state.reports.is_fetched = state.stale && state.value.is_some();
        state.stale = false;
        true
    }

    /// True if the running fetch is the first.
    pub(crate) fn is_first_fetch(&self) -> bool {
        self.state.lock().round == 1
    }

    /// Records how the running fetch ended; others may share the value.
    pub(crate) fn finish<V: Into<Arc<T>>>(&self, outcome: Result<V, ErrorObject>) -> FetchEnd {
        let settled = self.note(outcome.map(Into::into));
        self.rounds.send_modify(|rounds| *rounds += 1);
        settled
    }

    fn note(&self, outcome: Result<Arc<T>, ErrorObject>) -> FetchEnd {
        let mut state = self.state.lock();
        state.began = None;
        state.ended = Some(Instant::now());
        state.outdated &= state.stale;
        let again = state.stale;
        match outcome {
            Err(failure) => {
                state.failure = Some(failure);
                state.stale = true;
                FetchEnd { changed: false, again }
            }
            Ok(value) => {
                state.failure = None;
                let is_other = |given: &Arc<T>| !Arc::ptr_eq(given, &value) && **given != *value;
                let changed = match (&state.to_notify, &state.value) {
                    (Some(Substitute::Nothing), _) => true,
                    (Some(Substitute::Another(given)), _) => is_other(given),
                    (None, Some(old)) => is_other(old),
                    (None, None) => false,
                };
                state.to_notify = None;
                let is_same = state.value.as_ref().is_some_and(|old| Arc::ptr_eq(old, &value) || **old == *value);
                state.reports.fruitless =
                    if is_same && state.reports.is_fetched { state.reports.fruitless.saturating_add(1) } else { 0 };
                if changed {
                    state.changed = state.ended;
                }
                // values that are equal for clients may differ in metadata
                state.value = Some(value);
                state.remembered = None;
                FetchEnd { changed, again }
            }
        }
    }

    /// Stores the value of an earlier run, for readers that wait for a first one.
    pub(crate) fn remember(&self, value: Arc<T>) {
        let mut state = self.state.lock();
        if state.value.is_none() {
            state.remembered = Some(value);
        }
        drop(state);
        self.rounds.send_modify(|_| {});
    }

    /// The value of an earlier run, until there is a new one.
    pub(crate) fn remembered(&self) -> Option<Arc<T>> {
        self.state.lock().remembered.clone()
    }

    /// Records what clients got in place of the missing value: `instead`, or nothing.
    pub(crate) fn notify_later(&self, instead: Option<Arc<T>>) {
        let mut state = self.state.lock();
        if state.value.is_none() {
            state.to_notify = Some(instead.map_or(Substitute::Nothing, Substitute::Another));
        }
    }

    /// Records that the value changed at the backend. Returns false if that was known.
    pub(crate) fn invalidate(&self) -> bool {
        let mut state = self.state.lock();
        let is_news = !std::mem::replace(&mut state.stale, true);
        // a change reported during a fetch may be the one being fetched
        let is_rested = state.began.is_none() && state.ended.is_some_and(|ended| ended.elapsed() > LONGEST_CALM);
        if is_rested {
            state.reports.fruitless = 0;
        }
        is_news
    }

    /// Records that a client knows about a change at the backend: readers wait a moment for the new value.
    pub(crate) fn outdate(&self) {
        self.state.lock().outdated = true;
    }

    /// Makes the value due at once, regardless of earlier fetches.
    pub(crate) fn demand(&self) {
        let mut state = self.state.lock();
        (state.stale, state.reports.fruitless) = (true, 0);
    }

    /// Makes the value due if its fetch ended this long ago.
    pub(crate) fn expire(&self, age: Duration) {
        let mut state = self.state.lock();
        if state.ended.is_some_and(|ended| ended.elapsed() >= age) {
            (state.stale, state.reports.fruitless) = (true, 0);
        }
    }

    /// Forgets a failed fetch, because its cause is gone. If the running fetch fails, it is repeated at once.
    pub(crate) fn forget_failure(&self) {
        let mut state = self.state.lock();
        state.stale |= state.failure.take().is_some() || state.began.is_some();
    }

    /// The error for a missing value of this backend.
    pub(crate) fn failure(&self, backend: &BackendId) -> ErrorObject {
        let failure = self.state.lock().failure.clone();
        failure.unwrap_or_else(|| ErrorObject::internal("it is still starting").about(backend))
    }

    pub(crate) fn changed_within(&self, time: Duration) -> bool {
        self.state.lock().changed.is_some_and(|changed| changed.elapsed() < time)
    }

    pub(crate) fn value(&self) -> Option<Arc<T>> {
        self.state.lock().value.clone()
    }

    /// Waits for the running fetch and, if the backend has reported a change since it began, for the next one. Does not
    /// wait for later reports, which may never stop.
    pub(crate) async fn settled(&self) {
        self.settled_unless(|_| false).await;
    }

    /// The same, but ends as soon as there is a value of an earlier run.
    pub(crate) async fn settled_or_remembered(&self) {
        self.settled_unless(|state| state.remembered.is_some()).await;
    }

    async fn settled_unless(&self, is_enough: impl Fn(&CachedState<T>) -> bool) {
        let mut rounds = self.rounds.subscribe();
        let last = {
            let state = self.state.lock();
            state.round + u64::from(state.stale)
        };
        let runs = || {
            let state = self.state.lock();
            state.began.is_some() && state.round <= last && !is_enough(&state)
        };
        while runs() {
            if rounds.changed().await.is_err() {
                return;
            }
        }
    }
}

impl<T> CachedState<T> {
    /// The rest of the pause after fetches that found no change.
    fn calm(&self) -> Option<Duration> {
        let doublings = self.reports.fruitless.checked_sub(2)?;
        let calm = CALM.saturating_mul(1 << doublings.min(16)).min(LONGEST_CALM);
        calm.checked_sub(self.ended?.elapsed()).filter(|rest| !rest.is_zero())
    }
}

impl<T: PartialEq + Send + Sync + 'static> Cached<T> {
    /// Lets the account, which pays for the value, drop it when memory is short.
    pub(crate) fn is_paid_by(self: &Arc<Self>, account: &Account) {
        self.listed.get_or_init(|| {
            let holding: Weak<Self> = Arc::downgrade(self);
            account.list(holding)
        });
    }
}

impl<T: Send + Sync> Holding for Cached<T> {
    fn give_up(&self, _: &Account, relief: Relief) {
        if relief != Relief::Lists {
            return;
        }
        let Some(mut state) = self.state.try_lock() else { return };
        let (dropped, remembered) = (state.value.take(), state.remembered.take());
        if dropped.is_some() || remembered.is_some() {
            // it may change while it is missing, so it is stale
            (state.stale, state.to_notify) = (true, Some(Substitute::Nothing));
        }
        drop(state);
        drop((dropped, remembered));
    }
}

// === impl Lookup ===

impl<T: PartialEq> Lookup<T> {
    /// The current value itself, without a substitute.
    pub(crate) fn own(&self) -> Option<&Arc<T>> {
        self.freshness.value.as_ref()
    }

    /// The current value or its substitute.
    pub(crate) fn at_hand(&self) -> Option<Arc<T>> {
        self.freshness.value.clone().or_else(|| self.fallback.clone())
    }

    /// The value of an earlier run, if that will do.
    pub(crate) fn remembered(&self) -> Option<Arc<T>> {
        if self.may_be_remembered { self.cached.remembered() } else { None }
    }

    /// Waits until there is a usable value, or the fetch has failed. Returns true if there is a value.
    pub(crate) async fn available(&self) -> bool {
        if self.may_be_remembered {
            self.cached.settled_or_remembered().await;
        } else {
            self.cached.settled().await;
        }
        self.cached.value().is_some() || self.remembered().is_some()
    }

    /// Waits for the value until the fetch ends.
    pub(crate) async fn wait(self) -> Result<Arc<T>, ErrorObject> {
        if self.freshness.value.is_none() {
            self.cached.settled().await;
        }
        self.take()
    }

    /// The value or its substitute. A reader who gets a substitute or nothing is notified later.
    pub(crate) fn take(self) -> Result<Arc<T>, ErrorObject> {
        if let Some(value) = self.cached.value() {
            return Ok(value);
        }
        let instead = self.remembered().or_else(|| self.fallback.clone());
        self.cached.notify_later(instead.clone());
        // it may have arrived since the first look
        if let Some(value) = self.cached.value().or(instead) {
            return Ok(value);
        }
        Err(self.cached.failure(&self.backend))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);
    const SAME: FetchEnd = FetchEnd { changed: false, again: false };

    fn failure() -> ErrorObject {
        ErrorObject::internal("down")
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_is_due_when_it_is_old_or_stale() {
        let cached = Cached::new();
        assert!(cached.look(MINUTE).due);
        assert!(cached.begin() && !cached.begin());
        assert!(!cached.look(MINUTE).due);
        assert_eq!(cached.finish(Ok(1)), SAME);
        assert!(!cached.look(MINUTE).due);
        cached.invalidate();
        assert!(cached.look(MINUTE).due);
        cached.begin();
        cached.finish(Ok(1));
        tokio::time::advance(MINUTE).await;
        assert!(cached.look(MINUTE).due);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_keeps_the_old_value_and_is_tried_again_soon() {
        let cached = Cached::new();
        cached.begin();
        cached.finish(Ok(1));
        cached.begin();
        cached.finish(Err::<i32, _>(failure()));
        assert_eq!(cached.value().as_deref(), Some(&1));
        assert!(!cached.look(MINUTE).due);
        tokio::time::advance(RETRY).await;
        assert!(cached.look(MINUTE).due);
    }

    #[tokio::test]
    async fn whoever_waits_gets_what_the_next_whole_round_gives_though_changes_go_on() {
        let cached = Cached::new();
        cached.begin();
        let mut first = Box::pin(cached.settled());
        assert!(first.as_mut().now_or_never().is_none());
        // a change reported after this fetch began
        cached.invalidate();
        let mut told = Box::pin(cached.settled());
        assert!(told.as_mut().now_or_never().is_none());
        assert!(cached.finish(Ok(1)).again && cached.begin());
        assert!(first.as_mut().now_or_never().is_some());
        cached.invalidate();
        assert!(told.as_mut().now_or_never().is_none(), "the round that ended knew nothing of its change");
        assert!(cached.finish(Ok(2)).again && cached.begin());
        assert!(told.as_mut().now_or_never().is_some());
        assert_eq!(cached.value().as_deref(), Some(&2));
    }

    #[tokio::test(start_paused = true)]
    async fn reports_of_no_change_are_followed_with_growing_pauses() {
        let cached = Cached::new();
        let fetch = |value| {
            assert!(cached.begin());
            cached.finish(Ok(value))
        };
        fetch(1);
        let mut pauses = Vec::new();
        for _ in 0..14 {
            cached.invalidate();
            let pause = cached.plan();
            assert_eq!(cached.look(LONGEST_CALM * 9).due, pause.is_none());
            assert_eq!(cached.plan(), None, "it is planned once");
            tokio::time::advance(pause.unwrap_or_default()).await;
            cached.planned();
            assert!(cached.look(LONGEST_CALM * 9).due);
            fetch(1);
            pauses.push(pause.map_or(0, |pause| pause.as_millis()));
        }
        assert_eq!(pauses[..6], [0, 0, 200, 400, 800, 1600]);
        assert_eq!(pauses[10..], [51_200, 60_000, 60_000, 60_000]);
        // a report may arrive before the response that already contains the change
        cached.invalidate();
        tokio::time::advance(cached.plan().unwrap() + Duration::from_millis(1)).await;
        cached.planned();
        assert!(cached.begin());
        cached.invalidate();
        cached.finish(Ok(1));
        assert_eq!(cached.plan(), Some(LONGEST_CALM));
        cached.invalidate();
        assert!(!cached.look(LONGEST_CALM * 9).due);
        cached.demand();
        assert!(cached.look(LONGEST_CALM * 9).due, "somebody needs it now");
        assert!(fetch(2).changed);
        cached.invalidate();
        assert!(cached.look(LONGEST_CALM * 9).due, "a change ends the pauses");
    }

    #[tokio::test(start_paused = true)]
    async fn a_report_after_a_quiet_minute_counts_like_the_first() {
        let cached = Cached::new();
        for _ in 0..5 {
            cached.invalidate();
            cached.begin();
            cached.finish(Ok(1));
        }
        cached.invalidate();
        assert!(!cached.look(LONGEST_CALM * 9).due);
        tokio::time::advance(LONGEST_CALM * 2).await;
        cached.invalidate();
        assert!(cached.look(LONGEST_CALM * 9).due && cached.begin());
        cached.finish(Ok(1));
        cached.invalidate();
        assert!(cached.look(LONGEST_CALM * 9).due);
    }

    #[tokio::test]
    async fn a_change_is_told_to_those_who_were_given_something_else() {
        let cached = Cached::new();
        cached.begin();
        cached.notify_later(Some(Arc::new(1)));
        assert_eq!(cached.finish(Ok(1)), SAME);
        cached.begin();
        cached.invalidate();
        assert_eq!(cached.finish(Ok(2)), FetchEnd { changed: true, again: true });
        let cold = Cached::new();
        cold.begin();
        cold.notify_later(None);
        assert!(cold.finish(Ok(1)).changed);
    }
}
