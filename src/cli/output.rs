//! Output of commands: the only module that writes to standard output and standard error. Knows no command.

use std::io::{self, IsTerminal as _, Write};

use serde::Serialize;

use super::failure::{CommandFailure, Exit};
use crate::{config::Environment, support::printable};

/// Standard output and standard error of a command, or their test doubles.
pub struct Output {
    stdout: Box<dyn Write + Send>,
    stderr: Box<dyn Write + Send>,
    /// Style of standard output.
    pub out: Style,
    /// Style of standard error.
    pub err: Style,
}

/// Text style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Plain text: a file, a pipe, or by request.
    Plain,
    /// ANSI colours.
    Colours,
}

/// Meaning of a coloured text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emphasis {
    /// Success.
    Good,
    /// In progress.
    Waiting,
    /// Failure.
    Bad,
    /// Important text.
    Strong,
    /// Secondary text.
    Faint,
}

// === impl Output ===

impl Output {
    /// The streams of this process. Colours are used only on a terminal, unless `NO_COLOR` is set (no-color.org) or
    /// `TERM` is `dumb`.
    pub fn system(environment: &Environment) -> Self {
        let wanted = environment.get("NO_COLOR").is_none_or(str::is_empty) && environment.get("TERM") != Some("dumb");
        let style = |terminal: bool| if terminal && wanted { Style::Colours } else { Style::Plain };
        Self {
            out: style(io::stdout().is_terminal()),
            err: style(io::stderr().is_terminal()),
            stdout: Box::new(io::stdout()),
            stderr: Box::new(io::stderr()),
        }
    }

    /// Other writers in place of the streams, without colours.
    pub fn to(stdout: impl Write + Send + 'static, stderr: impl Write + Send + 'static) -> Self {
        Self { stdout: Box::new(stdout), stderr: Box::new(stderr), out: Style::Plain, err: Style::Plain }
    }

    /// Prints a result. A closed pipe is not an error.
    pub fn print(&mut self, text: &str) {
        let _ = self.try_print(text);
    }

    /// Prints a part of a result that goes on until nobody reads it.
    ///
    /// # Errors
    ///
    /// If the pipe is closed.
    pub fn try_print(&mut self, text: &str) -> io::Result<()> {
        self.stdout.write_all(text.as_bytes())?;
        if !text.ends_with('\n') {
            self.stdout.write_all(b"\n")?;
        }
        self.stdout.flush()
    }

    /// Prints a result as JSON.
    pub fn json(&mut self, value: &impl Serialize) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.print(&text),
            Err(error) => self.remark(&format!("the result cannot be written as JSON: {error}")),
        }
    }

    /// Prints a note for people on standard error.
    pub fn remark(&mut self, text: &str) {
        let _ = writeln!(self.stderr, "{text}");
        let _ = self.stderr.flush();
    }

    /// Prints a failure and returns the exit code.
    pub fn failure(&mut self, failure: &CommandFailure) -> Exit {
        let style = self.err;
        let what = printable(&failure.what);
        let mut text = format!("{} {}", style.paint(Emphasis::Bad, "error:"), style.paint(Emphasis::Strong, &what));
        if let Some(why) = &failure.why {
            for line in why.lines() {
                text.push_str("\n  ");
                text.push_str(&printable(line));
            }
        }
        if let Some(advice) = &failure.advice {
            text.extend(["\n", &style.paint(Emphasis::Good, "help:"), " ", advice]);
        }
        self.remark(&text);
        failure.exit
    }
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Output({:?}, {:?})", self.out, self.err)
    }
}

// === impl Style ===

impl Style {
    /// `text` in the colour for `emphasis`.
    pub fn paint(self, emphasis: Emphasis, text: &str) -> String {
        let code = match emphasis {
            _ if self == Self::Plain || text.is_empty() => return text.to_owned(),
            Emphasis::Good => "32",
            Emphasis::Waiting => "33",
            Emphasis::Bad => "31",
            Emphasis::Strong => "1",
            Emphasis::Faint => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}
