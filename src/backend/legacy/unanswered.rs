//! Questions that stay open in calls on a shared channel while others wait for it (`translation` 4b.1): they are closed, and
//! a call that the server does not finish then is cancelled. Knows nothing of who waits.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::Session;
use crate::{
    backend::{pending::cancellation, question_slots::LINGER},
    mcp::{ErrorObject, Event, Farewell, Outcome},
    model::BackendId,
};

/// How long a server may take to finish a call whose question was closed.
pub(crate) const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

/// The reason of the error of a call that was cancelled, in its data.
const QUESTION_CLOSED: &str = "question_closed";

impl Session {
    /// The time since which the oldest question is open that was asked in a call.
    pub(crate) fn oldest_question(&self) -> Option<Instant> {
        self.questions.lock().values().filter_map(|waiting| waiting.call.map(|_| waiting.since)).min()
    }

    /// The time at which the latest question was closed in a call that goes on.
    pub(crate) fn question_closed(&self) -> Option<Instant> {
        self.calls.lock().iter().filter_map(|slot| *slot.note.question_closed.lock()).max()
    }

    /// Closes every question of the calls in which one is open for `time` or longer. Their clients see it withdrawn.
    pub(crate) fn close_questions_after(&self, time: Duration) {
        let old: Vec<u64> = {
            let questions = self.questions.lock();
            let old = questions.values().filter(|waiting| waiting.since.elapsed() >= time);
            old.filter_map(|waiting| waiting.call).collect()
        };
        for call in old {
            let answers = self.close_questions(call);
            // a call may be in the list several times
            if answers.is_empty() {
                continue;
            }
            metrics::counter!("lockkeeper_backend_questions_closed_total").increment(1);
            tracing::debug!(backend = %self.about.backend, call, "a question was closed since other calls wait");
            if let Some(slot) = self.calls.lock().get(call) {
                *slot.note.question_closed.lock() = Some(Instant::now());
            }
            self.tell_in_order(answers);
        }
    }

    /// Cancels the calls that the server did not finish within [`FINISH_TIMEOUT`] after their question was closed.
    pub(crate) fn cancel_unfinished(&self) {
        let is_late = |closed: Option<Instant>| closed.is_some_and(|closed| closed.elapsed() >= FINISH_TIMEOUT);
        let late: Vec<_> = {
            let calls = self.calls.lock();
            let late = |id: &u64| calls.get(*id).is_some_and(|slot| is_late(*slot.note.question_closed.lock()));
            calls.ids().filter(late).collect()
        };
        for call in late {
            let Some(holder) = self.calls.lock().get(call).map(|slot| slot.note.holder.clone()) else { continue };
            let error = closed_error(&self.about.backend);
            self.lingering.lock().insert(call, (holder, Instant::now() + LINGER));
            if self.calls.deliver(call, Event::Done(Outcome::Failed(error))).is_some() {
                // it has ended in this moment
                self.lingering.lock().remove(&call);
                continue;
            }
            let mut messages = self.close_questions(call);
            messages.push(cancellation(call, &Farewell::new("its question was closed and it did not end")));
            self.tell_in_order(messages);
        }
    }
}

/// The error of a call that was cancelled so.
fn closed_error(backend: &BackendId) -> ErrorObject {
    let text = format!(
        "Backend `{backend}`: a question of this call was open for too long while other calls waited, so it was closed; the \
         server did not finish the call within {} s, so it was cancelled; call again and answer sooner",
        FINISH_TIMEOUT.as_secs(),
    );
    ErrorObject::with_data(ErrorObject::INTERNAL_ERROR, &text, &json!({ "reason": QUESTION_CLOSED }))
}
