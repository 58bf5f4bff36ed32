//! Correlation ids of HTTP requests.

use std::{
    fmt::{self, Write as _},
    sync::atomic::{AtomicU64, Ordering},
};

use crate::support::Random;

/// The correlation id of one request, always created here and never taken from outside. It appears in the log, in the
/// header `x-request-id` of the response and on error pages. Displays as 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CorrelationId(u64);

/// Source of request ids: unique in one process, and unlikely to repeat in another. They are not secret.
#[derive(Debug)]
pub struct CorrelationIds(AtomicU64);

// === impl CorrelationIds ===

impl CorrelationIds {
    /// Ids that start at a random number.
    pub fn new(random: &dyn Random) -> Self {
        Self(AtomicU64::new(u64::from_be_bytes(random.bytes())))
    }

    /// Returns the next id.
    pub fn issue(&self) -> CorrelationId {
        // an odd multiplier maps each number to a distinct one: neighbours differ in most digits
        CorrelationId(self.0.fetch_add(1, Ordering::Relaxed).wrapping_mul(SPREAD))
    }
}

/// 2^64 divided by the golden ratio, made odd (Knuth, *The Art of Computer Programming*, 6.4).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

// === impl CorrelationId ===

impl CorrelationId {
    /// Its 16 hexadecimal digits.
    pub fn digits(self) -> [u8; 16] {
        let mut rest = self.0;
        let mut digits = [0; 16];
        for digit in digits.iter_mut().rev() {
            *digit = b"0123456789abcdef"[(rest & 0xf) as usize];
            rest >>= 4;
        }
        digits
    }
}

impl fmt::Display for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.digits().iter().try_for_each(|digit| f.write_char(char::from(*digit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_sixteen_digits() {
        assert_eq!(CorrelationId(0x0123_4567_89ab_cdef).to_string(), "0123456789abcdef");
        assert_eq!(CorrelationId(7).to_string(), "0000000000000007");
    }
}
