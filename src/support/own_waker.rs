//! Wake-ups of one future, told apart from those of other futures in its task: a task polls all its futures whenever
//! any is woken.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::task::AtomicWaker;

/// A waker for the futures of one task that run one after another, or drive each other.
#[derive(Debug, Default)]
pub struct OwnWaker {
    woken: AtomicBool,
    task: AtomicWaker,
}

/// Maximum number of rounds of futures that wake each other, before other tasks run.
const MAX_ROUNDS: usize = 16;

impl Wake for OwnWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.task.wake();
    }
}

/// A future that is polled only if its own waker was woken.
#[derive(Debug)]
pub struct Woken<F> {
    future: F,
    own: Arc<OwnWaker>,
    waker: Waker,
}

// === impl OwnWaker ===

impl OwnWaker {
    /// Polls futures that drive each other, through `poll`, until it is ready or all of them wait. Futures woken by
    /// each other along the way are polled here, without waking the task.
    pub fn poll_together<T>(
        self: &Arc<Self>,
        cx: &Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let waker = Waker::from(Arc::clone(self));
        let mut own = Context::from_waker(&waker);
        self.task.take();
        for _ in 0..MAX_ROUNDS {
            // read too, so that the poll sees the effects of the wake-up cleared here: a plain write could come later
            // than the reads of the poll, and hide a wake-up in between
            let _ = self.woken.swap(false, Ordering::AcqRel);
            if let Poll::Ready(done) = poll(&mut own) {
                return Poll::Ready(done);
            }
            if self.woken.load(Ordering::Acquire) {
                continue;
            }
            // before the flag is read again: anyone who sets it later wakes the task
            self.task.register(cx.waker());
            if !self.woken.load(Ordering::Acquire) {
                return Poll::Pending;
            }
            self.task.take();
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

// === impl Woken ===

impl<F: Future + Unpin> Woken<F> {
    /// The future, to be polled a first time.
    pub fn new(future: F, own: &Arc<OwnWaker>) -> Self {
        own.woken.store(true, Ordering::Relaxed);
        Self { future, own: Arc::clone(own), waker: Waker::from(Arc::clone(own)) }
    }
}

impl<F: Future + Unpin> Future for Woken<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // before the flag is read: anyone who sets it later wakes the task
        self.own.task.register(cx.waker());
        if !self.own.woken.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let this = &mut *self;
        Pin::new(&mut this.future).poll(&mut Context::from_waker(&this.waker))
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::poll_fn, sync::atomic::AtomicUsize};

    use futures_util::task::noop_waker_ref;

    use super::*;

    #[test]
    fn a_future_is_polled_first_and_whenever_it_was_woken() {
        let (polls, kept) = (Cell::new(0), Cell::new(None));
        let future = poll_fn(|cx| {
            polls.set(polls.get() + 1);
            kept.set(Some(cx.waker().clone()));
            if polls.get() == 3 { Poll::Ready(()) } else { Poll::Pending }
        });
        let mut woken = Woken::new(future, &Arc::default());
        let mut cx = Context::from_waker(noop_waker_ref());
        let mut poll = || Pin::new(&mut woken).poll(&mut cx);
        assert!(poll().is_pending() && poll().is_pending());
        assert_eq!(polls.get(), 1);
        kept.take().unwrap().wake();
        assert!(poll().is_pending() && poll().is_pending());
        assert_eq!(polls.get(), 2);
        kept.take().unwrap().wake();
        assert!(poll().is_ready());
    }

    #[test]
    fn futures_that_wake_each_other_do_not_wake_their_task() {
        let (own, counted) = (Arc::<OwnWaker>::default(), Arc::new(CountedWakes::default()));
        let waker = Waker::from(Arc::clone(&counted));
        let cx = Context::from_waker(&waker);
        let (mut polls, kept) = (0, Cell::new(None));
        let mut poll = |cx: &mut Context<'_>| {
            polls += 1;
            if polls < 3 {
                cx.waker().wake_by_ref();
            }
            kept.set(Some(cx.waker().clone()));
            if polls == 5 { Poll::Ready(polls) } else { Poll::Pending }
        };
        assert!(own.poll_together(&cx, &mut poll).is_pending());
        assert_eq!(counted.0.load(Ordering::Relaxed), 0, "all wait after three rounds");
        kept.take().unwrap().wake();
        assert_eq!(counted.0.load(Ordering::Relaxed), 1);
        assert!(own.poll_together(&cx, &mut poll).is_pending());
        assert_eq!(own.poll_together(&cx, &mut poll), Poll::Ready(5));
        kept.take().unwrap().wake();
        assert_eq!(counted.0.load(Ordering::Relaxed), 1, "nobody waits for what is done");
    }

    #[test]
    fn futures_that_always_wake_each_other_leave_their_turn_to_others() {
        let counted = Arc::new(CountedWakes::default());
        let waker = Waker::from(Arc::clone(&counted));
        let polled = Arc::<OwnWaker>::default().poll_together(&Context::from_waker(&waker), |cx| {
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert!(polled.is_pending());
        assert_eq!(counted.0.load(Ordering::Relaxed), 1);
    }

    #[derive(Default)]
    struct CountedWakes(AtomicUsize);

    impl Wake for CountedWakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn a_future_that_is_woken_while_it_runs_is_polled_again() {
        let mut left = 3;
        let future = poll_fn(|cx| {
            left -= 1;
            cx.waker().wake_by_ref();
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        });
        Woken::new(future, &Arc::default()).await;
    }
}
