//! Errors in a configuration, with their places. Messages quote no value that may be a secret.

use std::fmt;

/// Place of an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigPlace {
    File {
        /// File name as given.
        file: String,
        line: usize,
        column: usize,
        /// Option, such as `servers.files.command`; empty for a syntax error.
        path: String,
    },
    /// In a file as a whole.
    WholeFile(String),
    /// On the command line, by this option.
    Argument(&'static str),
    /// In this environment variable.
    Variable(&'static str),
    /// An option that is missing, or overruled by another.
    Option(&'static str),
}

/// One error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// Place.
    pub place: ConfigPlace,
    /// Error and reason.
    pub what: String,
    /// Advice.
    pub advice: Option<String>,
}

/// All errors in a configuration; at least one. Displays each on its own lines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigProblems(pub Vec<ConfigProblem>);

// === impl ConfigProblem ===

impl ConfigProblem {
    /// Creates an error at `place`.
    pub fn new(place: ConfigPlace, what: impl Into<String>) -> Self {
        Self { place, what: what.into(), advice: None }
    }

    /// Adds advice.
    #[must_use]
    pub fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)?;
        match &self.advice {
            Some(advice) => write!(f, "\n    {advice}"),
            None => Ok(()),
        }
    }
}

// === impl ConfigProblems ===

impl fmt::Display for ConfigProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            write!(f, "{}{problem}", if index == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

// === impl ConfigPlace ===

impl fmt::Display for ConfigPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, line, column, path } if path.is_empty() => write!(f, "{file}:{line}:{column}"),
            Self::File { file, line, column, path } => write!(f, "{file}:{line}:{column}: {path}"),
            Self::WholeFile(file) => f.write_str(file),
            Self::Argument(name) | Self::Variable(name) | Self::Option(name) => f.write_str(name),
        }
    }
}
