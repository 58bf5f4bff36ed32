//! A namespace that hides places: something empty is mounted over them, and programs inside cannot remove it. Needs no
//! root.

use std::{
    fs, io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::fs::DirBuilderExt as _,
    },
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    sys::stat::Mode,
    unistd::{getegid, geteuid},
};

use super::plan::{HiddenPlaces, LaunchFault};

/// The name of the file systems, as lists of mounts show it.
const NAME: &str = "lockkeeper";
/// The empty file, in the mounted file system.
const EMPTY: &str = "empty";
/// Folders to mount a file system at for a moment; one of them exists.
const SOMEWHERE: [&str; 4] = ["/tmp", "/var/tmp", "/run", "/usr"];
/// Bounds of that file system.
const BOUNDS: &str = "mode=0555,size=64k,nr_inodes=64";

/// A hidden or passed place, as it is before anything is mounted.
struct OpenPlace {
    path: PathBuf,
    open: OwnedFd,
}

/// Places to try the namespace with; programs do not need them.
pub(super) fn trial() -> HiddenPlaces {
    HiddenPlaces { folder: None, handed: Vec::new(), files: vec!["/proc/version".into()] }
}

/// Moves this process into a new namespace that hides the places, with all capabilities there.
pub(super) fn hide(places: &HiddenPlaces) -> Result<(), LaunchFault> {
    for folder in &places.handed {
        // otherwise the program could not make it
        let _ = fs::DirBuilder::new().mode(0o700).create(folder);
    }
    enter().map_err(|error| not_allowed(&error))?;
    hide_here(places).map_err(|error| not_allowed(&error))
}

/// Enters a new user and mount namespace as the same user.
fn enter() -> io::Result<()> {
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    // later mounts outside are visible here too, but not the reverse
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>)?;
    Ok(())
}

fn hide_here(places: &HiddenPlaces) -> io::Result<()> {
    let cwd = std::env::current_dir();
    let folder = places.folder.as_deref().map(OpenPlace::find).transpose()?.flatten();
    let folder = folder.filter(|folder| folder.path.is_dir());
    let files: Vec<OpenPlace> = found(&places.files)?;
    let files =
        files.into_iter().filter(|file| folder.as_ref().is_none_or(|folder| !file.path.starts_with(&folder.path)));
    let files: Vec<OpenPlace> = files.collect();
    let handed: Vec<OpenPlace> = found(&places.handed)?;
    if !files.is_empty() {
        empty_files(&files)?;
    }
    if let Some(folder) = &folder {
        empty_folder(folder, &handed)?;
    }
    // a working directory in a hidden place would be a way in
    cwd.and_then(std::env::set_current_dir).or_else(|_| std::env::set_current_dir("/"))
}

/// Mounts an empty file that cannot be written over each of these.
fn empty_files(files: &[OpenPlace]) -> io::Result<()> {
    let at = somewhere()?;
    mount(Some(NAME), &at, Some("tmpfs"), flags(), Some(BOUNDS))?;
    let empty = at.join(EMPTY);
    fs::write(&empty, "")?;
    for file in files {
        mount(Some(&empty), &file.by_descriptor(), None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
    }
    // the whole file system, even where its file is mounted
    close_for_writing(&at)?;
    Ok(umount2(&at, MntFlags::MNT_DETACH)?)
}

/// Mounts an empty folder over this one, with the passed places in it.
fn empty_folder(folder: &OpenPlace, handed: &[OpenPlace]) -> io::Result<()> {
    mount(Some(NAME), &folder.path, Some("tmpfs"), flags(), Some(BOUNDS))?;
    for place in handed.iter().filter(|place| place.path.starts_with(&folder.path)) {
        fs::create_dir_all(&place.path)?;
        let bind = MsFlags::MS_BIND | MsFlags::MS_REC;
        mount(Some(&place.by_descriptor()), &place.path, None::<&str>, bind, None::<&str>)?;
    }
    close_for_writing(&folder.path)
}

fn close_for_writing(at: &Path) -> io::Result<()> {
    Ok(mount(None::<&str>, at, None::<&str>, MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | flags(), None::<&str>)?)
}

fn flags() -> MsFlags {
    MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC
}

fn found(paths: &[PathBuf]) -> io::Result<Vec<OpenPlace>> {
    paths.iter().filter_map(|path| OpenPlace::find(path).transpose()).collect()
}

fn somewhere() -> io::Result<PathBuf> {
    let folder = SOMEWHERE.iter().map(Path::new).find(|folder| folder.is_dir());
    folder.map(Path::to_owned).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The message for people about a namespace that cannot be made.
fn not_allowed(error: &io::Error) -> LaunchFault {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EPERM | Errno::EACCES) => {
            "user namespaces are not allowed here: containers, AppArmor (Ubuntu) and `RestrictNamespaces` of systemd forbid \
             them"
                .to_owned()
        }
        Some(Errno::ENOSPC | Errno::EUSERS) => {
            "there are no user namespaces left (`user.max_user_namespaces`)".to_owned()
        }
        Some(Errno::EINVAL | Errno::ENOSYS) => format!("this kernel has no user namespaces: {error}"),
        _ => format!("the namespace cannot be set up: {error}"),
    }
}

// === impl OpenPlace ===

impl OpenPlace {
    /// The place at `path`; `None` if there is none, or if this user cannot reach it.
    fn find(path: &Path) -> io::Result<Option<Self>> {
        let is_hidden = |error: &io::Error| {
            matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory
            )
        };
        let opened = fs::canonicalize(path).and_then(|path| {
            let open = open(&path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
            Ok(Self { path, open })
        });
        match opened {
            Ok(place) => Ok(Some(place)),
            Err(error) if is_hidden(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A path that finds it even where something is mounted over it or above it.
    fn by_descriptor(&self) -> PathBuf {
        Path::new("/proc/self/fd").join(self.open.as_raw_fd().to_string())
    }
}
