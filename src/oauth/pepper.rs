//! The HMAC key for API keys and networks, so that a copy of the database alone does not reveal them. Knows nothing of
//! what is hashed.

use zeroize::Zeroizing;

use crate::support::Digest;

/// A secret of this gateway.
pub(super) struct Pepper(Zeroizing<Vec<u8>>);

impl Pepper {
    pub(super) const fn new(secret: Zeroizing<Vec<u8>>) -> Self {
        Self(secret)
    }

    /// HMAC-SHA-256, stored in place of a key or a network.
    pub(super) fn mac(&self, text: &str) -> Digest {
        use hmac::{KeyInit as _, Mac as _};
        // HMAC accepts a key of any length (RFC 2104 2), so this cannot fail; the fallback matches no stored MAC
        let mac = hmac::Hmac::<sha2::Sha256>::new_from_slice(&self.0).map(|mac| mac.chain_update(text));
        let bytes = mac.map(|mac| mac.finalize().into_bytes().to_vec()).unwrap_or_default();
        Digest::from_slice(&bytes).unwrap_or_else(|| Digest::sha256([self.0.as_slice(), text.as_bytes()].concat()))
    }
}
