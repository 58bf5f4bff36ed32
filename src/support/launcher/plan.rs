//! What a launcher gives up before it becomes a program, as one of its arguments. Holds only paths and names, no
//! secrets, since every program can read arguments.

use std::{fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

/// Everything that a launcher gives up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchPlan {
    /// The user to become.
    pub run_as: Option<String>,
    /// True if it gives up all capabilities, and any way to new ones.
    pub unprivileged: bool,
    /// Places to hide by empty mounts, in a namespace of its own.
    pub hidden: Option<HiddenPlaces>,
    /// The Landlock domain to enter.
    pub domain: Option<LandlockDomain>,
    /// The most open files.
    pub open_files: Option<usize>,
    /// The largest memory dump in bytes; `None` disables dumps.
    pub core: Option<usize>,
    /// The folder of the cgroup to join.
    pub group: Option<PathBuf>,
}

/// A Landlock domain. Each keeps a program out of the memory of processes outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LandlockDomain {
    /// Also from signals to them and from their abstract sockets. It does not concern files, so programs may mount.
    Scopes,
    /// It handles a single right of files and grants it everywhere: kernels before 6.12 need one. Programs in it cannot
    /// mount.
    OneRight,
    /// It grants everything except these places. Programs in it cannot mount.
    Around(HiddenPlaces),
}

/// Places hidden from a program. Missing ones are skipped.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HiddenPlaces {
    pub folder: Option<PathBuf>,
    /// Folders within it that the program still sees.
    pub handed: Vec<PathBuf>,
    /// Files elsewhere: the configuration, and the files it names as secrets.
    pub files: Vec<PathBuf>,
}

/// The reason for not starting a program: it never starts without a requested protection.
#[cfg(target_os = "linux")]
pub(super) type LaunchFault = String;

// === impl HiddenPlaces ===

impl fmt::Debug for HiddenPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { folder, handed, files } = self;
        write!(f, "HiddenPlaces({folder:?} without {} folders, {} files)", handed.len(), files.len())
    }
}

// === impl LaunchPlan ===

impl LaunchPlan {
    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux has a launcher"))]
    pub(super) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}
