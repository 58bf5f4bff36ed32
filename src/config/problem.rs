//! What is wrong with a configuration, and where. Knows no option. No value is ever quoted here that may be a secret.

use std::fmt;

/// Where something is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In a file.
    File {
        /// The file as it was named.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// The option, such as `backends.files.command`; empty where the file cannot be read that far.
        path: String,
    },
    /// In a file as a whole.
    WholeFile(String),
    /// On the command line, by this option.
    Argument(&'static str),
    /// In this environment variable.
    Variable(&'static str),
    /// Nowhere: this option is missing.
    Missing(&'static str),
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What is wrong, and why.
    pub what: String,
    /// What to do about it.
    pub advice: Option<String>,
}

/// Everything that is wrong with a configuration; at least one thing. Displays each on lines of its own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

// === impl Problem ===

impl Problem {
    /// A thing that is wrong at `place`.
    pub fn new(place: Place, what: impl Into<String>) -> Self {
        Self { place, what: what.into(), advice: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)?;
        match &self.advice {
            Some(advice) => write!(f, "\n    {advice}"),
            None => Ok(()),
        }
    }
}

// === impl Problems ===

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            write!(f, "{}{problem}", if index == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

// === impl Place ===

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, line, column, path } if path.is_empty() => write!(f, "{file}:{line}:{column}"),
            Self::File { file, line, column, path } => write!(f, "{file}:{line}:{column}: {path}"),
            Self::WholeFile(file) => f.write_str(file),
            Self::Argument(name) | Self::Variable(name) | Self::Missing(name) => f.write_str(name),
        }
    }
}
