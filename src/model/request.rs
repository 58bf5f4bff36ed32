//! What one HTTP request is known by while it is served. Knows nothing of HTTP.

use std::fmt;

use crate::support::Random;

/// The correlation id of one request: minted here for each, never taken from outside. It stands in the log, in the
/// header `x-request-id` of the answer and on error pages. Displays as 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(u64);

impl RequestId {
    /// A fresh id.
    pub fn mint(random: &dyn Random) -> Self {
        Self(u64::from_be_bytes(random.bytes()))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
