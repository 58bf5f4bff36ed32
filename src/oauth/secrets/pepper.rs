//! The HMAC key for API keys and networks. With it, a mere copy of the database does not reveal them.

use zeroize::Zeroizing;

use crate::support::Digest;

/// A secret of this gateway.
pub(in crate::oauth) struct Pepper(Zeroizing<Vec<u8>>);

impl Pepper {
    pub(in crate::oauth) const fn new(secret: Zeroizing<Vec<u8>>) -> Self {
        Self(secret)
    }

    /// HMAC-SHA-256, stored in place of a key or a network.
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    pub(in crate::oauth) fn mac(&self, text: &str) -> Digest {
        use hmac::{KeyInit as _, Mac as _};
        let mac = hmac::Hmac::<sha2::Sha256>::new_from_slice(&self.0).expect("a key of any length (RFC 2104 2)");
        Digest::from_bytes(mac.chain_update(text).finalize().into_bytes().into())
    }
}
