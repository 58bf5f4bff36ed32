//! Why a call was given up, for its server to read (all versions, cancellation). Dropping a reply says nothing by itself.

use std::sync::{Arc, OnceLock};

/// The longest reason that is passed on, in characters.
const LONGEST: usize = 1_000;

/// What whoever gives up a call says about it. All clones are one.
#[derive(Debug, Clone)]
pub struct CancelReason {
    said: Arc<OnceLock<Box<str>>>,
    otherwise: &'static str,
}

impl CancelReason {
    /// The reason is `otherwise`, unless another is said.
    pub fn new(otherwise: &'static str) -> Self {
        Self { said: Arc::default(), otherwise }
    }

    /// Says why; what is said first counts.
    pub fn say(&self, reason: &str) {
        let _ = self.said.set(reason.chars().take(LONGEST).collect());
    }

    /// The reason.
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
