//! The environment of this process at start. Only this module reads it.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

/// Environment variables of this process, or of a test. `Debug` hides the values.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
    launcher: Option<PathBuf>,
    /// The configuration file of the whole machine.
    machine_file: Option<PathBuf>,
}

impl Environment {
    /// The variables of this process, on this machine.
    pub fn system() -> Self {
        let machine_file = cfg!(unix).then(|| PathBuf::from("/etc/lockkeeper/lockkeeper.toml"));
        Self { machine_file, ..std::env::vars_os().collect() }
    }

    /// The usual configuration files: of the user, and of the machine. They may not exist.
    pub fn usual_files(&self) -> impl Iterator<Item = PathBuf> {
        let absolute = |name: &str| self.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let folder = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
        let own = folder.map(|folder| folder.join("lockkeeper/lockkeeper.toml"));
        own.into_iter().chain(self.machine_file.clone())
    }

    /// The value of `name`, if not empty.
    pub fn said(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// The same with the launcher of programs ([`crate::support::launcher`]).
    #[must_use]
    pub fn with_launcher(self, launcher: Option<PathBuf>) -> Self {
        Self { launcher, ..self }
    }

    /// The launcher of programs, if any.
    pub fn launcher(&self) -> Option<&Path> {
        self.launcher.as_deref()
    }

    /// The value of `name`; `None` if it is not set or not UTF-8.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(std::ffi::OsStr::new(name))?.to_str()
    }

    /// The environment with this variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// The environment without this variable.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.variables.remove(std::ffi::OsStr::new(name));
        self
    }

    /// Every variable with its value, by name, except values that are not UTF-8.
    pub fn to_strings(&self) -> BTreeMap<String, String> {
        let text =
            |(name, value): (&OsString, &OsString)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()));
        self.variables.iter().filter_map(text).collect()
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { variables, launcher: None, machine_file: None }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Environment({} variables)", self.variables.len())
    }
}
