//! Files of the data folder.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

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

/// Socket of the running gateway for commands on this machine, if it has TLS.
pub fn control_socket(data_dir: &Path) -> PathBuf {
    data_dir.join("control.sock")
}

/// Lock file: held by the gateway that uses the folder.
pub fn lock(data_dir: &Path) -> PathBuf {
    data_dir.join("gateway.lock")
}

/// Record of the last started gateway: its process, its configuration file and its database.
pub fn last_start(data_dir: &Path) -> PathBuf {
    data_dir.join("last-start.json")
}

/// The folder of a person's logins at other servers.
pub fn logins(data_dir: &Path) -> PathBuf {
    data_dir.join("logins")
}

/// The folder with records of servers for local clients: one file for each set of servers.
pub fn local_records(data_dir: &Path) -> PathBuf {
    data_dir.join("local")
}

/// Deletes the files of a folder that were last written more than `age` ago.
pub fn remove_unused(folder: &Path, age: Duration) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // a time in the future means that the clock was set back
        let unused = entry
            .metadata()
            .and_then(|file| file.modified())
            .is_ok_and(|at| at.elapsed().is_ok_and(|since| since > age));
        if unused {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Creates a missing folder, for this user only.
pub fn create(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
