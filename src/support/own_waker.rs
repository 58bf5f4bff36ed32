//! Wake-ups of one future among others of its task, told apart from theirs: a task polls all its futures whenever one of
//! them is woken. Knows nothing of what the future does.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::task::AtomicWaker;

/// A waker for the futures of one task that run one after another.
#[derive(Debug, Default)]
pub struct OwnWaker {
    woken: AtomicBool,
    task: AtomicWaker,
}

impl Wake for OwnWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.task.wake();
    }
}

/// A future that is polled if its own waker was woken, and not otherwise.
#[derive(Debug)]
pub struct Woken<F> {
    future: F,
    own: Arc<OwnWaker>,
    waker: Waker,
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
        // before the flag is read: who sets it later wakes the task
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
    use std::{cell::Cell, future::poll_fn};

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
