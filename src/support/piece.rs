//! Pieces of buffers: keeping a piece of a large buffer does not keep all of it.

use bytes::{Bytes, BytesMut};

/// The most that the buffers of one HTTP/1.1 or WebSocket connection may grow to, in bytes.
pub const CONNECTION_BUFFER: usize = 128 * 1024;
/// A buffer of this size in bytes may be kept by any part of it: most messages pass at once, without a copy.
const SMALL_BUFFER: usize = 8 * 1024;

/// A part of a buffer of `held` bytes: copied if it is less than a quarter of a large one. So a waiting part holds at
/// most four times its own size, or 8 KiB.
pub fn piece(part: Bytes, held: usize) -> Bytes {
    if is_small_part(part.len(), held) { Bytes::copy_from_slice(&part) } else { part }
}

/// True if a part of `len` bytes should be copied out of a buffer of `held` bytes, as [`piece`] does.
pub const fn is_small_part(len: usize, held: usize) -> bool {
    held > SMALL_BUFFER && len < held / 4
}

/// Frees the memory of a buffer that held something large, if little is left in it.
pub fn shrink(buffer: &mut BytesMut) {
    if buffer.len() < CONNECTION_BUFFER {
        *buffer = BytesMut::from(&buffer[..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_part_of_a_large_buffer_keeps_none_of_it() {
        let buffer = Bytes::from(vec![b'x'; 1 << 20]);
        let is_copy = |part: &Bytes| !buffer.as_ptr_range().contains(&part.as_ptr());
        for (len, copied) in [(1, true), ((1 << 18) - 1, true), (1 << 18, false), (1 << 20, false)] {
            let part = piece(buffer.slice(..len), buffer.len());
            assert_eq!((part.len(), is_copy(&part)), (len, copied));
        }
        assert!(!is_copy(&piece(buffer.slice(..1), SMALL_BUFFER)), "nothing is saved");
    }

    #[test]
    fn a_buffer_gives_back_what_it_no_longer_needs() {
        let mut buffer = BytesMut::from(&vec![b'x'; 1 << 20][..]);
        let large = buffer.split_to((1 << 20) - 3).freeze();
        shrink(&mut buffer);
        drop(large);
        buffer.reserve(1);
        assert_eq!(buffer, "xxx");
        assert!(buffer.capacity() < CONNECTION_BUFFER);
    }
}
