//! What is kept in the data folder, by name. Knows nothing of what is in the files.

use std::{
    io,
    path::{Path, PathBuf},
};

/// The database.
pub fn database(data_dir: &Path) -> PathBuf {
    data_dir.join("lockkeeper.sqlite3")
}

/// The key under which secrets in the database are encrypted.
pub fn master_key(data_dir: &Path) -> PathBuf {
    data_dir.join("master.key")
}

/// Where the running gateway says how it is reached on this machine.
pub fn control(data_dir: &Path) -> PathBuf {
    data_dir.join("control.json")
}

/// Creates the data folder where it does not exist, for this user alone.
pub fn create(data_dir: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(data_dir)
}
