//! One message per line: the framing of stdio (all versions, transports).

use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use memchr::{memchr, memchr2};
use tokio_util::codec::Decoder;

use crate::support::{
    Account,
    memory::{Claim, Exhausted},
    piece::{CONNECTION_BUFFER, piece, shrink},
};

/// Maximum length of a line in bytes.
pub const MAX_LINE: usize = 16 * 1024 * 1024;

/// Line decoder: without line ends and empty lines, with a maximum length.
#[derive(Debug)]
pub struct Lines {
    most: usize,
    scanned: usize,
    /// Pays for the incomplete line; `None` if it is not charged.
    claim: Option<Claim>,
}

/// An error that ends the lines.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// A line is longer than the limit, in bytes.
    #[error("a line is longer than {0} bytes")]
    TooLong(usize),
    /// There is no memory for a line.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The line with `message`, including its end. Line breaks between JSON values become spaces; strings contain none.
pub fn line(message: Bytes) -> Bytes {
    let mut line = Vec::from(message);
    let mut at = 0;
    while let Some(found) = memchr2(b'\n', b'\r', &line[at..]) {
        at += found;
        line[at] = b' ';
    }
    line.push(b'\n');
    line.into()
}

// === impl Lines ===

impl Lines {
    /// Creates a decoder of lines with up to `most` bytes.
    pub const fn new(most: usize) -> Self {
        Self { most, scanned: 0, claim: None }
    }

    /// A decoder that charges incomplete lines to this account.
    pub const fn charged_to(account: Account) -> Self {
        Self { most: MAX_LINE, scanned: 0, claim: Some(Claim::nothing(account)) }
    }
}

impl Default for Lines {
    fn default() -> Self {
        Self::new(MAX_LINE)
    }
}

impl Decoder for Lines {
    type Item = Bytes;
    type Error = LineError;

    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, LineError> {
        while let Some(at) = memchr(b'\n', &buffer[self.scanned..]) {
            let end = self.scanned + at;
            self.scanned = 0;
            if let Some(claim) = self.claim.as_mut().filter(|claim| claim.bytes() > 0) {
                claim.clear();
            }
            if end > self.most {
                return Err(LineError::TooLong(self.most));
            }
            let held = buffer.capacity();
            let line = trimmed(&buffer.split_to(end).freeze());
            buffer.advance(1);
            if end > CONNECTION_BUFFER {
                shrink(buffer);
            }
            if !line.is_empty() {
                return Ok(Some(piece(line, held)));
            }
        }
        let arrived = buffer.len() - self.scanned;
        self.scanned = buffer.len();
        if let Some(claim) = &mut self.claim {
            claim.grow(arrived)?;
        }
        if buffer.len() > self.most { Err(LineError::TooLong(self.most)) } else { Ok(None) }
    }

    fn decode_eof(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, LineError> {
        if let Some(line) = self.decode(buffer)? {
            return Ok(Some(line));
        }
        self.scanned = 0;
        let line = trimmed(&buffer.split().freeze());
        Ok((!line.is_empty()).then_some(line))
    }
}

fn trimmed(line: &Bytes) -> Bytes {
    line.slice_ref(line.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(most: usize, text: &str) -> Vec<Result<String, String>> {
        let (mut lines, mut buffer, mut read) = (Lines::new(most), BytesMut::new(), Vec::new());
        let text_of = |line: Bytes| String::from_utf8(line.to_vec()).unwrap();
        for byte in text.bytes() {
            buffer.extend_from_slice(&[byte]);
            match lines.decode(&mut buffer) {
                Ok(line) => read.extend(line.map(text_of).map(Ok)),
                Err(error) => return [read, vec![Err(error.to_string())]].concat(),
            }
        }
        read.extend(lines.decode_eof(&mut buffer).unwrap().map(text_of).map(Ok));
        read
    }

    #[test]
    fn lines_are_complete_however_the_bytes_are_split() {
        let expected: Vec<Result<String, String>> = ["a", "b c", "d"].map(|line| Ok(line.to_owned())).into();
        assert_eq!(read(10, "a\r\n\n  \nb c\nd"), expected);
    }

    #[test]
    fn a_line_keeps_no_buffer_that_is_much_larger() {
        let mut buffer = BytesMut::with_capacity(8 * 1024);
        let mut lines = Lines::default();
        let large = [&vec![b'x'; 1 << 20][..], b"\n", b"small\nnext"].concat();
        buffer.extend_from_slice(&large);
        let (large, start) = (lines.decode(&mut buffer).unwrap().unwrap(), buffer.as_ptr_range());
        assert_eq!(large.len(), 1 << 20);
        assert!(buffer.capacity() < CONNECTION_BUFFER, "what held the large one is free with it");
        let small = lines.decode(&mut buffer).unwrap().unwrap();
        assert_eq!(small, "small");
        assert!(start.end > start.start && !large.as_ptr_range().contains(&small.as_ptr()));
        assert_eq!(buffer, "next");
    }

    #[test]
    fn the_length_of_a_line_is_limited() {
        assert_eq!(read(3, "abc\nabcd").last().unwrap().as_ref().unwrap_err(), "a line is longer than 3 bytes");
    }

    #[test]
    fn a_message_is_one_line_whatever_its_white_space() {
        assert_eq!(line(Bytes::from_static(b"{\r\n\"a\": \"\\n\"}")), &b"{  \"a\": \"\\n\"}\n"[..]);
    }
}
