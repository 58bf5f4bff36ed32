//! Opening of a session's standalone stream (GET): how long calls wait for it, and slow servers.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// Maximum wait of a call for the stream, measured from the request for it.
const OPENING_TIMEOUT: Duration = Duration::from_millis(250);

/// True if the server opens its standalone streams late. Shared by all sessions of one backend; the latest stream
/// decides.
#[derive(Debug, Clone, Default)]
pub(crate) struct LateStreams(Arc<AtomicBool>);

/// Opening of one session's standalone stream.
#[derive(Debug)]
pub(super) struct Opening {
    late: LateStreams,
    /// The first time that the stream could be requested; unset before the handshake is complete.
    asked: OnceLock<Instant>,
    /// Cancelled at that time.
    may_ask: CancellationToken,
    /// Cancelled once the server has accepted or refused the stream.
    answered: CancellationToken,
}

// === impl Opening ===

impl Opening {
    /// State before the handshake.
    pub(super) fn new(late: &LateStreams) -> Self {
        let (may_ask, answered) = (CancellationToken::new(), CancellationToken::new());
        Self { late: late.clone(), asked: OnceLock::new(), may_ask, answered }
    }

    /// Allows the request for the stream, after the handshake.
    pub(super) fn begin(&self) {
        let _ = self.asked.set(Instant::now());
        self.may_ask.cancel();
    }

    /// Waits until the stream may be requested, from [`Opening::begin`] on.
    pub(super) async fn may_ask(&self) {
        self.may_ask.cancelled().await;
    }

    /// Records that the server has accepted or refused the stream.
    pub(super) fn answered(&self) {
        if self.answered.is_cancelled() {
            return;
        }
        let late = self.asked.get().is_some_and(|asked| asked.elapsed() >= OPENING_TIMEOUT);
        self.late.0.store(late, Ordering::Release);
        self.answered.cancel();
    }

    /// The wait of a call for the stream; `None` if the server has answered, or usually is late.
    pub(super) fn wait(&self) -> Option<BoxFuture<'static, ()>> {
        let until = *self.asked.get()? + OPENING_TIMEOUT;
        if self.answered.is_cancelled() || self.late.0.load(Ordering::Acquire) {
            return None;
        }
        let (answered, late) = (self.answered.clone(), self.late.clone());
        let wait = async move {
            if timeout_at(until, answered.cancelled_owned()).await.is_err() {
                late.0.store(true, Ordering::Release);
            }
        };
        Some(wait.boxed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_until_the_stream_is_open_or_the_time_is_over() {
        let late = LateStreams::default();
        let (quick, slow) = (Opening::new(&late), Opening::new(&late));
        assert!(quick.wait().is_none(), "the handshake is not done");
        quick.begin();
        let mut waiting = quick.wait().unwrap();
        assert!((&mut waiting).now_or_never().is_none());
        quick.answered();
        assert!(waiting.now_or_never().is_some() && quick.wait().is_none());
        slow.begin();
        let start = Instant::now();
        slow.wait().unwrap().await;
        assert_eq!(start.elapsed(), OPENING_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_at_a_server_that_is_late_wait_no_more_until_a_stream_comes_in_time() {
        let late = LateStreams::default();
        let opening = || {
            let opening = Opening::new(&late);
            opening.begin();
            opening
        };
        opening().wait().unwrap().await;
        let next = opening();
        assert!(next.wait().is_none());
        next.answered();
        let (waits, slow) = (opening(), opening());
        assert!(waits.wait().is_some());
        tokio::time::advance(OPENING_TIMEOUT).await;
        slow.answered();
        assert!(opening().wait().is_none());
    }
}
