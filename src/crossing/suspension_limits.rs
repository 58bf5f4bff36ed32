//! Bounds of what crossings keep. Knows nothing of where they are configured.

use std::time::Duration;

/// The bounds of calls that wait for their clients.
#[derive(Debug, Clone, Copy)]
pub struct SuspensionLimits {
    /// Calls of one user's clients without sessions that wait for answers between two requests; if one more asks, its
    /// server is told that nobody answers. 4,096.
    pub suspended_calls_per_user: usize,
    /// The same of all users. 16,384.
    pub suspended_calls: usize,
    /// The time for which such a call waits for its client. 10 minutes.
    pub question_timeout: Duration,
}

impl Default for SuspensionLimits {
    fn default() -> Self {
        Self { suspended_calls_per_user: 4_096, suspended_calls: 16_384, question_timeout: Duration::from_mins(10) }
    }
}
