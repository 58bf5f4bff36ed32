//! Authenticated encryption: XChaCha20-Poly1305 with the random nonce in front, as bytes or text.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305,
    aead::{Aead as _, Payload},
};
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::{random::Random, secret::Secret};

const NONCE: usize = 24;

/// A 256-bit encryption key; wiped on drop.
#[derive(Clone)]
pub struct SealingKey(Zeroizing<[u8; 32]>);

/// The input was forged, changed, or sealed under another key or in another context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this was not sealed under this key in this context")]
pub struct NotSealedHere;

impl SealingKey {
    /// Wraps a key.
    pub fn new(key: [u8; 32]) -> Self {
        Self(Zeroizing::new(key))
    }

    /// A random key for this process.
    pub fn ephemeral(random: &dyn Random) -> Self {
        Self::new(random.bytes())
    }

    /// A key derived from a secret that the gateway does not keep (RFC 5869), for one purpose.
    pub fn derived(secret: &Secret, purpose: &str) -> Self {
        Self::expanded(secret.expose().as_bytes(), purpose)
    }

    /// A key derived from this one, for one purpose: the same in every process with the same key.
    #[must_use]
    pub fn for_purpose(&self, purpose: &str) -> Self {
        Self::expanded(&*self.0, purpose)
    }

    /// Encrypts `plain`; it opens only with the same `context`.
    pub fn seal(&self, plain: &[u8], context: &[u8], random: &dyn Random) -> Result<Vec<u8>, NotSealedHere> {
        let nonce: [u8; NONCE] = random.bytes();
        let sealed = self.cipher().encrypt(&nonce.into(), Payload { msg: plain, aad: context });
        sealed.map(|sealed| [nonce.as_slice(), &sealed].concat()).map_err(|_| NotSealedHere)
    }

    /// Decrypts the output of [`Self::seal`] under the same key and context.
    pub fn open(&self, sealed: &[u8], context: &[u8]) -> Result<Zeroizing<Vec<u8>>, NotSealedHere> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE>().ok_or(NotSealedHere)?;
        let plain = self.cipher().decrypt(&(*nonce).into(), Payload { msg: sealed, aad: context });
        plain.map(Zeroizing::new).map_err(|_| NotSealedHere)
    }

    /// Encrypts `plain` to base64url text.
    pub fn seal_text(&self, plain: &[u8], context: &[u8], random: &dyn Random) -> Result<String, NotSealedHere> {
        Ok(URL_SAFE_NO_PAD.encode(self.seal(plain, context, random)?))
    }

    /// Decrypts the output of [`Self::seal_text`] under the same key and context.
    pub fn open_text(&self, text: &str, context: &[u8]) -> Result<Zeroizing<Vec<u8>>, NotSealedHere> {
        self.open(&URL_SAFE_NO_PAD.decode(text).map_err(|_| NotSealedHere)?, context)
    }

    #[expect(clippy::expect_used, reason = "the length of a key is no length that HKDF refuses")]
    fn expanded(secret: &[u8], purpose: &str) -> Self {
        let mut key = Zeroizing::new([0; 32]);
        let expanded = Hkdf::<Sha256>::new(None, secret).expand(purpose.as_bytes(), key.as_mut_slice());
        expanded.expect("32 bytes, of the 255 hashes that HKDF expands to");
        Self(key)
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new((&*self.0).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::SeededRandom;

    #[test]
    fn a_sealed_text_opens_only_in_its_context() {
        let random = SeededRandom::new(1);
        let key = SealingKey::ephemeral(&random);
        let sealed = key.seal(b"boat", b"lock", &random).unwrap();
        assert_eq!(key.open(&sealed, b"lock").unwrap().as_slice(), b"boat");
        assert!(key.open(&sealed, b"canal").is_err());
        assert!(SealingKey::derived(&Secret::new("other"), "lock").open(&sealed, b"lock").is_err());
        assert!(key.for_purpose("boats").open(&sealed, b"lock").is_err());
        assert!(key.open(b"short", b"lock").is_err());
        let text = key.seal_text(b"boat", b"lock", &random).unwrap();
        assert_eq!(key.open_text(&text, b"lock").unwrap().as_slice(), b"boat");
        assert!(key.open_text("?", b"lock").is_err());
    }
}
