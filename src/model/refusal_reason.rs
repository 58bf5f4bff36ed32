//! The reason for a refusal, on its way to the log line of the request.

use std::{borrow::Cow, fmt};

use crate::support::Random;

/// Characters of codes: no vowels, so no words, and no look-alikes.
const ALPHABET: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
const LENGTH: usize = 8;

/// A code that identifies one refusal, for people to pass on. It is random and not secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RefusalCode([u8; LENGTH]);

/// The reason for a refusal; a response extension for the log line. It holds no secret.
#[derive(Debug, Clone)]
pub struct RefusalReason {
    /// The reason, for the operator.
    pub reason: Cow<'static, str>,
    /// The code shown in the answer, if any.
    pub code: Option<RefusalCode>,
}

// === impl RefusalCode ===

impl RefusalCode {
    /// A new code.
    pub fn mint(random: &dyn Random) -> Self {
        let mut code = [0; LENGTH];
        let mut filled = 0;
        while filled < LENGTH {
            // 240 is the largest multiple of 20 in a byte; larger values would bias the result
            for byte in random.bytes::<16>().into_iter().filter(|byte| *byte < 240).take(LENGTH - filled) {
                code[filled] = ALPHABET[usize::from(byte) % ALPHABET.len()];
                filled += 1;
            }
        }
        Self(code)
    }
}

impl fmt::Display for RefusalCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|letter| fmt::Write::write_char(f, char::from(*letter)))
    }
}

impl fmt::Debug for RefusalCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// === impl RefusalReason ===

impl RefusalReason {
    /// A reason for an answer without a code.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { reason: reason.into(), code: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::SeededRandom;

    #[test]
    fn each_refusal_has_a_code_of_eight_letters() {
        let random = SeededRandom::new(1);
        let codes: Vec<String> = (0..100).map(|_| RefusalCode::mint(&random).to_string()).collect();
        assert!(codes.iter().all(|code| code.len() == 8 && code.bytes().all(|letter| ALPHABET.contains(&letter))));
        assert!(codes.iter().enumerate().all(|(at, code)| !codes[..at].contains(code)));
    }
}
