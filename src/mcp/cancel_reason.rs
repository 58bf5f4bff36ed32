//! Reason for cancelling a call, for its server (all versions, cancellation). Dropping a reply gives none.

use std::sync::{Arc, OnceLock};

/// Maximum length of a forwarded reason, in characters.
const LONGEST: usize = 1_000;

/// Reason of a cancellation, set by the side that cancels. Clones share it.
#[derive(Debug, Clone)]
pub struct CancelReason {
    said: Arc<OnceLock<Box<str>>>,
    otherwise: &'static str,
}

impl CancelReason {
    /// Creates a reason with the default text `otherwise`.
    pub fn new(otherwise: &'static str) -> Self {
        Self { said: Arc::default(), otherwise }
    }

    /// Sets the reason; only the first one counts.
    pub fn say(&self, reason: &str) {
        let _ = self.said.set(reason.chars().take(LONGEST).collect());
    }

    pub fn reason(&self) -> &str {
        self.said.get().map_or(self.otherwise, |said| said)
    }
}

impl Default for CancelReason {
    fn default() -> Self {
        Self::new("the client gave up the request")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_counts() {
        let cancel_reason = CancelReason::default();
        let other = cancel_reason.clone();
        assert_eq!(other.reason(), "the client gave up the request");
        cancel_reason.say("tired");
        other.say("late");
        assert_eq!(other.reason(), "tired");
    }
}
