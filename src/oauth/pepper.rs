//! The key that API keys and networks are hashed with, so that a copy of the database alone cannot be searched for them.
//! Knows nothing of what is hashed.

use zeroize::Zeroizing;

use crate::support::Digest;

/// A secret of this gateway.
pub(super) struct Pepper(Zeroizing<Vec<u8>>);

impl Pepper {
    pub(super) const fn new(secret: Zeroizing<Vec<u8>>) -> Self {
        Self(secret)
    }

    /// HMAC-SHA-256: what the store holds of a key, and of a network.
    pub(super) fn mac(&self, text: &str) -> Digest {
        use hmac::{KeyInit as _, Mac as _};
        // a key of any length is accepted (RFC 2104 2), so that this cannot fail; a MAC that nothing has would stand in
        let mac = hmac::Hmac::<sha2::Sha256>::new_from_slice(&self.0).map(|mac| mac.chain_update(text));
        let bytes = mac.map(|mac| mac.finalize().into_bytes().to_vec()).unwrap_or_default();
        Digest::from_slice(&bytes).unwrap_or_else(|| Digest::sha256([self.0.as_slice(), text.as_bytes()].concat()))
    }
}
