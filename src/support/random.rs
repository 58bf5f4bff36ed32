//! Randomness as a dependency.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _, TryRng as _, rngs::StdRng, rngs::SysRng};

/// Source of unpredictable bytes. Two implementations: the operating system's, and a seeded one for tests.
pub trait Random: Send + Sync {
    /// Overwrites the whole of `bytes`.
    fn fill(&self, bytes: &mut [u8]);
}

/// The operating system's cryptographic generator.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsRandom;

/// A generator that repeats from its seed; for tests only.
#[derive(Debug)]
pub struct SeededRandom(Mutex<StdRng>);

impl dyn Random + '_ {
    /// `N` random bytes.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// A random string of 256 bits in base64url without padding (43 characters, all of them URL-safe).
    pub fn token(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.bytes::<32>())
    }
}

impl Random for OsRandom {
    #[expect(clippy::expect_used, reason = "without randomness there is no safe way on")]
    fn fill(&self, bytes: &mut [u8]) {
        SysRng.try_fill_bytes(bytes).expect("the operating system gives random bytes");
    }
}

impl SeededRandom {
    /// A generator that starts from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed)))
    }
}

impl Random for SeededRandom {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().fill_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operating_system_never_repeats_a_token() {
        let random: &dyn Random = &OsRandom;
        let (one, two) = (random.token(), random.token());
        assert_ne!(one, two);
        assert_eq!(one.len(), 43);
    }

    #[test]
    fn a_seed_repeats_itself() {
        let (one, two) = (SeededRandom::new(7), SeededRandom::new(7));
        assert_eq!((&one as &dyn Random).token(), (&two as &dyn Random).token());
    }
}
