//! What one HTTP request is known by while it is served. Knows nothing of HTTP.

use std::fmt::{self, Write as _};

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

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.digits().iter().try_for_each(|digit| f.write_char(char::from(*digit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_sixteen_digits() {
        assert_eq!(RequestId(0x0123_4567_89ab_cdef).to_string(), "0123456789abcdef");
        assert_eq!(RequestId(7).to_string(), "0000000000000007");
    }
}
