//! Question slots for calls that wait for one, taken from calls whose questions nobody answers (`translation` 4b.1). Driven
//! by the calls that wait: if none does, no question is closed.

use std::sync::Arc;

use tokio::time::Instant;

use super::{
    connection::{ServerConnection, calls::LINGER, overdue::FINISH_TIMEOUT},
    key::Key,
    pool::Pool,
    question_slots::SlotLimits,
};

impl Pool {
    /// Closes the questions that are open for `question_slot_time` in as many sessions of this sharer as slots are
    /// `missing`, the oldest first, and cancels the calls that their servers do not finish then. Returns when to look again.
    pub(crate) fn reclaim(&self, key: &Key, missing: usize, limits: SlotLimits) -> Instant {
        let (now, time) = (Instant::now(), limits.question_slot_time);
        let mut coming = 0;
        let mut old: Vec<(Instant, Arc<ServerConnection>)> = Vec::new();
        // a question that is asked from now on is not old before that
        let mut dues = vec![now + time];
        for session in self.sessions(key) {
            session.requests().cancel_unfinished();
            // with the time in which the server may still speak of a cancelled call
            let freed_by = session.requests().latest_closed().map(|closed| closed + FINISH_TIMEOUT + LINGER);
            dues.extend(freed_by.into_iter().flat_map(|by| [by - LINGER, by]));
            let is_coming = freed_by.is_some_and(|by| by > now);
            coming += usize::from(is_coming);
            match session.requests().oldest() {
                Some(since) if since + time > now => dues.push(since + time),
                Some(_) if is_coming => session.requests().close_after(time),
                Some(since) => old.push((since, session)),
                None => {}
            }
        }
        old.sort_by_key(|(since, _)| *since);
        for (_, session) in old.into_iter().take(missing.saturating_sub(coming)) {
            session.requests().close_after(time);
            dues.push(now + FINISH_TIMEOUT);
        }
        dues.into_iter().filter(|due| *due > now).min().unwrap_or(now + time)
    }
}
