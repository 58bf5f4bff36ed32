//! Small text files that a configuration names. Knows nothing of their content.

use std::{fs::File, io::Read as _, path::Path};

/// Reads a regular file of at most `longest` bytes of UTF-8.
///
/// # Errors
///
/// What is wrong with it, as the end of a sentence that begins with its name.
pub(super) fn read(file: &Path, longest: u64) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    // opening a pipe would wait for a writer
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let mut text = Vec::new();
    File::open(file).and_then(|open| open.take(longest + 1).read_to_end(&mut text)).map_err(unreadable)?;
    if text.len() as u64 > longest {
        return Err(format!("is longer than {} KiB", longest >> 10));
    }
    String::from_utf8(text).map_err(|_| "is not UTF-8".to_owned())
}
