//! One message per line, in all splits, against a plain reader. Input: the limit, and bytes.

use bytes::{Bytes, BytesMut};
use lockkeeper::wire::lines::{Lines, line};
use tokio_util::codec::Decoder as _;

use super::input::{Dice, splits};

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut dice = Dice::new(data);
    let most = usize::from(dice.byte());
    let bytes = dice.rest();
    let expected = plain(bytes, most);
    splits(bytes, |pieces| assert_eq!(read(pieces, most), expected, "{bytes:?} in {pieces:?}"));
    let written = line(Bytes::copy_from_slice(bytes));
    assert_eq!(written.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count(), 1, "{written:?}");
    assert_eq!(written.len(), bytes.len() + 1);
}

/// Lines like these.
pub fn seeds() -> Vec<Vec<u8>> {
    [&b"\x20{\"a\":1}\r\n\n  \n{}\n{"[..], b"\x04abcd\nabcde\nx", b"\xff \t\x0c\xffx\r\r\n"].map(<[u8]>::to_vec).into()
}

/// The lines, and whether one was too long.
fn read(pieces: &[&[u8]], most: usize) -> (Vec<Vec<u8>>, bool) {
    let (mut lines, mut buffer, mut found) = (Lines::new(most), BytesMut::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match lines.decode(&mut buffer) {
                Ok(Some(line)) => found.push(line.to_vec()),
                Ok(None) => break,
                Err(_) => return (found, true),
            }
        }
    }
    loop {
        match lines.decode_eof(&mut buffer) {
            Ok(Some(line)) => found.push(line.to_vec()),
            Ok(None) => return (found, false),
            Err(_) => return (found, true),
        }
    }
}

fn plain(bytes: &[u8], most: usize) -> (Vec<Vec<u8>>, bool) {
    let mut found = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        if line.len() > most {
            return (found, true);
        }
        let line = line.trim_ascii();
        if !line.is_empty() {
            found.push(line.to_vec());
        }
    }
    (found, false)
}
