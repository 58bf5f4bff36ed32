//! Where commands print: the one place that writes to standard output and standard error. Knows no command.

use std::io::{self, IsTerminal as _, Write};

use serde::Serialize;

use super::failure::{Exit, Failure};
use crate::{config::Environment, support::printable};

/// Standard output and standard error of a command, or what stands in for them.
pub struct Output {
    stdout: Box<dyn Write + Send>,
    stderr: Box<dyn Write + Send>,
    /// How text on standard output is dressed.
    pub out: Style,
    /// How text on standard error is dressed.
    pub err: Style,
}

/// How text is dressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Not at all: a file, a pipe, or a person who does not want it.
    Plain,
    /// By ANSI colours.
    Colours,
}

/// A colour with a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// Well.
    Good,
    /// On its way.
    Waiting,
    /// Bad.
    Bad,
    /// Important.
    Strong,
    /// Beside the point.
    Faint,
}

// === impl Output ===

impl Output {
    /// The streams of this process. Colours are used on a terminal alone, and not where `NO_COLOR` is set
    /// (no-color.org) or `TERM` is `dumb`.
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

    /// Writers that stand in for the streams, without colours.
    pub fn to(stdout: impl Write + Send + 'static, stderr: impl Write + Send + 'static) -> Self {
        Self { stdout: Box::new(stdout), stderr: Box::new(stderr), out: Style::Plain, err: Style::Plain }
    }

    /// Prints what was asked for. A reader that went away is no error.
    pub fn print(&mut self, text: &str) {
        let _ = self.stdout.write_all(text.as_bytes());
        if !text.ends_with('\n') {
            let _ = self.stdout.write_all(b"\n");
        }
        let _ = self.stdout.flush();
    }

    /// Prints what was asked for as JSON.
    pub fn json(&mut self, value: &impl Serialize) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.print(&text),
            Err(error) => self.remark(&format!("the result cannot be written as JSON: {error}")),
        }
    }

    /// Prints what a person may want to know beside the result.
    pub fn remark(&mut self, text: &str) {
        let _ = writeln!(self.stderr, "{text}");
        let _ = self.stderr.flush();
    }

    /// Prints what went wrong, and gives the exit code.
    pub fn failure(&mut self, failure: &Failure) -> Exit {
        let style = self.err;
        let what = printable(&failure.what);
        let mut text = format!("{} {}", style.dress(Ink::Bad, "error:"), style.dress(Ink::Strong, &what));
        if let Some(why) = &failure.why {
            for line in why.lines() {
                text.push_str("\n  ");
                text.push_str(&printable(line));
            }
        }
        if let Some(advice) = &failure.advice {
            text.extend(["\n", &style.dress(Ink::Good, "help:"), " ", advice]);
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
    /// `text` in the colour for `ink`.
    pub fn dress(self, ink: Ink, text: &str) -> String {
        let code = match ink {
            _ if self == Self::Plain || text.is_empty() => return text.to_owned(),
            Ink::Good => "32",
            Ink::Waiting => "33",
            Ink::Bad => "31",
            Ink::Strong => "1",
            Ink::Faint => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}
