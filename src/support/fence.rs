//! The right to act under a lease, until its end.
//!
//! A stopped process (by a signal, by a sleeping machine) does not notice the time that passed: any of its tasks may
//! run first. So code that sends something asks here, by the clock, and does not rely on a timer that may fire later.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

/// A fence. Cheap to clone; all clones open and close together.
#[derive(Debug, Clone)]
pub struct Fence(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    origin: Instant,
    /// Milliseconds after `origin` until which the fence is open.
    until: AtomicU64,
    /// Notified when it opens again.
    opened: watch::Sender<()>,
}

/// [`Inner::until`] of a fence that never closes.
const ALWAYS: u64 = u64::MAX;

// === impl Fence ===

impl Fence {
    /// A fence that never closes: no other process can act in this one's place.
    pub fn always_open() -> Self {
        Self::until(ALWAYS)
    }

    /// A fence that is closed until it is opened.
    pub fn closed() -> Self {
        Self::until(0)
    }

    fn until(until: u64) -> Self {
        Self(Arc::new(Inner { origin: Instant::now(), until: AtomicU64::new(until), opened: watch::Sender::new(()) }))
    }

    /// Opens the fence until this moment, or extends it.
    pub fn open_until(&self, moment: Instant) {
        let until = moment.saturating_duration_since(self.0.origin).as_millis();
        self.0.until.store(u64::try_from(until).unwrap_or(ALWAYS - 1), Ordering::Release);
        self.0.opened.send_replace(());
    }

    /// True for a fence of [`Self::always_open`].
    pub fn never_closes(&self) -> bool {
        self.0.until.load(Ordering::Acquire) == ALWAYS
    }

    /// True until the moment set by the last [`Self::open_until`].
    pub fn is_open(&self) -> bool {
        let until = self.0.until.load(Ordering::Acquire);
        until == ALWAYS || self.0.origin.elapsed() < Duration::from_millis(until)
    }

    /// Waits until it is open.
    pub async fn opened(&self) {
        if self.is_open() {
            return;
        }
        let mut opened = self.0.opened.subscribe();
        while !self.is_open() {
            // the sender lives as long as this
            let _ = opened.changed().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_fence_closes_by_the_clock_and_lets_waiters_pass_when_it_opens() {
        let fence = Fence::closed();
        assert!(!fence.is_open());
        fence.open_until(Instant::now() + Duration::from_secs(5));
        advance(Duration::from_millis(4_999)).await;
        assert!(fence.is_open());
        advance(Duration::from_millis(1)).await;
        assert!(!fence.is_open());
        let mut passed = Box::pin(fence.opened());
        assert!(poll!(&mut passed).is_pending());
        fence.open_until(Instant::now() + Duration::from_secs(1));
        passed.await;
        advance(Duration::from_hours(1)).await;
        assert!(!fence.is_open());
        assert!(Fence::always_open().is_open());
    }
}
