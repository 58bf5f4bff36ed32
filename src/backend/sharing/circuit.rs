//! Circuit of the connections that are opened for one client: after repeated failures a single call tries again, once a
//! second, and the others are answered at once. The base connection has [`crate::backend::supervision`] instead.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::backend::error::StartError;

/// Failures in a row that each call may find out for itself.
const TOLERATED: u32 = 3;
/// Time between two tries.
const DELAY: Duration = Duration::from_secs(1);

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
        failed.next_try = now + DELAY;
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
        let next_try = Instant::now() + DELAY;
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
        // nobody tells how it ended
        advance(DELAY).await;
        circuit.admit().unwrap();
    }
}
