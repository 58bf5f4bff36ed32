//! The database file and its lock.

use std::{
    fs::{File, OpenOptions},
    io,
    path::Path,
};

/// Lock for the migrations, so that two processes starting together run them one after the other: SQLite has no lock
/// across transactions. Released on drop and at the end of the process.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock of the database at `path`: a file with `.lock` appended. Blocks the thread.
    pub(super) fn wait(path: &Path) -> io::Result<Self> {
        let file = private(&path.with_added_extension("lock"))?;
        file.lock()?;
        Ok(Self { _file: file })
    }
}

/// Opens the file, and creates a missing one with mode 0600; SQLite gives its WAL files the same mode.
pub(super) fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
        let file = options.mode(0o600).open(path)?;
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        Ok(file)
    }
    #[cfg(not(unix))]
    options.open(path)
}
