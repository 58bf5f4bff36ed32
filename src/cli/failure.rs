//! How a command ends that did not do what it was asked for. Knows nothing of commands.

use std::{fmt::Display, process::ExitCode};

use crate::config::Problems;

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done.
    Done,
    /// 1: it could not be done.
    Failed,
    /// 2: wrong usage or configuration: nothing was tried.
    Usage,
}

/// What happened, why, and what to do about it.
#[derive(Debug)]
pub struct Failure {
    /// Whether it was tried at all.
    pub exit: Exit,
    /// What happened.
    pub what: String,
    /// Why.
    pub why: Option<String>,
    /// What to do about it.
    pub advice: Option<String>,
}

impl Failure {
    /// Something that could not be done.
    pub fn failed(what: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, what: what.into(), why: None, advice: None }
    }

    /// Something that was asked for in a wrong way.
    pub fn usage(what: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, ..Self::failed(what) }
    }

    /// Adds why.
    #[must_use]
    pub fn why(self, why: impl Display) -> Self {
        Self { why: Some(why.to_string()), ..self }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        let count = problems.0.len();
        let what = match count {
            1 => "there is a mistake in the configuration".to_owned(),
            _ => format!("there are {count} mistakes in the configuration"),
        };
        Self::usage(what)
            .why(problems)
            .advise("every option is explained in lockkeeper.example.toml; `lockkeeper check` tries a configuration")
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
