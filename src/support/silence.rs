//! How long a peer may be silent, judged fairly: while this process was frozen (stopped by a signal, its machine asleep
//! or starved), the peer may have sent data that waits to be read.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

/// A timer this late shows a freeze.
const LATE: Duration = Duration::from_secs(1);
/// After a freeze, queued data is read, and a peer answers a ping, within this time.
const CATCH_UP: Duration = Duration::from_secs(5);

/// True if a timer for `due`, checked only at `now`, was delayed by a freeze.
pub fn was_frozen(due: Instant, now: Instant) -> bool {
    now.saturating_duration_since(due) >= LATE
}

/// Waits until `deadline`, after which a peer counts as gone; after a freeze, for 5 s more.
pub async fn overdue(deadline: Instant) {
    sleep_until(deadline).await;
    if was_frozen(deadline, Instant::now()) {
        tracing::info!("the gateway was stopped or starved for a while: what arrived in the meantime is read first");
        sleep(CATCH_UP).await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::poll;
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_deadline_that_passes_in_a_freeze_leaves_time_to_read_what_waits() {
        let mut waits = pin!(overdue(Instant::now() + Duration::from_secs(75)));
        assert!(poll!(&mut waits).is_pending());
        advance(Duration::from_mins(10)).await;
        assert!(poll!(&mut waits).is_pending(), "the peer may have spoken");
        advance(CATCH_UP).await;
        assert!(poll!(&mut waits).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_is_kept_while_the_process_runs() {
        let begun = Instant::now();
        overdue(begun + Duration::from_secs(75)).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(75));
    }
}
