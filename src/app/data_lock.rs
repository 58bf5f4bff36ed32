//! Lock of the data folder, so that one gateway at a time uses it. The process holds it, so the kernel frees it even if
//! the process is killed. Commands that read or administer do not take it.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    process, thread,
    time::Duration,
};

use super::own_files;
use crate::config::files;

/// Interval between attempts while commands test the lock, and the number of attempts. A test takes microseconds.
const LOOK_TIME: Duration = Duration::from_millis(1);
const ATTEMPTS: usize = 1000;

/// The lock of a data folder. Dropping it frees the folder.
#[derive(Debug)]
pub struct DataLock {
    file: File,
}

/// Why a data folder cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum DataLockError {
    /// Another gateway holds the lock.
    #[error("another gateway uses the data folder {}{}", .folder.display(), holder(.process.as_deref()))]
    InUse {
        folder: PathBuf,
        /// Process id of that gateway, if known.
        process: Option<String>,
    },
    /// The lock file cannot be used.
    #[error("the lock file {} cannot be used", .0.display())]
    Unusable(PathBuf, #[source] io::Error),
}

/// Maximum length of a process id in a lock file, in bytes.
const MAX_NUMBER: u64 = 20;

// === impl DataLock ===

impl DataLock {
    /// Locks a data folder.
    ///
    /// # Errors
    ///
    /// If another gateway holds the lock, or the lock file cannot be used.
    pub fn take(folder: &Path) -> Result<Self, DataLockError> {
        let path = files::lock(folder);
        let unusable = |error| DataLockError::Unusable(path.clone(), error);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(unusable)?;
        if !lock(&file).map_err(unusable)? {
            let process = number(&mut file);
            return Err(DataLockError::InUse { folder: folder.to_owned(), process });
        }
        // only for the error message of another gateway
        file.set_len(0).and_then(|()| write!(file, "{}", process::id())).map_err(unusable)?;
        Ok(Self { file })
    }
}

impl DataLock {
    /// Process id of the gateway that holds the lock of a folder; `None` if no gateway does, or the lock file belongs
    /// to another user.
    pub(super) fn holder(folder: &Path) -> Option<u32> {
        let mut file = own_files::open(&files::lock(folder)).ok()?;
        #[cfg(unix)]
        if std::os::unix::fs::MetadataExt::uid(&file.metadata().ok()?) != nix::unistd::geteuid().as_raw() {
            return None;
        }
        match file.try_lock_shared() {
            Ok(()) => {
                let _ = file.unlock();
                None
            }
            Err(TryLockError::WouldBlock) => number(&mut file)?.parse().ok(),
            Err(TryLockError::Error(_)) => None,
        }
    }

    /// Checks that no gateway of this user has the folder, without locking it.
    pub(super) fn check_unused(folder: &Path) -> Result<(), DataLockError> {
        match Self::holder(folder) {
            Some(process) => {
                Err(DataLockError::InUse { folder: folder.to_owned(), process: Some(process.to_string()) })
            }
            None => Ok(()),
        }
    }

    /// True if a gateway holds the lock of a folder.
    pub(super) fn is_held(folder: &Path) -> bool {
        let Ok(file) = own_files::open(&files::lock(folder)) else { return false };
        match file.try_lock_shared() {
            Ok(()) => file.unlock().is_err(),
            Err(error) => matches!(error, TryLockError::WouldBlock),
        }
    }

    /// Calls `act` if no gateway holds the lock. A gateway that starts in the meantime waits.
    pub(super) fn while_free(folder: &Path, act: impl FnOnce()) {
        match own_files::open(&files::lock(folder)) {
            Ok(file) if file.try_lock_shared().is_ok() => {
                act();
                let _ = file.unlock();
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => act(),
            Ok(_) | Err(_) => {}
        }
    }
}

impl Drop for DataLock {
    fn drop(&mut self) {
        // unlock, because a process being started may still have a copy of the open file
        let _ = self.file.unlock();
    }
}

/// Locks a file; `false` if a gateway holds the lock. Waits for commands that test the lock, which share it for a
/// moment.
fn lock(file: &File) -> io::Result<bool> {
    for _ in 0..ATTEMPTS {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        match file.try_lock_shared() {
            // no gateway holds it
            Ok(()) => file.unlock()?,
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        thread::sleep(LOOK_TIME);
    }
    Ok(false)
}

/// Process id in a lock file.
fn number(file: &mut File) -> Option<String> {
    let mut text = String::new();
    file.take(MAX_NUMBER).read_to_string(&mut text).ok()?;
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

fn holder(process: Option<&str>) -> String {
    process.map(|process| format!(" (process {process})")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_locked_once_and_freed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let lock = DataLock::take(folder.path()).unwrap();
        let error = DataLock::take(folder.path()).unwrap_err().to_string();
        let expected =
            format!("another gateway uses the data folder {} (process {})", folder.path().display(), process::id());
        assert_eq!(error, expected);
        drop(lock);
        DataLock::take(folder.path()).unwrap();
    }

    #[test]
    fn a_folder_is_freed_though_a_process_that_is_being_started_has_a_copy_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let lock = DataLock::take(folder.path()).unwrap();
        let _copy = lock.file.try_clone().unwrap();
        drop(lock);
        DataLock::take(folder.path()).unwrap();
    }

    #[test]
    fn a_look_at_the_lock_neither_takes_it_nor_refuses_it() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(DataLock::holder(folder.path()), None);
        let lock = DataLock::take(folder.path()).unwrap();
        assert_eq!(DataLock::holder(folder.path()), Some(process::id()));
        DataLock::while_free(folder.path(), || panic!("a gateway has it"));
        drop(lock);
        assert_eq!(DataLock::holder(folder.path()), None);
        let (begun, wait) = std::sync::mpsc::channel();
        let path = folder.path().to_owned();
        let looking = thread::spawn(move || DataLock::while_free(&path, || begun.send(()).unwrap()));
        wait.recv().unwrap();
        DataLock::take(folder.path()).unwrap();
        looking.join().unwrap();
    }

    #[test]
    fn a_lock_file_with_other_content_names_no_process() {
        let folder = tempfile::tempdir().unwrap();
        let _lock = DataLock::take(folder.path()).unwrap();
        std::fs::write(files::lock(folder.path()), "1; rm").unwrap();
        let error = DataLock::take(folder.path()).unwrap_err().to_string();
        assert_eq!(error, format!("another gateway uses the data folder {}", folder.path().display()));
    }
}
