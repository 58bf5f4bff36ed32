//! Folders and files that only this user can have written.

use std::{
    fs, io,
    io::Read as _,
    path::{Path, PathBuf},
};
#[cfg(unix)]
use std::{
    fs::Metadata,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
};

#[cfg(unix)]
use nix::{fcntl::OFlag, unistd::geteuid};

use crate::config::Environment;

/// Maximum size that is read of a file, in bytes.
const LONGEST: u64 = 64 << 10;

/// Name of the folder for records, in the user's runtime folder.
const FOLDER: &str = "lockkeeper";

/// Write permission for the group or for everyone.
#[cfg(unix)]
const OTHERS_WRITE: u32 = 0o022;

/// Permission bit of folders in which users may remove only their own files.
#[cfg(unix)]
const STICKY: u32 = 0o1000;

/// The users who can write to a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FolderTrust {
    /// Only this user (and root).
    Own,
    /// The folder belongs to the user with this id.
    Foreign(u32),
    /// It is a link, or other users can write to it or replace it.
    Unsafe,
    /// There is no folder.
    Missing,
}

/// The folder for the record of this process: the runtime folder of a service that systemd starts with
/// `RuntimeDirectory=lockkeeper`, else that of the user's login. `None` if there is neither: a folder that everyone can
/// write to, such as `/tmp`, is not safe.
pub(super) fn runtime_folder(environment: &Environment) -> Option<PathBuf> {
    of_service(environment).or_else(|| of_login(environment))
}

