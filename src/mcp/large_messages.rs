//! Large messages are checked, bounded and translated off the worker threads: one at a time for each owner, and all of
//! them together on half of the cores.
//!
//! Code that handles messages runs in polls of a future or stream, driven by [`OffWorker`]. Before it handles a
//! message, it awaits [`off_worker`]: if the message is large, the rest of the poll runs on a blocking thread, in the
//! owner's turn, and the next poll is on the worker again. So nothing is copied, and dropping the future cancels this
//! work like any other. A turn is used at once, even if nothing polls in the meantime, so that a client that does not
//! read delays no others.

use std::{
    fmt, mem,
    num::NonZero,
    panic::resume_unwind,
    pin::Pin,
    sync::{Arc, LazyLock},
    task::{Context, Poll, Waker, ready},
    thread,
};

use futures_util::{FutureExt as _, Stream, StreamExt as _};
use parking_lot::Mutex;
use tokio::task::{JoinError, JoinHandle, JoinSet, spawn_blocking};

use super::{ErrorObject, Event, Payload, Reply};
use crate::{
    model::{BackendId, UserId},
    support::{
        fair_turns::{FairTurn, FairTurns},
        log_context::{RequestFields, carried_fields},
        off_worker::{CurrentPoll, poll_as},
    },
};

pub(crate) use crate::support::off_worker::{LARGE, is_large, off_worker, on_worker, poll_off_worker};

/// Turns of all owners, who share half of the cores.
static TURNS: LazyLock<FairTurns<MessageOwner>> = LazyLock::new(|| {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    FairTurns::new(cores / 2)
});

/// The user or server whose turn a message takes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum MessageOwner {
    /// The user whose client sent the message or receives it.
    User(UserId),
    /// The server that wrote it; the receiver is not known yet.
    Server(BackendId),
}

/// A future or stream that is polled on its worker, except for polls that handle large messages. `T` is the result of a
/// poll.
pub(crate) struct OffWorker<S, T> {
    owner: MessageOwner,
    poll: fn(&mut S, &mut Context<'_>) -> Poll<T>,
    place: PollPlace<S, T>,
}

/// A poll on a blocking thread: the polled value and the result.
type PollAway<S, T> = JoinHandle<(S, Poll<T>)>;

/// A poll that continues on another thread.
struct Journey<S, T> {
    poll: fn(&mut S, &mut Context<'_>) -> Poll<T>,
    waker: Waker,
    fields: Option<RequestFields>,
}

enum PollPlace<S, T> {
    Worker(S),
    /// Queued until its owner has a turn.
    Queued(QueuedPoll<S, T>),
    /// On a blocking thread, for one poll.
    Away(PollAway<S, T>),
    /// Lost, because the runtime is shutting down.
    Lost,
}

/// A poll that waits for a turn, with the task that will run it. Dropping this leaves the queue.
struct QueuedPoll<S, T> {
    /// `None` once the poll runs.
    driven: Arc<Mutex<Option<S>>>,
    begun: JoinSet<Option<PollAway<S, T>>>,
}

/// Runs `work` on a message of this size. If the message is large, `work` starts off the worker, and stays there up to
/// its first wait.
pub(crate) async fn begun_off_worker<T: Send + 'static>(
    owner: MessageOwner,
    bytes: usize,
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    if !is_large(bytes) {
        return work.await;
    }
    let work = async move {
        off_worker(bytes).await;
        work.await
    };
    OffWorker::future(owner, Box::pin(work)).await
}

/// The next event of a reply, for a reader that translates it. A large event stays in `large` until the poll is off the
/// worker.
pub(crate) fn poll_event(reply: &mut Reply, large: &mut Option<Event>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
    if large.is_none() {
        let event = ready!(reply.poll_next_unpin(cx));
        if event.as_ref().is_none_or(|event| !is_large(event.payload_len())) {
            return Poll::Ready(event);
        }
        *large = event;
    }
    ready!(poll_off_worker(large.as_ref().map_or(0, Event::payload_len), cx));
    Poll::Ready(large.take())
}

/// Size of an answer's payload, in bytes.
pub(crate) fn answer_size(answer: &Result<Payload, ErrorObject>) -> usize {
    answer.as_ref().map_or_else(|error| error.json().len(), |result| result.json().len())
}

// === impl OffWorker ===

impl<F: Future + Unpin> OffWorker<F, F::Output> {
    pub(crate) fn future(owner: MessageOwner, future: F) -> Self {
        Self { owner, poll: |future, cx| future.poll_unpin(cx), place: PollPlace::Worker(future) }
    }
}

impl<S: Stream + Unpin> OffWorker<S, Option<S::Item>> {
    pub(crate) fn stream(owner: MessageOwner, stream: S) -> Self {
        Self { owner, poll: |stream, cx| stream.poll_next_unpin(cx), place: PollPlace::Worker(stream) }
    }
}

impl<S: Send + 'static, T: Send + 'static> OffWorker<S, T> {
    /// The driven value; `None` while a poll of it runs on another thread.
    pub(crate) fn get_mut(&mut self) -> Option<&mut S> {
        if let PollPlace::Queued(queued) = &self.place
            && let Some(driven) = queued.leave()
        {
            self.place = PollPlace::Worker(driven);
        }
        match &mut self.place {
            PollPlace::Worker(driven) => Some(driven),
            PollPlace::Queued(_) | PollPlace::Away(_) | PollPlace::Lost => None,
        }
    }

