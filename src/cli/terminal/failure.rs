//! Failures of commands: the error message and the exit code.

use std::{fmt::Display, process::ExitCode};

use crate::config::{ConfigPlace, ConfigProblem, ConfigProblems};

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

/// An exit code, and an error message in three parts: what happened, why, and what to do.
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

    /// Adds the options that the person typed to find the data to every command in the advice. Without them, those
    /// commands would work on another gateway.
    #[must_use]
    pub fn with_options(self, options: &str) -> Self {
        let advice = self.advice.map(|advice| with_options(&advice, options));
        Self { advice, ..self }
    }

    /// Adds advice.
    #[must_use]
    pub fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

/// The advice with `options` added to each command in backquotes, except `help` and commands with options of this kind.
/// `options` begins with a space.
fn with_options(advice: &str, options: &str) -> String {
    let mut text = String::new();
    for (index, part) in advice.split('`').enumerate() {
        if index > 0 {
            text.push('`');
        }
        text.push_str(part);
        let is_command = index % 2 == 1 && part.starts_with("lockkeeper ") && !part.starts_with("lockkeeper help");
        if is_command && !["--config", "--data-dir", " -- "].iter().any(|option| part.contains(option)) {
            text.push_str(options);
        }
    }
    text
}

/// An error and its causes, each once: many errors already repeat their cause.
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
        let is_of_key =
            |problem: &ConfigProblem| matches!(problem.place, ConfigPlace::File { .. } | ConfigPlace::Option(_));
        let has_keys = problems.0.iter().any(is_of_key);
        let failure = Self::usage(what).why(problems);
        if has_keys {
            failure.advise("`lockkeeper help configuration` explains every key; test with `lockkeeper check`")
        } else {
            failure
        }
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
    fn commands_of_an_advice_have_the_options_that_were_typed() {
        let told =
            |advice: &str| CommandFailure::failed("x").advise(advice).with_options(" --config a.toml").advice.unwrap();
        assert_eq!(
            told("`lockkeeper keys list` shows the ids"),
            "`lockkeeper keys list --config a.toml` shows the ids"
        );
        for same in ["`--replace` or `lockkeeper help keys`", "`lockkeeper add x -- y`", "`lockkeeper list --config b`"]
        {
            assert_eq!(told(same), same);
        }
    }

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
