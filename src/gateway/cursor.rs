//! Sealed cursors of merged lists: `gwc1.` and an encrypted position. Knows nothing of lists.
//!
//! A cursor is good for the process that made it, the same list, the same user and the same set of backends. Anything
//! else is the same error: the client lists again from the start.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305, XNonce,
    aead::{Aead as _, Payload},
};

use crate::{mcp::ErrorObject, support::Random};

const PREFIX: &str = "gwc1.";
const NONCE: usize = 24;
/// The longest cursor that is looked at.
const LONGEST: usize = 256;

/// Makes and opens cursors.
pub(crate) struct Cursors(XChaCha20Poly1305);

impl Cursors {
    /// Cursors under a key of this process alone.
    pub(crate) fn new(random: &dyn Random) -> Self {
        Self(XChaCha20Poly1305::new(&random.bytes::<32>().into()))
    }

    /// A cursor for the entry at `position`, good in the same `setting` alone.
    pub(crate) fn seal(&self, position: u64, setting: &[u8], random: &dyn Random) -> String {
        let nonce = random.bytes::<NONCE>();
        let plain = position.to_be_bytes();
        let sealed = self.0.encrypt(&XNonce::from(nonce), Payload { msg: &plain, aad: setting }).unwrap_or_default();
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode([nonce.as_slice(), &sealed].concat()))
    }

    /// The position in a cursor; `-32602` where it was not made here for this `setting`.
    pub(crate) fn open(&self, cursor: &str, setting: &[u8]) -> Result<u64, ErrorObject> {
        self.unseal(cursor, setting).ok_or_else(|| ErrorObject::invalid_params("Invalid cursor"))
    }

    fn unseal(&self, cursor: &str, setting: &[u8]) -> Option<u64> {
        let text = cursor.strip_prefix(PREFIX).filter(|text| text.len() <= LONGEST)?;
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE>()?;
        let plain = self.0.decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: setting }).ok()?;
        Some(u64::from_be_bytes(plain.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::SeededRandom;

    #[test]
    fn a_cursor_opens_where_it_was_made_and_nowhere_else() {
        let random = SeededRandom::new(1);
        let (ours, theirs) = (Cursors::new(&random), Cursors::new(&random));
        let cursor = ours.seal(7, b"tools alice", &random);
        assert_eq!(ours.open(&cursor, b"tools alice"), Ok(7));
        assert!(ours.open(&cursor, b"tools bob").is_err());
        assert!(theirs.open(&cursor, b"tools alice").is_err());
        for bad in ["gwc1.stale", "", "gwc1.", "x", &format!("{cursor}AAAA")] {
            let error = ours.open(bad, b"tools alice").unwrap_err();
            assert_eq!((error.code(), error.message().as_str()), (-32602, "Invalid cursor"));
        }
    }
}
