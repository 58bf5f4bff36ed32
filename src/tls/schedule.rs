//! When the next order is due: after a certificate, and after a failure. Pure arithmetic.

use std::{ops::Range, time::Duration};

use crate::support::{Random, Timestamp};

/// Pauses after successive failed orders. No more than four fall into an hour: authorities allow five.
const PAUSES: [Duration; 8] = [
    Duration::from_mins(1),
    Duration::from_mins(10),
    Duration::from_mins(30),
    Duration::from_hours(1),
    Duration::from_hours(2),
    Duration::from_hours(4),
    Duration::from_hours(8),
    Duration::from_hours(24),
];
/// The longest pause while an authority is unreachable, since no order fails there.
const LONGEST_SILENCE: Duration = Duration::from_mins(30);
/// A start tries again if this much time has passed since the failure, so that a person who has fixed something need
/// not wait.
const START_AFTER: Duration = Duration::from_mins(15);

/// Why an order failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// The authority did not answer.
    Unreachable,
    /// It refused, or did not see the challenge; it may say how long to wait.
    Refused(Option<Duration>),
}

/// The pause after the failure that follows `failures` others.
pub(super) fn pause(failures: u32, kind: FailureKind, random: &dyn Random) -> Duration {
    let pause = usize::try_from(failures).ok().and_then(|index| PAUSES.get(index)).unwrap_or(&PAUSES[PAUSES.len() - 1]);
    let pause = match kind {
        FailureKind::Unreachable => (*pause).min(LONGEST_SILENCE),
        FailureKind::Refused(least) => (*pause).max(least.unwrap_or_default()).min(Duration::from_hours(7 * 24)),
    };
    pause + part(random) * (pause / 10)
}

/// The time when a start may retry an order that failed at `failed` and is due at `due`.
pub(super) fn due_at_start(due: Timestamp, failed: Option<Timestamp>) -> Timestamp {
    failed.map_or(due, |failed| due.min(failed + START_AFTER))
}

/// The time to replace a certificate valid for this time, if the authority suggests no time: after two thirds of it,
/// with some variation among gateways.
pub(super) fn renewal(valid: &Range<Timestamp>, random: &dyn Random) -> Timestamp {
    let lifetime = valid.end.since(valid.start);
    valid.start + lifetime * 2 / 3 - part(random) * (lifetime / 20)
}

/// A random moment of the authority's suggested window (RFC 9773 4.2).
pub(super) fn within(window: &Range<Timestamp>, random: &dyn Random) -> Timestamp {
    window.start + part(random) * window.end.since(window.start)
}

/// A random fraction of a duration.
struct Part(u32);

fn part(random: &dyn Random) -> Part {
    Part(u32::from(u16::from_be_bytes(random.bytes())))
}

impl std::ops::Mul<Duration> for Part {
    type Output = Duration;

    fn mul(self, duration: Duration) -> Duration {
        duration / u32::from(u16::MAX) * self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::SeededRandom;

    #[test]
    fn no_more_than_five_orders_fail_within_an_hour_and_one_a_day_in_the_end() {
        let random = SeededRandom::new(1);
        let mut at = Duration::ZERO;
        let mut times = vec![at];
        for failures in 0..20 {
            at += pause(failures, FailureKind::Refused(None), &random);
            times.push(at);
        }
        let within_an_hour = |from: &Duration| {
            times.iter().filter(|time| (*from..*from + Duration::from_hours(1)).contains(*time)).count()
        };
        assert!(times.iter().map(within_an_hour).max().unwrap() <= 5);
        assert!(times[20] >= times[19] + Duration::from_hours(24));
    }

    #[test]
    fn an_authority_that_asks_for_a_pause_gets_it_and_one_that_is_silent_is_asked_again() {
        let random = SeededRandom::new(1);
        let hours = Duration::from_hours;
        assert!(pause(0, FailureKind::Refused(Some(hours(3))), &random) >= hours(3));
        assert!(pause(20, FailureKind::Unreachable, &random) < hours(1));
    }

    #[test]
    fn a_certificate_is_replaced_after_two_thirds_of_its_time_and_not_by_all_at_once() {
        let random = SeededRandom::new(1);
        let valid = Timestamp::from_seconds(0)..Timestamp::from_seconds(90 * 86_400);
        let times: Vec<i64> = (0..50).map(|_| renewal(&valid, &random).as_seconds() / 86_400).collect();
        assert!(times.iter().all(|days| (55..=60).contains(days)), "{times:?}");
        assert!(times.iter().min() != times.iter().max());
        for _ in 0..50 {
            assert!((valid.start..=valid.end).contains(&within(&valid, &random)));
        }
    }

    #[test]
    fn a_start_tries_again_soon_but_not_at_once() {
        let (failed, due) = (Timestamp::from_seconds(1_000), Timestamp::from_seconds(90_000));
        assert_eq!(due_at_start(due, Some(failed)), Timestamp::from_seconds(1_900));
        assert_eq!(due_at_start(due, None), due);
        assert_eq!(due_at_start(Timestamp::from_seconds(1_060), Some(failed)), Timestamp::from_seconds(1_060));
    }
}
