//! The environment of this process at start. The only module that reads it. Knows no option.

use std::{collections::BTreeMap, ffi::OsString, fmt};

/// Environment variables of this process, or of a test. `Debug` hides the values.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// The variables of this process.
    pub fn system() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// The value of `name`; `None` if it is not set or not UTF-8.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(std::ffi::OsStr::new(name))?.to_str()
    }

    /// The environment without this variable.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.0.remove(std::ffi::OsStr::new(name));
        self
    }

    /// Every variable with its value, by name, without those that are not UTF-8.
    pub fn to_strings(&self) -> BTreeMap<String, String> {
        let text =
            |(name, value): (&OsString, &OsString)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()));
        self.0.iter().filter_map(text).collect()
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Environment({} variables)", self.0.len())
    }
}
