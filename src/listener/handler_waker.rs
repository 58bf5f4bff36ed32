//! Wake-ups of the handler of a request, told apart from those of its connection: hyper polls the handler whenever it is polled
//! itself, such as after each part of a body, and a handler that was not woken has nothing to do then. Knows nothing of requests.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::task::AtomicWaker;

/// The waker of the handlers of one connection, which run one after another.
#[derive(Debug, Default)]
pub(super) struct HandlerWaker {
    woken: AtomicBool,
    connection: AtomicWaker,
}

impl Wake for HandlerWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.connection.wake();
    }
}

/// Polls `handler` if `waker` was woken, and as often as it is woken meanwhile.
pub(super) struct Woken<F> {
    handler: F,
    own: Arc<HandlerWaker>,
    waker: Waker,
}

// === impl Woken ===

impl<F: Future + Unpin> Woken<F> {
    /// The handler, to be polled a first time.
    pub(super) fn new(handler: F, own: &Arc<HandlerWaker>) -> Self {
        own.woken.store(true, Ordering::Relaxed);
        Self { handler, own: Arc::clone(own), waker: Waker::from(Arc::clone(own)) }
    }
}

impl<F: Future + Unpin> Future for Woken<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // before the flag is read: who sets it later wakes the connection
        self.own.connection.register(cx.waker());
        if !self.own.woken.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let this = &mut *self;
        Pin::new(&mut this.handler).poll(&mut Context::from_waker(&this.waker))
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::poll_fn};

    use futures_util::task::noop_waker_ref;

    use super::*;

    #[test]
    fn a_handler_is_polled_first_and_whenever_it_was_woken() {
        let (polls, kept) = (Cell::new(0), Cell::new(None));
        let handler = poll_fn(|cx| {
            polls.set(polls.get() + 1);
            kept.set(Some(cx.waker().clone()));
            if polls.get() == 3 { Poll::Ready(()) } else { Poll::Pending }
        });
        let mut woken = Woken::new(handler, &Arc::default());
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
    async fn a_handler_that_is_woken_while_it_runs_is_polled_again() {
        let mut left = 3;
        let handler = poll_fn(|cx| {
            left -= 1;
            cx.waker().wake_by_ref();
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        });
        Woken::new(handler, &Arc::default()).await;
    }
}
