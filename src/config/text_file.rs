//! Text files of people, in any common encoding.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
};

/// The text of a file.
///
/// # Errors
///
/// It cannot be read, or is not UTF-8.
pub fn text_of(file: &Path) -> io::Result<String> {
    decoded(fs::read(file)?).map_err(|what| io::Error::new(io::ErrorKind::InvalidData, format!("it {what}")))
}

/// Reads a regular file of at most `longest` bytes of UTF-8.
///
/// # Errors
///
/// The fault, as the end of a sentence that begins with the file's name.
pub(super) fn read(file: &Path, longest: u64) -> Result<String, String> {
    let unreadable = |error: io::Error| format!("cannot be read: {error}");
    // opening a pipe would wait for a writer
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let mut text = Vec::new();
    File::open(file).and_then(|open| open.take(longest + 1).read_to_end(&mut text)).map_err(unreadable)?;
    if text.len() as u64 > longest {
        return Err(format!("is longer than {} KiB", longest >> 10));
    }
    decoded(text).map_err(str::to_owned)
}

/// The text, or its fault.
fn decoded(text: Vec<u8>) -> Result<String, &'static str> {
    // text never begins with NUL, and UTF-16 always has one or a byte order mark
    if text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff") || text.iter().take(2).any(|byte| *byte == 0) {
        return Err("is UTF-16, as PowerShell and some editors write it: save it as UTF-8");
    }
    String::from_utf8(text).map_err(|_| "is not UTF-8: save it as UTF-8")
}
