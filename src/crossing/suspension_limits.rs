//! Limits of suspended calls. Knows nothing of the configuration.

use std::time::Duration;

/// Limits of suspended calls.
#[derive(Debug, Clone, Copy)]
pub struct SuspensionLimits {
    /// Suspended calls of one user's clients. Beyond it, a server request is refused. 4,096.
    pub suspended_calls_per_user: usize,
    /// Suspended calls of all users. 16,384.
    pub suspended_calls: usize,
    /// Time for which a suspended call waits for its client. 10 minutes.
    pub server_request_timeout: Duration,
}

impl Default for SuspensionLimits {
    fn default() -> Self {
        Self {
            suspended_calls_per_user: 4_096,
            suspended_calls: 16_384,
            server_request_timeout: Duration::from_mins(10),
        }
    }
}
