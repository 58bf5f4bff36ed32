//! Failures of commands. Knows no command.

use std::{fmt::Display, process::ExitCode};

use crate::config::ConfigProblems;

/// Exit code of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done.
    Done,
    /// 1: failed.
    Failed,
    /// 2: wrong usage or configuration; nothing was attempted.
    Usage,
}

/// The three parts of an error message: what happened, why, and what to do.
#[derive(Debug)]
pub struct CommandFailure {
    /// Exit code.
    pub exit: Exit,
    /// Error.
    pub what: String,
    /// Reason.
    pub why: Option<String>,
    /// Advice.
    pub advice: Option<String>,
}

impl CommandFailure {
    /// A failed command.
    pub fn failed(what: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, what: what.into(), why: None, advice: None }
    }

    /// A wrong use of a command.
    pub fn usage(what: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, ..Self::failed(what) }
    }

    /// Adds the reason.
    #[must_use]
    pub fn why(self, why: impl Display) -> Self {
        Self { why: Some(why.to_string()), ..self }
    }

    /// Adds advice.
    #[must_use]
    pub fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

/// What went wrong and its causes, each once: many an error tells its cause in its own words.
pub fn reasons(error: &anyhow::Error) -> String {
    let mut said: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if said.last().is_none_or(|before| !before.ends_with(&cause)) {
            said.push(cause);
        }
    }
    said.join(": ")
}

impl From<ConfigProblems> for CommandFailure {
    fn from(problems: ConfigProblems) -> Self {
        let count = problems.0.len();
        let what = match count {
            1 => "the configuration has an error".to_owned(),
            _ => format!("the configuration has {count} errors"),
        };
        Self::usage(what)
            .why(problems)
            .advise("`lockkeeper help configuration` explains every key; test with `lockkeeper check`")
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Done => Self::SUCCESS,
            Exit::Failed => Self::from(1),
            Exit::Usage => Self::from(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("the file cannot be opened: {0}")]
        struct Unopened(#[from] std::io::Error);

        let error = Unopened(std::io::Error::other("permission denied"));
        let error = Err::<(), _>(error).context("no data").unwrap_err();
        assert_eq!(reasons(&error), "no data: the file cannot be opened: permission denied");
    }
}