    /// Waits until no poll runs on another thread, and drops its result.
    pub(crate) async fn returned(&mut self) {
        if let PollPlace::Queued(queued) = &mut self.place {
            self.place = begun(queued.begun.join_next().await);
        }
        if let PollPlace::Away(poll) = &mut self.place {
            self.place = match returned(poll.await) {
                Some((driven, _)) => PollPlace::Worker(driven),
                None => PollPlace::Lost,
            };
        }
    }

    fn poll_driven(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        loop {
            let next = match &mut self.place {
                PollPlace::Worker(driven) => {
                    let (poll, leaves) = poll_as(CurrentPoll::OnWorker, || (self.poll)(driven, cx));
                    if poll.is_ready() || !leaves {
                        return poll;
                    }
                    let journey = Journey { poll: self.poll, waker: cx.waker().clone(), fields: carried_fields() };
                    let owner = self.owner.clone();
                    match mem::replace(&mut self.place, PollPlace::Lost) {
                        PollPlace::Worker(driven) => journey.begin(driven, owner),
                        other => other,
                    }
                }
                PollPlace::Queued(queued) => begun(ready!(queued.begun.poll_join_next(cx))),
                PollPlace::Away(away) => match returned(ready!(away.poll_unpin(cx))) {
                    Some((driven, Poll::Ready(item))) => {
                        self.place = PollPlace::Worker(driven);
                        return Poll::Ready(item);
                    }
                    // polled again here: the waker of that poll may be outdated
                    Some((driven, Poll::Pending)) => PollPlace::Worker(driven),
                    None => PollPlace::Lost,
                },
                PollPlace::Lost => return Poll::Pending,
            };
            self.place = next;
        }
    }
}

// === impl Journey ===

impl<S: Send + 'static, T: Send + 'static> Journey<S, T> {
    /// Polls on another thread, once the owner has a turn.
    fn begin(self, driven: S, owner: MessageOwner) -> PollPlace<S, T> {
        match TURNS.try_take(&owner) {
            Some(turn) => PollPlace::Away(self.go(driven, turn)),
            None => PollPlace::Queued(self.queue(driven, owner)),
        }
    }

    fn queue(self, driven: S, owner: MessageOwner) -> QueuedPoll<S, T> {
        let driven = Arc::new(Mutex::new(Some(driven)));
        let waiting = Arc::clone(&driven);
        let mut begun = JoinSet::new();
        begun.spawn(async move {
            let turn = TURNS.take(owner).await;
            let driven = waiting.lock().take()?;
            Some(self.go(driven, turn))
        });
        QueuedPoll { driven, begun }
    }

    /// Polls on a blocking thread. If the result is no longer wanted, the poll still runs to its end in its turn, then
    /// drops what it polled.
    fn go(self, mut driven: S, turn: FairTurn<MessageOwner>) -> PollAway<S, T> {
        let Self { poll, waker, fields } = self;
        spawn_blocking(move || {
            let _turn = turn;
            let mut cx = Context::from_waker(&waker);
            let mut away = || poll_as(CurrentPoll::Away, || poll(&mut driven, &mut cx)).0;
            let polled = match fields {
                Some(fields) => fields.within(away),
                None => away(),
            };
            (driven, polled)
        })
    }
}

// === impl QueuedPoll ===

impl<S, T> QueuedPoll<S, T> {
    /// Takes the value out of the queue; `None` if its poll runs already.
    fn leave(&self) -> Option<S> {
        self.driven.lock().take()
    }
}

impl<S, T> Drop for QueuedPoll<S, T> {
    fn drop(&mut self) {
        // at once, not when the task ends
        drop(self.leave());
    }
}

/// The state of a poll after its turn has come.
fn begun<S, T>(joined: Option<Result<Option<PollAway<S, T>>, JoinError>>) -> PollPlace<S, T> {
    joined.and_then(Result::ok).flatten().map_or(PollPlace::Lost, PollPlace::Away)
}

/// The result of a poll on another thread; `None` if the runtime is shutting down.
fn returned<R>(joined: Result<R, JoinError>) -> Option<R> {
    match joined.map_err(JoinError::try_into_panic) {
        Ok(polled) => Some(polled),
        Err(Ok(panic)) => resume_unwind(panic),
        Err(Err(_)) => None,
    }
}

impl<F> Future for OffWorker<F, F::Output>
where
    F: Future<Output: Send> + Unpin + Send + 'static,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.poll_driven(cx)
    }
}

impl<S> Stream for OffWorker<S, Option<S::Item>>
where
    S: Stream<Item: Send> + Unpin + Send + 'static,
{
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.poll_driven(cx)
    }
}

