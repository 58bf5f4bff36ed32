//! Minimum rate of a message that a peer sends: the body of a request, or a WebSocket message.

use std::time::Duration;

use tokio::time::Instant;

/// Bytes that a message must bring in each further period of its timeout: 1 KiB for each second.
const BYTES_PER_SECOND: u64 = 1024;

/// Rate of a message. Only time spent waiting on this side counts, since it is the peer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    period: Duration,
    /// Periods that have ended.
    ended: u32,
    /// Time waited and bytes received in this period.
    waited: Duration,
    bytes: u64,
}

/// The peer sent too little for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooSlow;

// === impl Pace ===

impl Pace {
    /// Nothing received yet. In `period` at least one byte must come, and in each further period 1 KiB for each second.
    pub const fn new(period: Duration) -> Self {
        Self { period, ended: 0, waited: Duration::ZERO, bytes: 0 }
    }

    /// The time it is judged, if this side has waited since `since`.
    pub fn deadline(&self, since: Instant) -> Instant {
        since + self.period.saturating_sub(self.waited)
    }

    /// The pace after `bytes` arrived after a wait since `since`. If they are read after the deadline, no one judged in
    /// time: this side was late to read, so the wait does not count.
    pub fn received(mut self, bytes: usize, since: Instant, now: Instant) -> Result<Self, TooSlow> {
        let since = if now > self.deadline(since) { now } else { since };
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        self.judge(since, now)
    }

    /// The pace after the wait since `since`, which continues or has ended.
    pub fn judge(mut self, since: Instant, now: Instant) -> Result<Self, TooSlow> {
        self.waited += now.saturating_duration_since(since);
        if self.waited < self.period {
            return Ok(self);
        }
        let least = if self.ended == 0 { 1 } else { self.period.as_secs().saturating_mul(BYTES_PER_SECOND).max(1) };
        if self.bytes < least {
            return Err(TooSlow);
        }
        Ok(Self { period: self.period, ended: self.ended.saturating_add(1), waited: Duration::ZERO, bytes: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(30);

    /// The second in which a body that brings `bytes` every `every` seconds is given up, within ten minutes.
    fn given_up(bytes: usize, every: u64) -> Option<u64> {
        let start = Instant::now();
        let mut pace = Pace::new(PERIOD);
        let mut since = start;
        for second in 1..=600 {
            let now = start + Duration::from_secs(second);
            let judged = if second % every == 0 {
                pace.received(bytes, since, now)
            } else if now >= pace.deadline(since) {
                pace.judge(since, now)
            } else {
                continue;
            };
            match judged {
                Ok(next) => (pace, since) = (next, now),
                Err(TooSlow) => return Some(second),
            }
        }
        None
    }

    #[test]
    fn a_body_needs_a_byte_in_the_first_period_and_a_kibibyte_a_second_after_it() {
        assert_eq!(given_up(0, 1), Some(30));
        assert_eq!(given_up(1, 1), Some(60));
        assert_eq!(given_up(1000, 1), Some(60));
        assert_eq!(given_up(1024, 1), None);
        assert_eq!(given_up(20 * 2048, 20), None, "a steady body may come in bursts");
    }

    #[test]
    fn time_in_which_nobody_waits_does_not_count() {
        let start = Instant::now();
        let pace = Pace::new(PERIOD).received(1, start, start + Duration::from_secs(29)).unwrap();
        let later = start + Duration::from_hours(1);
        assert_eq!(pace.deadline(later), later + Duration::from_secs(1));
    }
}
