//! Output of commands. They write to standard output and standard error only through it. Only clap's own texts and the
//! messages of `stdio` and `connect` go another way.

use std::{
    fmt,
    io::{self, IsTerminal as _, Write},
    mem,
    time::Duration,
};

use serde::Serialize;

use super::failure::{CommandFailure, Exit};
use crate::{
    config::Environment,
    support::{
        BackgroundWriter, printable,
        printable::{EscapeForm, Escaping, printable_text},
    },
    telemetry,
};

/// Maximum wait for the reader of a stream that is written in the background.
const PATIENCE: Duration = Duration::from_secs(1);

/// Standard output and standard error of a command, or their test doubles.
pub struct Output {
    stdout: Box<dyn Write + Send>,
    stderr: Box<dyn Write + Send>,
    /// The streams that are written in the background.
    background: Vec<BackgroundWriter>,
    /// Style of standard output.
    pub out: Style,
    /// Style of standard error.
    pub err: Style,
    /// True if standard output is a terminal, so that a person reads it and no file or log keeps it.
    pub is_terminal: bool,
    /// True if standard error is a terminal, so that a person reads it.
    pub is_watched: bool,
}

/// Text style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// No colours: for a file or pipe, or because the person asked for none.
    Plain,
    Colours,
}

/// Meaning of a coloured text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emphasis {
    Good,
    Waiting,
    Bad,
    Strong,
    Faint,
}

// === impl Output ===

impl Output {
    /// The streams of this process. A terminal gets colours, unless `TERM` is `dumb` or `NO_COLOR` is set
    /// (no-color.org).
    pub fn system(environment: &Environment) -> Self {
        let wanted = environment.get("NO_COLOR").is_none_or(str::is_empty) && environment.get("TERM") != Some("dumb");
        let style = |terminal: bool| if terminal && wanted { Style::Colours } else { Style::Plain };
        Self {
            out: style(io::stdout().is_terminal()),
            err: style(io::stderr().is_terminal()),
            stdout: Box::new(io::stdout()),
            stderr: Box::new(io::stderr()),
            background: Vec::new(),
            is_terminal: io::stdout().is_terminal(),
            is_watched: io::stderr().is_terminal(),
        }
    }

    /// Writes to these in place of the process's streams, without colours.
    pub fn to(stdout: impl Write + Send + 'static, stderr: impl Write + Send + 'static) -> Self {
        let (stdout, stderr) = (Box::new(stdout), Box::new(stderr));
        Self {
            stdout,
            stderr,
            background: Vec::new(),
            out: Style::Plain,
            err: Style::Plain,
            is_terminal: false,
            is_watched: false,
        }
    }

    /// Writes standard error in the background from now on, including notes and failures, so that nothing waits for its
    /// reader. Returns the writer for the log.
    ///
    /// # Errors
    ///
    /// If the system cannot start a thread.
    pub fn log_writer(&mut self) -> io::Result<BackgroundWriter> {
        let stderr = mem::replace(&mut self.stderr, Box::new(io::sink()));
        let writer = BackgroundWriter::start(stderr, telemetry::report_lost_lines)?;
        self.stderr = Box::new(writer.clone());
        self.background.push(writer.clone());
        Ok(writer)
    }

    /// Writes standard output in the background from now on, for a command that continues without a reader.
    ///
    /// # Errors
    ///
    /// If the system cannot start a thread.
    pub fn print_in_background(&mut self) -> io::Result<()> {
        let stdout = mem::replace(&mut self.stdout, Box::new(io::sink()));
        let writer = BackgroundWriter::start(stdout, telemetry::report_lost_lines)?;
        self.stdout = Box::new(writer.clone());
        self.background.push(writer);
        Ok(())
    }

    /// Prints a result. A closed pipe is not an error.
    pub fn print(&mut self, text: &str) {
        let _ = self.try_print(text);
    }

    /// Waits until everything printed in the background is written, at most a second for each stream.
    pub fn wait_until_written(&self) {
        for writer in &self.background {
            writer.finish(PATIENCE);
        }
    }

    /// Prints a part of a result that continues until its reader is gone.
    ///
    /// # Errors
    ///
    /// If the pipe is closed.
    pub fn try_print(&mut self, text: &str) -> io::Result<()> {
        let end = if text.ends_with('\n') { "" } else { "\n" };
        self.stdout.write_all(format!("{text}{end}").as_bytes())?;
        self.stdout.flush()
    }

    /// Prints a result as JSON.
    pub fn json(&mut self, value: &impl Serialize) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.print(&terminal_json(&text)),
            Err(error) => self.remark(&format!("the result cannot be written as JSON: {error}")),
        }
    }

    /// Prints a note for people on standard error, without control sequences.
    pub fn remark(&mut self, text: &str) {
        self.tell(&printable_text(text));
    }

    fn tell(&mut self, text: &str) {
        let _ = self.stderr.write_all(format!("{text}\n").as_bytes());
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
            text.extend(["\n", &style.paint(Emphasis::Good, "help:"), " ", &printable_text(advice)]);
        }
        self.tell(&text);
        failure.exit
    }
}

/// The same JSON with escapes for everything in its strings that could control a terminal.
fn terminal_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    // writing to a `String` cannot fail
    let _ = fmt::Write::write_str(&mut Escaping::new(&mut text, EscapeForm::Json), json);
    text
}

impl Drop for Output {
    fn drop(&mut self) {
        self.wait_until_written();
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

/// A number with its noun: `1 grant`, `2 grants`.
pub(in crate::cli) fn number_of<N: fmt::Display + PartialEq + From<u8> + Copy>(number: N, one: &str) -> String {
    let many = if number == N::from(1) { "" } else { "s" };
    format!("{number} {one}{many}")
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread};

    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct SlowFile(Arc<Mutex<Vec<u8>>>);

    impl Write for SlowFile {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            thread::yield_now();
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_waited_for_is_written() {
        let file = SlowFile::default();
        let mut output = Output::to(file.clone(), io::sink());
        output.print_in_background().unwrap();
        output.print("the key");
        output.wait_until_written();
        assert_eq!(&*file.0.lock(), b"the key\n");
    }
}
