//! Digests: stored in place of secrets, in the database and in memory.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use siphasher::sip128::SipHasher24;
use subtle::ConstantTimeEq as _;

use super::random::Random;

/// A SHA-256 digest. Comparing takes the same time, wherever two differ.
#[derive(Clone, Copy, Hash)]
#[expect(clippy::derived_hash_with_manual_eq, reason = "the manual equality is the same relation, in constant time")]
pub struct Digest([u8; 32]);

impl Digest {
    /// Length in bytes.
    pub const LENGTH: usize = 32;

    /// The digest of `data`.
    pub fn sha256(data: impl AsRef<[u8]>) -> Self {
        Self(Sha256::digest(data).into())
    }

    /// The digest of these texts, concatenated.
    pub fn of_parts(parts: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut digest = Sha256::new();
        parts.into_iter().for_each(|part| digest.update(part.as_ref()));
        Self(digest.finalize().into())
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The digest with these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads a stored digest; `None` if it is not 32 bytes long.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Base64url without padding, as RFC 7636 and RFC 7638 write digests (43 characters).
    pub fn to_base64url(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    /// The first `bytes` bytes (at most 32) in lower-case hexadecimal.
    pub fn short_hex(&self, bytes: usize) -> String {
        use fmt::Write as _;
        self.0.iter().take(bytes).fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Digest {}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({}…)", self.short_hex(4))
    }
}

/// The key of digests that never leave this process. Each process draws its own, so outsiders cannot find two texts
/// with the same digest, or exploit the time of comparisons.
#[derive(Clone, Copy)]
pub struct DigestKey(SipHasher24);

impl DigestKey {
    pub fn new(random: &dyn Random) -> Self {
        let mut key = [0; 16];
        random.fill(&mut key);
        Self(SipHasher24::new_with_key(&key))
    }

    /// The digest of `text` under this key (SipHash-2-4, 128 bits): a tenth of the work of SHA-256 where the processor
    /// has no instructions for that.
    pub fn digest(&self, text: &str) -> u128 {
        self.0.hash(text.as_bytes()).into()
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oa_104_a_digest_equals_its_own_text_alone() {
        assert_eq!(Digest::sha256("a"), Digest::sha256("a"));
        assert_ne!(Digest::sha256("a"), Digest::sha256("a "));
    }

    #[test]
    fn the_digest_is_the_published_one() {
        // FIPS 180-2, appendix B.1
        let digest = Digest::sha256("abc");
        assert_eq!(digest.short_hex(8), "ba7816bf8f01cfea");
        assert_eq!(Digest::from_slice(digest.as_bytes()), Some(digest));
        assert_ne!(digest, Digest::sha256("abd"));
    }
}
