//! Compares the clock of this machine with the clocks of the database and the other replicas. Sessions, codes and
//! tokens carry times that any replica may have written, so a replica with a wrong clock ends sessions that are alive
//! elsewhere.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::model::ClockDifference;

/// From this difference to the database's clock on, the log reports it.
const NOTICED: Duration = Duration::from_secs(1);
/// A clock this far off is wrong.
const WRONG: Duration = Duration::from_mins(1);
/// For this long another replica's clock has to contradict this one: when the database's clock moves, each replica
/// notices and reports it with its next renewal.
const CONFIRMED_AFTER: Duration = Duration::from_secs(3);
/// Interval between lines of the log about the same difference.
const LOGGED_EVERY: Duration = Duration::from_mins(10);

/// The clocks known to this replica.
#[derive(Debug, Default)]
pub(super) struct Clocks(Mutex<KnownClocks>);

#[derive(Debug, Default)]
struct KnownClocks {
    own: Option<ClockDifference>,
    /// Since when another replica's clock contradicts this one.
    contradicted: Option<Instant>,
    /// The last logged difference, and when it was logged.
    told: Option<(ClockDifference, Instant)>,
}

/// A clock that keeps a replica from joining.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the clock of this machine is {0} the database's: set the clocks of both machines (with NTP), and start again; with \
     such a clock this replica would end the sessions and logins of the others"
)]
pub struct WrongClock(pub(super) ClockDifference);

// === impl Clocks ===

impl Clocks {
    /// Checks whether a replica with this difference may join replicas with the others. If all share the difference,
    /// the database's clock is wrong.
    pub(super) fn admit(own: ClockDifference, others: &[ClockDifference]) -> Result<(), WrongClock> {
        let is_alone_with_it = others.is_empty() || is_contradicted(own, others);
        if own.size() > WRONG && is_alone_with_it { Err(WrongClock(own)) } else { Ok(()) }
    }

    /// Notes the difference measured by a renewal, too small by at most `uncertainty`.
    pub(super) fn measured(&self, raw: ClockDifference, uncertainty: Duration) {
        let own = raw.at_least(uncertainty);
        metrics::gauge!("lockkeeper_clock_difference_seconds").set(own.as_seconds());
        let (mut state, now) = (self.0.lock(), Instant::now());
        state.own = Some(own);
        let is_told = state.told.is_some_and(|(told, at)| told.between(own) < NOTICED && now - at < LOGGED_EVERY);
        if own.size() >= NOTICED && !is_told {
            state.told = Some((own, now));
            tracing::warn!(
                "the clock of this machine is {own} the database's: set both with NTP; beyond {} s a replica is not ready",
                WRONG.as_secs()
            );
        } else if own.size() < NOTICED && state.told.take().is_some() {
            tracing::info!("the clock of this machine agrees with the database's again");
        }
    }

    /// Compares it with the other replicas' clocks at their last renewals.
    pub(super) fn compare(&self, others: &[ClockDifference]) {
        let mut state = self.0.lock();
        let Some(own) = state.own else { return };
        if !is_contradicted(own, others) {
            if state.contradicted.take().is_some_and(|since| since.elapsed() >= CONFIRMED_AFTER) {
                tracing::info!("the clock of this machine is right again: the replica is ready");
            }
        } else if state.contradicted.is_none() {
            state.contradicted = Some(Instant::now());
            tracing::error!(
                "the clock of this machine is {own} the database's, with which other replicas agree: this replica is not \
                 ready until it is right"
            );
        }
    }

    /// The difference of this clock, if it is wrong.
    pub(super) fn wrong(&self) -> Option<ClockDifference> {
        let state = self.0.lock();
        let is_confirmed = state.contradicted.is_some_and(|since| since.elapsed() >= CONFIRMED_AFTER);
        state.own.filter(|_| is_confirmed)
    }
}

/// True if this clock is wrong, and another one is right and differs from it.
fn is_contradicted(own: ClockDifference, others: &[ClockDifference]) -> bool {
    let contradicts = |other: &ClockDifference| other.size() <= WRONG && other.between(own) > WRONG;
    own.size() > WRONG && others.iter().any(contradicts)
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn of(seconds: i64) -> ClockDifference {
        ClockDifference::from_millis(seconds * 1000)
    }

    #[test]
    fn a_replica_with_a_wrong_clock_joins_only_those_that_differ_alike() {
        let refused = |own| Err(WrongClock(of(own)));
        assert_eq!(Clocks::admit(of(59), &[of(0)]), Ok(()));
        assert_eq!(Clocks::admit(of(3600), &[of(0), of(3600)]), refused(3600));
        assert_eq!(Clocks::admit(of(-61), &[]), refused(-61));
        assert_eq!(Clocks::admit(of(3600), &[of(3599), of(3602)]), Ok(()), "the database's clock is wrong");
        let text = WrongClock(of(3600)).to_string();
        assert!(text.starts_with("the clock of this machine is 3600.0 s ahead of the database's: set"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_is_wrong_when_another_speaks_against_it_for_a_while() {
        let clocks = Clocks::default();
        clocks.compare(&[of(0)]);
        clocks.measured(of(3600), Duration::ZERO);
        clocks.compare(&[of(0)]);
        assert_eq!(clocks.wrong(), None);
        advance(CONFIRMED_AFTER).await;
        clocks.compare(&[of(0)]);
        assert_eq!(clocks.wrong(), Some(of(3600)));
        clocks.measured(of(2), Duration::ZERO);
        clocks.compare(&[of(0)]);
        assert_eq!(clocks.wrong(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_of_the_database_may_move_under_all() {
        let clocks = Clocks::default();
        clocks.measured(of(-3600), Duration::ZERO);
        // the other has not renewed its lease since
        clocks.compare(&[of(0)]);
        advance(CONFIRMED_AFTER / 2).await;
        clocks.compare(&[of(-3600)]);
        advance(Duration::from_mins(1)).await;
        assert_eq!(clocks.wrong(), None);
    }

    #[test]
    fn a_slow_database_makes_no_clock_wrong() {
        let clocks = Clocks::default();
        clocks.measured(of(-2), Duration::from_secs(2));
        assert_eq!(clocks.0.lock().own, Some(of(0)));
        assert!(clocks.0.lock().told.is_none());
    }
}
