//! Sealed cursors of merged lists: `gwc1.` and an encrypted position.
//!
//! A cursor is valid for the process that made it, the same list, the same user and the same set of backends. Any other
//! use gets the same error, and the client lists again from the start.

use crate::{
    mcp::ErrorObject,
    support::{Random, SealingKey},
};

const PREFIX: &str = "gwc1.";
/// Maximum length of a cursor.
const MAX_CURSOR: usize = 256;

/// Seals and opens cursors, with a key of this process.
pub(crate) struct Cursors(SealingKey);

impl Cursors {
    /// Creates a key that is lost when the process ends.
    pub(crate) fn new(random: &dyn Random) -> Self {
        Self(SealingKey::ephemeral(random))
    }

    /// A cursor for the entry at `position`, valid only in the same `setting`.
    #[expect(clippy::expect_used, reason = "the cipher refuses only what is longer than 256 GiB")]
    pub(crate) fn seal(&self, position: u64, setting: &[u8], random: &dyn Random) -> String {
        let sealed = self.0.seal_text(&position.to_be_bytes(), setting, random);
        format!("{PREFIX}{}", sealed.expect("eight bytes"))
    }

    /// Opens a cursor; `-32602` if it was not made here for this `setting`.
    pub(crate) fn open(&self, cursor: &str, setting: &[u8]) -> Result<u64, ErrorObject> {
        self.unseal(cursor, setting).ok_or_else(|| ErrorObject::invalid_params("Invalid cursor"))
    }

    fn unseal(&self, cursor: &str, setting: &[u8]) -> Option<u64> {
        let text = cursor.strip_prefix(PREFIX).filter(|text| text.len() <= MAX_CURSOR)?;
        let plain = self.0.open_text(text, setting).ok()?;
        Some(u64::from_be_bytes(plain.as_slice().try_into().ok()?))
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
