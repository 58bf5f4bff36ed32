//! The calls that run in one session, by the ids that its client gave them. Knows nothing of replies.
//!
//! Ids need not be unique: some clients give every request the same one (design rule 1). Answers are never looked up by
//! id; ids serve to cancel alone.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::mcp::{CancelReason, RequestId, json::Object};

/// The calls that run in one session, or on one connection.
#[derive(Debug)]
pub(crate) struct RunningCalls {
    inner: Mutex<Inner>,
    max: usize,
    /// Cancels all of them.
    ended: CancellationToken,
}

/// A place on the list of running calls. Dropping it takes the call off the list.
#[derive(Debug)]
pub(crate) struct CallGuard {
    calls: Arc<RunningCalls>,
    serial: u64,
    /// Cancelled when the client cancels the call, or all of them end.
    pub(crate) cancelled: CancellationToken,
}

/// A call on the list.
#[derive(Debug)]
struct ListedCall {
    serial: u64,
    /// The id by which the client cancels it, and the reason for its server.
    cancelled_by: Option<(RequestId, CancelReason)>,
    cancelled: CancellationToken,
}

#[derive(Debug, Default)]
struct Inner {
    running: Vec<ListedCall>,
    last: u64,
}

// === impl RunningCalls ===

impl RunningCalls {
    /// No calls yet, and at most `max` at once; `ended` cancels all of them.
    pub(crate) fn new(max: usize, ended: CancellationToken) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), max, ended })
    }

    /// Lists a call; one without an id cannot be cancelled by the client. `None` if too many run.
    pub(crate) fn begin(self: &Arc<Self>, cancelled_by: Option<(RequestId, CancelReason)>) -> Option<CallGuard> {
        let mut inner = self.inner.lock();
        if inner.running.len() >= self.max {
            return None;
        }
        inner.last += 1;
        let serial = inner.last;
        let cancelled = self.ended.child_token();
        inner.running.push(ListedCall { serial, cancelled_by, cancelled: cancelled.clone() });
        drop(inner);
        Some(CallGuard { calls: Arc::clone(self), serial, cancelled })
    }

    /// Cancels the call with this id. If several carry it, nobody can tell which is meant and none is cancelled; if none
    /// does, it has ended already.
    pub(crate) fn cancel(&self, id: &RequestId, reason: Option<&str>) {
        let inner = self.inner.lock();
        let id_of = |listed: &ListedCall| {
            listed
                .cancelled_by
                .as_ref()
                .filter(|(running, _)| running == id)
                .map(|(_, cancel_reason)| cancel_reason.clone())
        };
        let mut meant = inner.running.iter().filter_map(|listed| Some((id_of(listed)?, &listed.cancelled)));
        match (meant.next(), meant.next()) {
            (Some((cancel_reason, cancelled)), None) => {
                if let Some(reason) = reason {
                    cancel_reason.say(reason);
                }
                cancelled.cancel();
            }
            (Some(_), Some(_)) => metrics::counter!("lockkeeper_frontend_ambiguous_cancels_total").increment(1),
            (None, _) => {}
        }
    }

    /// Cancels the call that the parameters of `notifications/cancelled` name.
    pub(crate) fn cancel_named(&self, params: &Bytes) {
        let Some(params) = Object::parse(params) else { return };
        let id = params.get("requestId").map(|id| Bytes::copy_from_slice(id.as_bytes()));
        if let Some(id) = id.and_then(|id| RequestId::read(&id)) {
            self.cancel(&id, params.string("reason").as_deref());
        }
    }

    /// Returns `true` if no call runs.
    pub(crate) fn is_empty(&self) -> bool {
        self.inner.lock().running.is_empty()
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        self.calls.inner.lock().running.retain(|listed| listed.serial != self.serial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancel_that_could_mean_two_calls_cancels_none() {
        let calls = RunningCalls::new(8, CancellationToken::new());
        let cancel_reason = CancelReason::default();
        let begin = || calls.begin(Some((RequestId::number(1), cancel_reason.clone()))).unwrap();
        let (one, two) = (begin(), begin());
        calls.cancel(&RequestId::number(1), Some("both?"));
        assert!(!one.cancelled.is_cancelled() && !two.cancelled.is_cancelled());
        drop(one);
        calls.cancel(&RequestId::number(1), Some("this one"));
        assert!(two.cancelled.is_cancelled());
        assert_eq!(cancel_reason.reason(), "this one");
    }

    #[test]
    fn calls_are_bounded_and_make_room_when_they_end() {
        let calls = RunningCalls::new(1, CancellationToken::new());
        let one = calls.begin(None).unwrap();
        assert!(calls.begin(None).is_none());
        drop(one);
        assert!(calls.is_empty());
        assert!(calls.begin(None).is_some());
    }
}
