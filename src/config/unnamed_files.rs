//! The configuration files that are found without being named.

use std::path::{Path, PathBuf};

use super::{
    configuration::{ADJACENT, ConfigSource},
    environment::Environment,
    problem::{ConfigPlace, ConfigProblem},
};

/// The search for configuration files that are not named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnnamedFiles {
    /// The first existing file: `lockkeeper.toml` in the working directory, the user's, the machine's.
    #[default]
    Read,
    /// None, as for a gateway that serves one server from its command line.
    Ignored,
}

// === impl UnnamedFiles ===

impl UnnamedFiles {
    /// The first existing file. A folder of this name counts too, and reading it reports that.
    pub(super) fn source(self, environment: &Environment, folder: &Path) -> ConfigSource {
        if self == Self::Ignored {
            return ConfigSource::Demo;
        }
        if is_there(&folder.join(ADJACENT)) {
            return ConfigSource::Adjacent(PathBuf::from(ADJACENT));
        }
        let usual = environment.usual_files().find(|file| is_there(file));
        usual.map_or(ConfigSource::Demo, ConfigSource::Usual)
    }
}

/// True if anything has this name, even a dangling link.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// The refusal of a folder with the name of the file.
pub(super) fn folder_in_place(file: &str) -> ConfigProblem {
    let what = "this is a folder; Docker makes one where a file that is to be mounted is missing";
    ConfigProblem::new(ConfigPlace::WholeFile(file.to_owned()), what)
        .advise("remove the folder, and put the configuration file there")
}
