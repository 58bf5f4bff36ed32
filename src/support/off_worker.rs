//! Work on large texts off the worker threads, so that other connections of a worker do not wait. The work is part of a
//! poll: where it comes to a large text, it awaits [`off_worker`], and the driver of the future continues the poll on
//! another thread.

use std::{
    cell::Cell,
    future::poll_fn,
    task::{Context, Poll},
};

use tokio::runtime::Handle;

/// Minimum size of a large text in bytes.
pub const LARGE: usize = 64 * 1024;

/// The kind of poll that the current thread is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CurrentPoll {
    /// Without a driver that could continue it elsewhere.
    Unwatched,
    /// On a worker, with a driver that continues it elsewhere on request.
    OnWorker,
    /// The same, and it has asked to continue elsewhere.
    Leaves,
    Away,
}

thread_local! {
    static CURRENT: Cell<CurrentPoll> = const { Cell::new(CurrentPoll::Unwatched) };
}

/// Restores the current poll when it ends, even by a panic.
struct OuterPoll<'a>(&'a Cell<CurrentPoll>, CurrentPoll);

/// True for the size of a large text.
pub const fn is_large(bytes: usize) -> bool {
    bytes >= LARGE
}

/// Continues the current poll off the worker if a text of this size is large and the driver of the future can do that.
pub async fn off_worker(bytes: usize) {
    poll_fn(|cx| poll_off_worker(bytes, cx)).await;
}

/// The same for code that polls.
pub fn poll_off_worker(bytes: usize, cx: &Context<'_>) -> Poll<()> {
    if !is_large(bytes) {
        return Poll::Ready(());
    }
    match CURRENT.get() {
        CurrentPoll::OnWorker | CurrentPoll::Leaves if Handle::try_current().is_ok() => {
            CURRENT.set(CurrentPoll::Leaves);
            // code between this and the driver polls only woken futures
            cx.waker().wake_by_ref();
            Poll::Pending
        }
        _ => Poll::Ready(()),
    }
}

/// Continues on the worker: for things that belong to its thread, such as connections.
pub async fn on_worker() {
    poll_fn(|cx| {
        if CURRENT.get() != CurrentPoll::Away {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Polls as `current`, and returns true if the poll asks to continue elsewhere. A poll within one that is off the
/// worker stays there.
pub fn poll_as<T>(current: CurrentPoll, poll: impl FnOnce() -> T) -> (T, bool) {
    // `LocalKey::set` checks each time whether the value exists, and each message passes here several times
    CURRENT.with(|cell| {
        let outer = OuterPoll(cell, cell.get());
        if outer.1 != CurrentPoll::Away {
            cell.set(current);
        }
        let polled = poll();
        (polled, cell.get() == CurrentPoll::Leaves)
    })
}

/// Panics in a debug build if a text of this size is processed on a worker that could have left it to another thread.
pub fn debug_assert_off_worker(bytes: usize) {
    debug_assert!(
        !is_large(bytes) || matches!(CURRENT.get(), CurrentPoll::Unwatched | CurrentPoll::Away),
        "{bytes} bytes are looked through on a worker: await `off_worker` before"
    );
}

impl Drop for OuterPoll<'_> {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}