impl<S, T> Unpin for OffWorker<S, T> {}

impl<S, T> fmt::Debug for OffWorker<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OffWorker").field("owner", &self.owner).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    };

    use futures_util::stream;
    use tokio::task::yield_now;

    use super::*;
    use crate::support::off_worker::debug_assert_off_worker;

    const SIZE: usize = 1 << 20;

    fn ann() -> MessageOwner {
        MessageOwner::User(UserId::new("ann"))
    }

    /// The thread on which a text of this size is handled.
    async fn looks(bytes: usize) -> thread::ThreadId {
        off_worker(bytes).await;
        debug_assert_off_worker(bytes);
        thread::current().id()
    }

    #[tokio::test]
    async fn large_messages_are_looked_through_elsewhere_and_small_ones_here() {
        let here = thread::current().id();
        let work = async move {
            assert_eq!(looks(SIZE / 1_000).await, here);
            assert_ne!(looks(SIZE).await, here);
            // the rest of the poll stays there
            assert_ne!(thread::current().id(), here);
            yield_now().await;
            assert_eq!(thread::current().id(), here);
            assert_ne!(looks(SIZE).await, here);
            on_worker().await;
            assert_eq!(thread::current().id(), here);
            "done"
        };
        assert_eq!(OffWorker::future(ann(), Box::pin(work)).await, "done");
        // without a driver, it stays on this thread
        assert_eq!(looks(SIZE).await, here);
    }

    #[tokio::test]
    async fn others_run_while_a_message_is_looked_through() {
        let beats = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&beats);
        let mut heart = JoinSet::new();
        heart.spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                yield_now().await;
            }
        });
        let work = async move {
            off_worker(SIZE).await;
            // ends only if other tasks run in the meantime
            let before = beats.load(Ordering::Relaxed);
            while beats.load(Ordering::Relaxed) < before + 1_000 {
                thread::yield_now();
            }
        };
        OffWorker::future(ann(), Box::pin(work)).await;
    }

    #[tokio::test]
    async fn streams_within_others_are_polled_elsewhere() {
        let here = thread::current().id();
        let item = move |bytes| stream::once(Box::pin(looks(bytes)));
        let inner = OffWorker::stream(ann(), item(SIZE).chain(item(1)));
        let chosen = stream::select_all([inner.boxed(), item(SIZE).boxed()]);
        let found: Vec<_> = OffWorker::stream(ann(), chosen).collect().await;
        assert_eq!(found.iter().filter(|thread| **thread == here).count(), 1, "{found:?}");
        assert_eq!(found.len(), 3);
    }

    #[tokio::test]
    async fn what_is_dropped_while_it_is_away_ends_after_its_poll() {
        struct Dropped(Arc<AtomicBool>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let (is_dropped, goes_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (held, may_end) = (Dropped(Arc::clone(&is_dropped)), Arc::clone(&goes_on));
        let work = async move {
            let _held = held;
            off_worker(SIZE).await;
            while !may_end.load(Ordering::Acquire) {
                thread::yield_now();
            }
            std::future::pending::<()>().await;
        };
        let mut driven = OffWorker::future(ann(), Box::pin(work));
        while driven.get_mut().is_some() {
            assert!((&mut driven).now_or_never().is_none());
            yield_now().await;
        }
        drop(driven);
        assert!(!is_dropped.load(Ordering::Acquire));
        goes_on.store(true, Ordering::Release);
        // the owner's next message has its turn after that
        let next = async move {
            off_worker(SIZE).await;
            while !is_dropped.load(Ordering::Acquire) {
                thread::yield_now();
            }
        };
        OffWorker::future(ann(), Box::pin(next)).await;
    }

    #[tokio::test]
    async fn a_turn_is_used_whether_anybody_polls_or_not() {
        let goes_on = Arc::new(AtomicBool::new(false));
        let may_end = Arc::clone(&goes_on);
        let first = async move {
            off_worker(SIZE).await;
            while !may_end.load(Ordering::Acquire) {
                thread::yield_now();
            }
        };
        let mut first = OffWorker::future(ann(), Box::pin(first));
        while first.get_mut().is_some() {
            assert!((&mut first).now_or_never().is_none());
            yield_now().await;
        }
        // polled once, as by a client that stops reading
        let mut unread = OffWorker::stream(ann(), Box::pin(stream::once(looks(SIZE))));
        assert!(unread.next().now_or_never().is_none());
        goes_on.store(true, Ordering::Release);
        first.await;
        OffWorker::future(ann(), Box::pin(looks(SIZE))).await;
        assert!(unread.next().await.is_some());
    }

    #[tokio::test]
    async fn what_waits_or_has_returned_can_be_looked_at() {
        let mut driven = OffWorker::stream(ann(), Box::pin(stream::once(looks(SIZE)).chain(stream::once(looks(1)))));
        assert!(driven.get_mut().is_some());
        assert!(driven.next().now_or_never().is_none());
        driven.returned().await;
        assert!(driven.get_mut().is_some());
    }
}
