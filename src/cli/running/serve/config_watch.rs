//! Watches the configuration file of a running gateway, and says when to read it again.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tokio::time::{Interval, MissedTickBehavior, interval};

/// Interval at which the file is checked. A change counts as complete once two checks in a row find the same state.
const LOOK: Duration = Duration::from_secs(1);

/// Says when to read a configuration file again: when it has changed, and at SIGHUP.
///
/// The file is polled, which also works if it is replaced, if it is a link that changes (as in Kubernetes), and on a
/// network or in a container.
pub(super) struct ConfigWatch {
    /// `None`: there is only SIGHUP.
    file: Option<PathBuf>,
    /// The file as it was read last.
    read: Option<FileState>,
    /// The file at the last check.
    last: Option<FileState>,
    looks: Interval,
    hangups: Hangups,
}

/// The state of a file, by which a change is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileState {
    modified: Option<SystemTime>,
    length: u64,
    /// The number in the file system, which changes if the file is replaced.
    inode: u64,
}

/// The signals that ask for a reload.
pub(super) enum Hangups {
    #[cfg(unix)]
    Signals(tokio::signal::unix::Signal),
    /// No signals: SIGHUP ends the process, for example when its terminal closes.
    None,
}

// === impl ConfigWatch ===

impl ConfigWatch {
    /// Watches a file that has just been read, or was found missing.
    pub(super) fn new(file: Option<PathBuf>, hangups: Hangups) -> Self {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let now = FileState::of(file.as_deref());
        Self { file, read: now, last: now, looks, hangups }
    }

    /// Waits until the file has changed and stays the same for a second, or the process gets SIGHUP.
    pub(super) async fn changed(&mut self) {
        loop {
            tokio::select! {
                () = self.hangups.next() => {
                    self.read = FileState::of(self.file.as_deref());
                    return;
                }
                _ = self.looks.tick() => {
                    let now = FileState::of(self.file.as_deref());
                    let is_settled = std::mem::replace(&mut self.last, now) == now;
                    if is_settled && now != self.read {
                        self.read = now;
                        return;
                    }
                }
            }
        }
    }
}

// === impl FileState ===

impl FileState {
    fn of(file: Option<&Path>) -> Option<Self> {
        let metadata = fs::metadata(file?).ok()?;
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Some(Self { modified: metadata.modified().ok(), length: metadata.len(), inode })
    }
}

// === impl Hangups ===

impl Hangups {
    /// The SIGHUPs of this process from now on.
    pub(super) fn of_process() -> Self {
        #[cfg(unix)]
        if let Ok(signals) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()) {
            return Self::Signals(signals);
        }
        Self::None
    }

    async fn next(&mut self) {
        match self {
            #[cfg(unix)]
            Self::Signals(signals) => drop(signals.recv().await),
            Self::None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    async fn is_changed(watch: &mut ConfigWatch) -> bool {
        tokio::time::advance(LOOK).await;
        watch.changed().now_or_never().is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_reported_once_the_file_stays_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lockkeeper.toml");
        fs::write(&file, "a").unwrap();
        let mut watch = ConfigWatch::new(Some(file.clone()), Hangups::None);
        assert!(!is_changed(&mut watch).await && !is_changed(&mut watch).await);
        fs::write(&file, "ab").unwrap();
        assert!(!is_changed(&mut watch).await);
        fs::write(&file, "abc").unwrap();
        assert!(!is_changed(&mut watch).await, "it is still being written");
        assert!(is_changed(&mut watch).await);
        assert!(!is_changed(&mut watch).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_replaced_or_removed_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("lockkeeper.toml"), folder.path().join("other"));
        fs::write(&file, "a").unwrap();
        let mut watch = ConfigWatch::new(Some(file.clone()), Hangups::None);
        fs::write(&other, "b").unwrap();
        fs::rename(&other, &file).unwrap();
        assert!(!is_changed(&mut watch).await);
        assert!(is_changed(&mut watch).await);
        fs::remove_file(&file).unwrap();
        assert!(!is_changed(&mut watch).await);
        assert!(is_changed(&mut watch).await);
    }
}
