//! One thing that a backend was asked for and that is served from memory. Knows nothing of what it is.
//!
//! It is asked for once at a time, whoever waits for it. A failure leaves the old value in place: what a backend offered
//! is offered still while it is started again.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use crate::mcp::ErrorObject;

/// How soon a failed fetch is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Something that is fetched, kept and fetched again.
pub(crate) struct Cell<T> {
    state: Mutex<State<T>>,
    /// Counts the fetches that ended.
    rounds: watch::Sender<u64>,
}

struct State<T> {
    value: Option<Arc<T>>,
    failure: Option<ErrorObject>,
    /// When the running fetch began.
    began: Option<Instant>,
    /// When the last fetch ended.
    ended: Option<Instant>,
    /// When a fetch last gave another value than was given out before.
    changed: Option<Instant>,
    /// Whether the backend said that the value changed since the running, or the last, fetch began.
    stale: bool,
    /// What was given out in the place of the value that was not there: nothing, or another one.
    owed: Option<Instead<T>>,
}

/// What somebody was given in the place of a value that was not there.
enum Instead<T> {
    Nothing,
    Another(Arc<T>),
}

/// What a cell holds.
pub(crate) struct Look<T> {
    /// The value, where there is one, however old.
    pub(crate) value: Option<Arc<T>>,
    /// How the last fetch failed, where it did.
    pub(crate) failure: Option<ErrorObject>,
    /// When the running fetch began, where one runs.
    pub(crate) began: Option<Instant>,
    /// Whether it is to be fetched.
    pub(crate) due: bool,
}

/// How a fetch ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Whether the value is another than the one that was given out before.
    pub(crate) changed: bool,
    /// Whether it went stale meanwhile and must be fetched again.
    pub(crate) again: bool,
}

// === impl Cell ===

impl<T: PartialEq> Cell<T> {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        let state =
            State { value: None, failure: None, began: None, ended: None, changed: None, stale: true, owed: None };
        Self { state: Mutex::new(state), rounds: watch::Sender::new(0) }
    }

    /// What is there. A value is due again where it is stale or older than `refresh`; a failure after a second.
    pub(crate) fn look(&self, refresh: Duration) -> Look<T> {
        let state = self.state.lock();
        let rested = |pause| state.ended.is_none_or(|ended| ended.elapsed() >= pause);
        let due = state.began.is_none()
            && match (&state.failure, &state.value) {
                (Some(_), _) => rested(RETRY),
                (None, Some(_)) => state.stale || rested(refresh),
                (None, None) => true,
            };
        Look { value: state.value.clone(), failure: state.failure.clone(), began: state.began, due }
    }

    /// Marks a fetch as running; false where one runs already.
    pub(crate) fn begin(&self) -> bool {
        let mut state = self.state.lock();
        if state.began.is_some() {
            return false;
        }
        state.began = Some(Instant::now());
        state.stale = false;
        true
    }

    /// Notes how the running fetch ended.
    pub(crate) fn finish(&self, outcome: Result<T, ErrorObject>) -> Settled {
        let settled = self.note(outcome);
        self.rounds.send_modify(|rounds| *rounds += 1);
        settled
    }

    fn note(&self, outcome: Result<T, ErrorObject>) -> Settled {
        let mut state = self.state.lock();
        state.began = None;
        state.ended = Some(Instant::now());
        let again = state.stale;
        match outcome {
            Err(failure) => {
                state.failure = Some(failure);
                state.stale = true;
                Settled { changed: false, again }
            }
            Ok(value) => {
                state.failure = None;
                let changed = match (&state.owed, &state.value) {
                    (Some(Instead::Nothing), _) => true,
                    (Some(Instead::Another(given)), _) => **given != value,
                    (None, Some(old)) => **old != value,
                    (None, None) => false,
                };
                state.owed = None;
                if changed {
                    state.changed = state.ended;
                }
                // values that are the same to a client may differ in what is said of them
                state.value = Some(Arc::new(value));
                Settled { changed, again }
            }
        }
    }

    /// Notes that somebody was given `instead`, or nothing, because the value is not there.
    pub(crate) fn owe(&self, instead: Option<Arc<T>>) {
        let mut state = self.state.lock();
        if state.value.is_none() {
            state.owed = Some(instead.map_or(Instead::Nothing, Instead::Another));
        }
    }

    /// Notes that the value changed at the backend.
    pub(crate) fn invalidate(&self) {
        self.state.lock().stale = true;
    }

    /// Whether the value changed within this time.
    pub(crate) fn changed_within(&self, time: Duration) -> bool {
        self.state.lock().changed.is_some_and(|changed| changed.elapsed() < time)
    }

    /// The value, where there is one.
    pub(crate) fn value(&self) -> Option<Arc<T>> {
        self.state.lock().value.clone()
    }

    /// Waits until no fetch runs.
    pub(crate) async fn settled(&self) {
        let mut rounds = self.rounds.subscribe();
        while self.state.lock().began.is_some() {
            if rounds.changed().await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);
    const SAME: Settled = Settled { changed: false, again: false };

    fn failure() -> ErrorObject {
        ErrorObject::internal("down")
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_is_due_when_it_is_old_or_stale() {
        let cell = Cell::new();
        assert!(cell.look(MINUTE).due);
        assert!(cell.begin() && !cell.begin());
        assert!(!cell.look(MINUTE).due);
        assert_eq!(cell.finish(Ok(1)), SAME);
        assert!(!cell.look(MINUTE).due);
        cell.invalidate();
        assert!(cell.look(MINUTE).due);
        cell.begin();
        cell.finish(Ok(1));
        tokio::time::advance(MINUTE).await;
        assert!(cell.look(MINUTE).due);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_keeps_the_old_value_and_is_tried_again_soon() {
        let cell = Cell::new();
        cell.begin();
        cell.finish(Ok(1));
        cell.begin();
        cell.finish(Err(failure()));
        assert_eq!(cell.value().as_deref(), Some(&1));
        assert!(!cell.look(MINUTE).due);
        tokio::time::advance(RETRY).await;
        assert!(cell.look(MINUTE).due);
    }

    #[tokio::test]
    async fn a_change_is_told_to_those_who_were_given_something_else() {
        let cell = Cell::new();
        cell.begin();
        cell.owe(Some(Arc::new(1)));
        assert_eq!(cell.finish(Ok(1)), SAME);
        cell.begin();
        cell.invalidate();
        assert_eq!(cell.finish(Ok(2)), Settled { changed: true, again: true });
        let cold = Cell::new();
        cold.begin();
        cold.owe(None);
        assert!(cold.finish(Ok(1)).changed);
    }
}
