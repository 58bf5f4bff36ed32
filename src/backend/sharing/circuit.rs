//! Circuit breaker for the connections of one client: after repeated failures, one call a second tries again, and all
//! others fail at once. The base connection has [`crate::backend::supervision`] instead.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::backend::error::StartError;

/// Number of failures in a row before calls fail without a try.
const TOLERATED: u32 = 3;
/// Minimum delay between two tries after that.
const DELAY: Duration = Duration::from_secs(1);

/// Failures in a row; `None` after a success.
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
    /// Allows a try: always after few failures, later once in [`DELAY`].
    ///
    /// # Errors
    ///
    /// The last failure, with the time until the next try.
    pub(crate) fn admit(&self) -> Result<(), StartError> {
        let mut failed = self.0.lock();
        let Some(failed) = failed.as_mut().filter(|failed| failed.count >= TOLERATED) else { return Ok(()) };
        let now = Instant::now();
        if let Some(left) = failed.next_try.checked_duration_since(now).filter(|left| !left.is_zero()) {
            return Err(failed.error.clone().postponed(left));
        }
        // other calls fail until this one has had its time
        failed.next_try = now + DELAY;
        Ok(())
    }

    /// Closes the circuit: a connection opened.
    pub(crate) fn succeeded(&self) {
        *self.0.lock() = None;
    }

    /// Counts a failure, which delays the next try.
    pub(crate) fn failed(&self, error: &StartError) {
        let mut failed = self.0.lock();
        let count = failed.as_ref().map_or(0, |failed| failed.count).saturating_add(1);
        let next_try = Instant::now() + DELAY;
        *failed = Some(FailedTries { count, error: error.clone(), next_try });
    }

    /// The last failure and the time until the next try, for the status; `None` unless calls fail without a try.
    pub(crate) fn warning(&self) -> Option<String> {
        let failed = self.0.lock();
        let failed = failed.as_ref().filter(|failed| failed.count >= TOLERATED)?;
        let left = failed.next_try.saturating_duration_since(Instant::now());
        Some(failed.error.clone().postponed(left).to_string())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

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
        advance(DELAY).await;
        circuit.admit().unwrap();
        assert!(circuit.admit().is_err(), "one call tries");
        circuit.failed(&error);
        assert_eq!(circuit.admit().unwrap_err().to_string(), told, "a server that works again is not waited for");
        advance(DELAY).await;
        circuit.admit().unwrap();
        circuit.succeeded();
        circuit.admit().unwrap();
        assert_eq!(circuit.warning(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_try_that_is_given_up_does_not_keep_the_circuit_open() {
        let circuit = Circuit::default();
        (0..TOLERATED).for_each(|_| circuit.failed(&StartError::Stopping));
        advance(DELAY).await;
        circuit.admit().unwrap();
        // the outcome of the try is never recorded
        advance(DELAY).await;
        circuit.admit().unwrap();
    }
}
