//! Explains which file of the data this process may not use, and who owns it.

use std::{fmt, path::Path};
#[cfg(unix)]
use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
};

#[cfg(unix)]
use nix::{
    errno::Errno,
    unistd::{AccessFlags, access, getegid, geteuid},
};

#[cfg(unix)]
use crate::config::{DatabasePlace, MasterKeyPlace, files};
use crate::{cli::terminal::failure::CommandFailure, config::DataPlaces};

/// The reason why this process cannot use the data, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Obstacle {
    why: String,
    advice: String,
}

/// If a permission is missing, adds the file, its owner and the command that helps.
pub(in crate::cli) fn explained(failure: CommandFailure, places: &DataPlaces) -> CommandFailure {
    let Some(Obstacle { why, advice }) = obstacle(places) else { return failure };
    let why = failure.why.as_ref().map_or_else(|| why.clone(), |before| format!("{before}; {why}"));
    failure.why(why).advise(advice)
}

/// The step on the path to a file at which this process lacks a permission.
#[cfg(unix)]
struct Barrier {
    at: PathBuf,
    owner: Metadata,
    reason: Errno,
    /// True if the rest of the path is missing and would be created there.
    creates: bool,
}

/// The first obstacle to using the data, if there is one.
#[cfg(unix)]
fn obstacle(places: &DataPlaces) -> Option<Obstacle> {
    let folder = &places.folder;
    let both = AccessFlags::R_OK | AccessFlags::W_OK;
    let mut files = vec![(folder.clone(), both | AccessFlags::X_OK), (files::lock(folder), both)];
    files.push((files::control(folder), both));
    files.push(match &places.master_key {
        MasterKeyPlace::InFolder(path) => (path.clone(), both),
        MasterKeyPlace::Named(path) => (path.clone(), AccessFlags::R_OK),
    });
    if let DatabasePlace::File(path) = &places.database {
        let beside = |suffix: &str| {
            let mut name = path.clone().into_os_string();
            name.push(suffix);
            PathBuf::from(name)
        };
        files.extend(["", "-wal", "-shm", ".lock"].map(|suffix| (beside(suffix), both)));
    }
    files.iter().find_map(|(path, needed)| Some(told(&barrier(path, *needed)?, path, folder)))
}

#[cfg(unix)]
fn barrier(path: &Path, needed: AccessFlags) -> Option<Barrier> {
    let mut way: Vec<&Path> = path.ancestors().filter(|step| !step.as_os_str().is_empty()).collect();
    way.reverse();
    let mut before: Option<(&Path, Metadata)> = None;
    for step in way {
        match fs::metadata(step) {
            Ok(owner) => {
                let needed = if step == path { needed } else { AccessFlags::X_OK };
                if let Err(reason) = access(step, needed) {
                    return Some(Barrier { at: step.to_owned(), owner, reason, creates: false });
                }
                before = Some((step, owner));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (folder, owner) = before?;
                let reason = access(folder, AccessFlags::W_OK | AccessFlags::X_OK).err()?;
                return Some(Barrier { at: folder.to_owned(), owner, reason, creates: true });
            }
            Err(_) => return None,
        }
    }
    None
}

#[cfg(unix)]
fn told(Barrier { at, owner, reason, creates }: &Barrier, path: &Path, folder: &Path) -> Obstacle {
    let (user, group) = (geteuid(), getegid());
    let shown = quoted(at);
    if *reason == Errno::EROFS {
        let advice = "mount it for writing (systemd: `ReadWritePaths=`), or choose another folder: `--data-dir DIR`";
        return Obstacle {
            why: format!("{shown} is on a file system that is mounted read-only"),
            advice: advice.into(),
        };
    }
    let why = format!(
        "this process runs as user {user} and group {group}; {shown} belongs to user {} and group {}, with mode {:04o}",
        owner.uid(),
        owner.gid(),
        owner.mode() & 0o7777
    );
    let advice = if at.starts_with(folder) && owner.uid() == user.as_raw() {
        format!("`chmod -R u+rwX {}`", quoted(folder))
    } else if at.starts_with(folder) {
        format!("give it to the user of the gateway: `chown -R {user}:{group} {}`", quoted(folder))
    } else if *creates && folder.starts_with(at) {
        let made = quoted(folder);
        format!("make the folder for this user: `install -d -o {user} -g {group} -m 0700 {made}`")
    } else if at == path {
        format!("let this user read it: `chown {user}:{group} {shown}`")
    } else {
        format!("choose a folder that this user can reach: `--data-dir DIR`; or `chmod a+x {shown}`")
    };
    Obstacle { why, advice }
}

/// The owner of the folder, if this process is root and the owner is not.
#[cfg(unix)]
fn foreign_owner(folder: &Path) -> Option<u32> {
    let owner = fs::metadata(folder).ok()?.uid();
    (geteuid().is_root() && owner != 0).then_some(owner)
}

#[cfg(not(unix))]
fn obstacle(_places: &DataPlaces) -> Option<Obstacle> {
    None
}

/// A warning if this process is root and the folder is another user's: that user's gateway cannot open root's files.
pub(in crate::cli) fn root_warning(folder: &Path) -> Option<String> {
    foreign_owner(folder).map(|owner| {
        let shown = quoted(folder);
        format!(
            "this process is root, and {shown} belongs to user {owner}: the gateway of that user cannot open files that root \
             creates there. Run it as that user (`sudo -u '#{owner}' lockkeeper …`, `docker exec --user {owner} …`); \
             `chown -R --reference={shown} {shown}` gives it what root has created"
        )
    })
}

#[cfg(not(unix))]
fn foreign_owner(_folder: &Path) -> Option<u32> {
    None
}

/// A path for messages and shells: in quotes if it has unusual characters.
fn quoted(path: &Path) -> impl fmt::Display {
    let text = path.display().to_string();
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+:@".contains(c));
    if is_plain { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
