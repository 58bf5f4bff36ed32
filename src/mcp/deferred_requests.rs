//! Server requests that wait for a call to carry them (`translation` 4b.2 (v)): the server sent them outside of any
//! call, and the client gets requests only in calls.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::timeout;

use super::ServerRequest;

/// Maximum time that a request is kept.
const HOLD_TIME: Duration = Duration::from_secs(5);

/// Deferred requests, each with a key for its receiver.
#[derive(Debug)]
pub(crate) struct DeferredRequests<K> {
    limits: DeferredLimits,
    held: Mutex<HeldRequest<K>>,
    /// Number of requests. At zero, calls take no lock.
    count: AtomicUsize,
}

/// Maximum number of deferred requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeferredLimits {
    pub(crate) all: usize,
    /// Maximum within each group of keys that count together.
    pub(crate) together: usize,
}

#[derive(Debug)]
struct HeldRequest<K> {
    /// The entries, the oldest first.
    entries: Vec<Entry<K>>,
    last: u64,
}

#[derive(Debug)]
struct Entry<K> {
    number: u64,
    key: K,
    question: ServerRequest,
}

/// A deferred request; dropping this removes it.
struct DeferredPlace<K> {
    requests: Arc<DeferredRequests<K>>,
    number: u64,
}

// === impl DeferredRequests ===

impl<K> DeferredRequests<K> {
    pub(crate) fn new(limits: DeferredLimits) -> Arc<Self> {
        let held = Mutex::new(HeldRequest { entries: Vec::new(), last: 0 });
        Arc::new(Self { limits, held, count: AtomicUsize::new(0) })
    }

    /// Stores a request. Poll the returned future: after [`HOLD_TIME`] it returns the request if no call took it. It
    /// returns `None` as soon as a call took the request, or the server cancelled it. Dropping the future drops the
    /// request.
    ///
    /// # Errors
    ///
    /// Returns the request if a limit is reached: the total, or the limit of the keys that `count` together with this
    /// one.
    pub(crate) fn hold(
        self: &Arc<Self>,
        key: K,
        question: ServerRequest,
        count: &dyn Fn(&K) -> bool,
    ) -> Result<impl Future<Output = Option<ServerRequest>> + use<K>, ServerRequest> {
        let mut held = self.held.lock();
        let together = held.entries.iter().filter(|entry| count(&entry.key)).count();
        if held.entries.len() >= self.limits.all || together >= self.limits.together {
            return Err(question);
        }
        held.last += 1;
        let number = held.last;
        held.entries.push(Entry { number, key, question });
        self.count.store(held.entries.len(), Ordering::Release);
        let place = DeferredPlace { requests: Arc::clone(self), number };
        Ok(async move {
            let gone = poll_fn(|cx| place.poll_gone(cx));
            timeout(HOLD_TIME, gone).await.err()?;
            place.take()
        })
    }

    /// True if empty. Takes no lock.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// True if any key satisfies `is_for`.
    pub(crate) fn holds(&self, is_for: impl Fn(&K) -> bool) -> bool {
        !self.is_empty() && self.held.lock().entries.iter().any(|entry| is_for(&entry.key))
    }

    /// Takes the requests whose keys satisfy `is_for`, oldest first.
    pub(crate) fn take(&self, is_for: impl Fn(&K) -> bool) -> Vec<(K, ServerRequest)> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut held = self.held.lock();
        let taken = held.entries.extract_if(.., |entry| is_for(&entry.key)).map(|entry| (entry.key, entry.question));
        let taken = taken.collect();
        self.count.store(held.entries.len(), Ordering::Release);
        taken
    }
}

// === impl DeferredPlace ===

impl<K> DeferredPlace<K> {
    /// Ready once the request was taken, or cancelled by the server.
    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut held = self.requests.held.lock();
        match held.entries.iter_mut().find(|entry| entry.number == self.number) {
            Some(entry) => entry.question.answer.poll_withdrawn(cx),
            None => Poll::Ready(()),
        }
    }

    fn take(&self) -> Option<ServerRequest> {
        let mut held = self.requests.held.lock();
        let at = held.entries.iter().position(|entry| entry.number == self.number)?;
        let entry = held.entries.remove(at);
        self.requests.count.store(held.entries.len(), Ordering::Release);
        Some(entry.question)
    }
}

impl<K> Drop for DeferredPlace<K> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::time::advance;

    use super::*;
    use crate::mcp::{AnswerReceiver, Method, Payload, Revision};

    const LIMITS: DeferredLimits = DeferredLimits { all: 3, together: 2 };

    fn question() -> (ServerRequest, AnswerReceiver) {
        ServerRequest::new(Method::RootsList, Payload::absent(Revision::V2025_11_25))
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_is_held_for_5_s() {
        let requests = DeferredRequests::new(LIMITS);
        let ((kept, _kept), (taken, _taken)) = (question(), question());
        let mut wait = Box::pin(requests.hold('a', kept, &|_| true).unwrap());
        let mut other = Box::pin(requests.hold('b', taken, &|_| true).unwrap());
        assert!((&mut wait).now_or_never().is_none() && (&mut other).now_or_never().is_none());
        assert_eq!(requests.take(|key| *key == 'b').len(), 1);
        advance(HOLD_TIME).await;
        assert!(wait.await.is_some());
        assert!(other.await.is_none());
        assert!(requests.is_empty());
    }

    #[tokio::test]
    async fn a_withdrawn_request_leaves_its_place() {
        let requests = DeferredRequests::new(LIMITS);
        let (asked, answered) = question();
        let mut wait = Box::pin(requests.hold('a', asked, &|_| true).unwrap());
        assert!((&mut wait).now_or_never().is_none());
        drop(answered);
        assert!(wait.await.is_none());
        assert!(requests.is_empty());
        let wait = requests.hold('a', question().0, &|_| true).unwrap();
        assert!(requests.holds(|key| *key == 'a'));
        drop(wait);
        assert!(!requests.holds(|_| true));
    }

    #[tokio::test]
    async fn nothing_is_held_beyond_the_limits() {
        let requests = DeferredRequests::new(LIMITS);
        let hold = |key| requests.hold(key, question().0, &|other| *other == key);
        let _held = [hold('a').ok().unwrap(), hold('a').ok().unwrap()];
        assert!(hold('a').is_err());
        let _other = hold('b').ok().unwrap();
        assert!(hold('c').is_err());
    }
}