/// The folders that may contain records.
pub(super) fn record_folders(environment: &Environment) -> Vec<PathBuf> {
    // some environments lack the variable (`sudo -u`)
    #[cfg(target_os = "linux")]
    let usual = Some(Path::new("/run/user").join(geteuid().to_string()).join(FOLDER));
    #[cfg(not(target_os = "linux"))]
    let usual = None;
    let login = of_login(environment).or(usual);
    let service = cfg!(target_os = "linux").then(|| Path::new("/run").join(FOLDER));
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in [of_service(environment), login, service].into_iter().flatten() {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

fn of_service(environment: &Environment) -> Option<PathBuf> {
    // programs started by another service inherit its folder, so check the name
    let mut folders = environment.get("RUNTIME_DIRECTORY")?.split(':').map(PathBuf::from);
    folders.find(|folder| folder.is_absolute() && folder.ends_with(FOLDER))
}

fn of_login(environment: &Environment) -> Option<PathBuf> {
    let folder = PathBuf::from(environment.get("XDG_RUNTIME_DIR")?);
    folder.is_absolute().then(|| folder.join(FOLDER))
}

/// Finds out who can write to a folder.
#[cfg(unix)]
pub(super) fn trust(folder: &Path) -> FolderTrust {
    let Ok(found) = fs::symlink_metadata(folder) else { return FolderTrust::Missing };
    if found.uid() != geteuid().as_raw() {
        return FolderTrust::Foreign(found.uid());
    }
    let is_safe = found.is_dir() && found.mode() & OTHERS_WRITE == 0 && is_reached_safely(folder);
    if is_safe { FolderTrust::Own } else { FolderTrust::Unsafe }
}

/// True if only this user and root can replace this folder with another.
#[cfg(unix)]
fn is_reached_safely(folder: &Path) -> bool {
    let Some(Ok(above)) = folder.parent().map(fs::canonicalize) else { return false };
    let is_safe = |found: &Metadata| {
        let is_trusted = [0, geteuid().as_raw()].contains(&found.uid());
        is_trusted && (found.mode() & OTHERS_WRITE == 0 || found.mode() & STICKY != 0)
    };
    above.ancestors().all(|step| fs::metadata(step).is_ok_and(|found| is_safe(&found)))
}

/// Without Unix owners, no folder is trusted.
#[cfg(not(unix))]
pub(super) fn trust(_folder: &Path) -> FolderTrust {
    FolderTrust::Missing
}

/// Creates a folder for this user, or checks that an existing one is safe.
pub(super) fn create(folder: &Path) -> io::Result<()> {
    if trust(folder) == FolderTrust::Missing {
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        builder.mode(0o700);
        builder.create(folder)?;
    }
    match trust(folder) {
        FolderTrust::Own => Ok(()),
        FolderTrust::Foreign(user) => Err(io::Error::other(format!("it belongs to user {user}"))),
        FolderTrust::Unsafe | FolderTrust::Missing => Err(io::Error::other("others can write to it")),
    }
}

/// Text of a file that belongs to this user, is not a link, and that no other user can write. Only for files in a
/// folder that is [`FolderTrust::Own`].
pub(super) fn read(path: &Path) -> Option<String> {
    let file = open(path).ok()?;
    #[cfg(unix)]
    {
        let found = file.metadata().ok()?;
        if found.uid() != geteuid().as_raw() || found.mode() & OTHERS_WRITE != 0 {
            return None;
        }
    }
    text(&file)
}

/// Text of a file, no matter who wrote it.
pub(super) fn read_of_anybody(path: &Path) -> Option<String> {
    text(&open(path).ok()?)
}

/// Opens a regular file that is not a link. Does not block on a pipe in its place.
pub(super) fn open(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    options.custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits());
    let file = options.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

fn text(file: &fs::File) -> Option<String> {
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn only_a_folder_that_nobody_else_writes_or_replaces_is_trusted() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("lockkeeper");
        assert_eq!(trust(&folder), FolderTrust::Missing);
        create(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        assert_eq!(trust(&folder), FolderTrust::Own);
        for writable in [0o720, 0o702] {
            mode(&folder, writable);
            assert_eq!(trust(&folder), FolderTrust::Unsafe, "{writable:o}");
            assert!(create(&folder).is_err());
        }
        mode(&folder, 0o755);
        // a user who can write to the parent folder could replace this one
        mode(base.path(), 0o777);
        assert_eq!(trust(&folder), FolderTrust::Unsafe);
        mode(base.path(), 0o1777);
        assert_eq!(trust(&folder), FolderTrust::Own);
        symlink(&folder, base.path().join("link")).unwrap();
        assert_eq!(trust(&base.path().join("link")), FolderTrust::Unsafe);
    }

    #[test]
    fn a_link_a_pipe_and_a_file_that_others_write_are_not_read() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        fs::write(at("own"), "text").unwrap();
        mode(&at("own"), 0o600);
        assert_eq!(read(&at("own")).as_deref(), Some("text"));
        symlink(at("own"), at("link")).unwrap();
        assert_eq!(read(&at("link")), None);
        mode(&at("own"), 0o620);
        assert_eq!(read(&at("own")), None);
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(read(&at("pipe")), None);
        assert_eq!(read(base.path()), None);
    }

    #[test]
    fn records_are_never_in_a_folder_that_the_environment_does_not_name() {
        let of = |variables: &[(&str, &str)]| runtime_folder(&variables.iter().copied().collect());
        assert_eq!(of(&[("TMPDIR", "/tmp"), ("HOME", "/home/ada")]), None);
        assert_eq!(of(&[("XDG_RUNTIME_DIR", "")]), None);
        assert_eq!(of(&[("XDG_RUNTIME_DIR", "run")]), None);
        assert_eq!(of(&[("XDG_RUNTIME_DIR", "/run/user/1")]), Some("/run/user/1/lockkeeper".into()));
        let service = [("RUNTIME_DIRECTORY", "/run/other:/run/lockkeeper"), ("XDG_RUNTIME_DIR", "/run/user/1")];
        assert_eq!(of(&service), Some("/run/lockkeeper".into()));
        assert_eq!(of(&[("RUNTIME_DIRECTORY", "/run/other")]), None);
    }
}
