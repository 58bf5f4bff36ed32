//! The opening of a session's standalone stream (GET): how long calls wait for it, and whether the server is slow to open
//! it. Knows nothing of what comes on it.

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

/// The longest that a call waits for the stream, counted from when it was asked for.
const OPENING_TIMEOUT: Duration = Duration::from_millis(250);

/// Whether a server opens its standalone streams late; shared by all sessions of one backend. The latest stream counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct LateStreams(Arc<AtomicBool>);

/// The opening of the standalone stream of one session.
#[derive(Debug)]
pub(super) struct Opening {
    late: LateStreams,
    /// When the server could be asked for the stream.
    asked: OnceLock<Instant>,
    /// Cancelled at the same time.
    may_ask: CancellationToken,
    /// Cancelled when the server has opened the stream or refused it.
    answered: CancellationToken,
}

// === impl Opening ===

impl Opening {
    /// An opening that waits for the handshake.
    pub(super) fn new(late: &LateStreams) -> Self {
        let (may_ask, answered) = (CancellationToken::new(), CancellationToken::new());
        Self { late: late.clone(), asked: OnceLock::new(), may_ask, answered }
    }

    /// The handshake is done: the stream is asked for now.
    pub(super) fn begin(&self) {
        let _ = self.asked.set(Instant::now());
        self.may_ask.cancel();
    }

    /// Waits for [`Opening::begin`].
    pub(super) async fn may_ask(&self) {
        self.may_ask.cancelled().await;
    }

    /// The server has opened the stream or refused it.
    pub(super) fn answered(&self) {
        if self.answered.is_cancelled() {
            return;
        }
        let late = self.asked.get().is_some_and(|asked| asked.elapsed() >= OPENING_TIMEOUT);
        self.late.0.store(late, Ordering::Release);
        self.answered.cancel();
    }

    /// The wait of a call for the answer; `None` if it has come or the server is known to be late.
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
