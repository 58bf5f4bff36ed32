//! Budget for log lines about refused requests, because anyone can send any number of them.

use std::{
    net::IpAddr,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    model::ClientIp,
    support::{Timestamp, limits::Buckets},
};

/// Number of lines that requests from one network can cause at once. After that, one in each [`NETWORK_EVERY`].
const NETWORK_BURST: u32 = 200;
const NETWORK_EVERY: Duration = Duration::from_secs(1);
/// Number of lines that all networks can cause at once. After that, one in each [`ALL_EVERY`].
const ALL_BURST: u32 = 2_000;
const ALL_EVERY: Duration = Duration::from_millis(50);
/// Interval between lines that count the refusals without their own line.
const SUMMARY_EVERY: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(super) struct RefusalBudget {
    since: Instant,
    networks: Buckets<IpAddr>,
    all: Buckets<()>,
    /// Number of refusals without a line since the last summary.
    counted: AtomicU64,
    summarised: Mutex<Option<Instant>>,
}

// === impl RefusalBudget ===

impl RefusalBudget {
    pub(super) fn new() -> Self {
        Self {
            since: Instant::now(),
            networks: Buckets::new(NETWORK_BURST, NETWORK_EVERY),
            all: Buckets::new(ALL_BURST, ALL_EVERY),
            counted: AtomicU64::new(0),
            summarised: Mutex::default(),
        }
    }

    /// Takes the budget for one line. If there is not enough, the refusal is only counted.
    pub(super) fn take(&self, from: ClientIp) -> bool {
        let now = Timestamp::from_millis(i64::try_from(self.since.elapsed().as_millis()).unwrap_or(i64::MAX));
        // a network that has used up its own lines must not take those meant for others
        let is_taken = self.networks.take(from.network(), now).is_ok() && self.all.take((), now).is_ok();
        if !is_taken {
            self.counted.fetch_add(1, Ordering::Relaxed);
            metrics::counter!("lockkeeper_http_refusals_unlogged_total").increment(1);
        }
        is_taken
    }

    /// The number of refusals without a line; `None` if there are none, or if the last summary is less than an interval
    /// ago.
    pub(super) fn summary(&self) -> Option<u64> {
        if self.counted.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let (mut summarised, now) = (self.summarised.lock(), Instant::now());
        if summarised.is_some_and(|last| now - last < SUMMARY_EVERY) {
            return None;
        }
        *summarised = Some(now);
        Some(self.counted.swap(0, Ordering::Relaxed)).filter(|count| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(budget: &RefusalBudget, from: [u8; 4], requests: usize) -> usize {
        (0..requests).filter(|_| budget.take(ClientIp(from.into()))).count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_that_floods_the_log_leaves_the_lines_of_others() {
        let budget = RefusalBudget::new();
        assert_eq!(lines(&budget, [198, 51, 100, 1], 100_000), NETWORK_BURST as usize);
        assert_eq!(lines(&budget, [203, 0, 113, 5], 10), 10);
        assert_eq!(budget.summary(), Some(100_000 - u64::from(NETWORK_BURST)));
        assert_eq!(lines(&budget, [198, 51, 100, 1], 5), 0);
        assert_eq!(budget.summary(), None);
        tokio::time::advance(SUMMARY_EVERY).await;
        assert_eq!(budget.summary(), Some(5));
        assert_eq!(lines(&budget, [198, 51, 100, 1], 100), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn many_networks_together_are_bounded() {
        let budget = RefusalBudget::new();
        let written: usize = (0..=255).map(|network| lines(&budget, [10, 0, 0, network], 100)).sum();
        assert_eq!(written, ALL_BURST as usize);
    }
}
