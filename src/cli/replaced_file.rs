//! A file that is replaced as a whole: whoever reads it sees the old text or the new one. Knows nothing of the text.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

/// Writes the text in the place of what is there, with the same permissions; of a link, into its target. A new file is for this
/// user alone, and missing folders are made.
///
/// # Errors
///
/// The failure; then nothing has changed.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let next = path.with_file_name(name);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let write = || {
        let mut file = options.open(&next)?;
        file.write_all(text.as_bytes())?;
        if let Ok(old) = fs::metadata(path) {
            file.set_permissions(old.permissions())?;
        }
        file.sync_all()?;
        fs::rename(&next, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&next)))
}
