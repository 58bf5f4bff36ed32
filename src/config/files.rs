//! Files of the data folder. Knows nothing of their content.

use std::{
    io,
    path::{Path, PathBuf},
};

/// The database.
pub fn database(data_dir: &Path) -> PathBuf {
    data_dir.join("lockkeeper.sqlite3")
}

/// The key that encrypts secrets in the database.
pub fn master_key(data_dir: &Path) -> PathBuf {
    data_dir.join("master.key")
}

/// Control file: local address and token of the running gateway.
pub fn control(data_dir: &Path) -> PathBuf {
    data_dir.join("control.json")
}

/// The folder of a person's logins at other servers.
pub fn logins(data_dir: &Path) -> PathBuf {
    data_dir.join("logins")
}

/// Creates a missing folder, for this user only.
pub fn create(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
