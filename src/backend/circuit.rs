//! Circuit of the connections that are opened for one client: after repeated failures a call is answered at once, and a
//! single one tries again from time to time. The base connection has [`super::supervision`] instead.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::error::StartError;

/// Failures in a row that each call may find out for itself.
const TOLERATED: u32 = 3;
/// Maximum delay between two tries.
const MAX_DELAY: Duration = Duration::from_mins(1);

/// The failures in a row; `None` after a success.
#[derive(Debug, Default)]
pub(crate) struct Circuit(Mutex<Option<FailedTries>>);

#[derive(Debug)]
struct FailedTries {
    count: u32,
    error: StartError,
    next_try: Instant,
}

// === impl Circuit ===

impl Circuit {
    /// Lets a try begin: any while few have failed, later one at a time.
    ///
    /// # Errors
    ///
    /// The last failure, with the time of the next try.
    pub(crate) fn admit(&self) -> Result<(), StartError> {
        let mut failed = self.0.lock();
        let Some(failed) = failed.as_mut().filter(|failed| failed.count >= TOLERATED) else { return Ok(()) };
        let now = Instant::now();
        if let Some(left) = failed.next_try.checked_duration_since(now).filter(|left| !left.is_zero()) {
            return Err(failed.error.clone().postponed(left));
        }
        // the others wait for what becomes of this one
        failed.next_try = now + delay_after(failed.count - TOLERATED);
        Ok(())
    }

    /// Records a connection.
    pub(crate) fn succeeded(&self) {
        *self.0.lock() = None;
    }

    /// Records a failure.
    pub(crate) fn failed(&self, error: &StartError) {
        let mut failed = self.0.lock();
        let count = failed.as_ref().map_or(0, |failed| failed.count).saturating_add(1);
        let next_try = Instant::now() + delay_after(count.saturating_sub(TOLERATED));
        *failed = Some(FailedTries { count, error: error.clone(), next_try });
    }

    /// The last failure, with the time of the next try, while calls are answered at once.
    pub(crate) fn warning(&self) -> Option<String> {
        let failed = self.0.lock();
        let failed = failed.as_ref().filter(|failed| failed.count >= TOLERATED)?;
        let left = failed.next_try.saturating_duration_since(Instant::now());
        Some(failed.error.clone().postponed(left).to_string())
    }
}

/// The delay before the try after this many failures: 1, 2, 4 … 60 seconds (`translation` 6.4).
pub(crate) fn delay_after(failures: u32) -> Duration {
    Duration::from_secs(1 << failures.min(6)).min(MAX_DELAY)
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[test]
    fn delays_grow_to_a_minute() {
        let waits: Vec<u64> = [0, 1, 2, 5, 6, 100].map(|failures| delay_after(failures).as_secs()).into();
        assert_eq!(waits, [1, 2, 4, 32, 60, 60]);
    }

    #[tokio::test(start_paused = true)]
    async fn after_repeated_failures_one_call_tries_and_the_others_are_told_when() {
        let circuit = Circuit::default();
        let error = StartError::Unreachable("no licence is free".to_owned());
        for _ in 0..TOLERATED {
            circuit.admit().unwrap();
            assert_eq!(circuit.warning(), None);
            circuit.failed(&error);
        }
        let told = "no licence is free; next try in 1 s";
        assert_eq!(circuit.admit().unwrap_err().to_string(), told);
        assert_eq!(circuit.warning().unwrap(), told);
        advance(Duration::from_secs(1)).await;
        circuit.admit().unwrap();
        assert!(circuit.admit().is_err(), "one call tries");
        circuit.failed(&error);
        assert_eq!(circuit.admit().unwrap_err().to_string(), "no licence is free; next try in 2 s");
        advance(Duration::from_secs(2)).await;
        circuit.admit().unwrap();
        circuit.succeeded();
        circuit.admit().unwrap();
        assert_eq!(circuit.warning(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_try_that_is_given_up_does_not_keep_the_circuit_open() {
        let circuit = Circuit::default();
        (0..TOLERATED).for_each(|_| circuit.failed(&StartError::Stopping));
        advance(MAX_DELAY).await;
        circuit.admit().unwrap();
        // nobody tells how it ended
        advance(MAX_DELAY).await;
        circuit.admit().unwrap();
    }
}
