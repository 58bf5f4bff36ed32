//! What a server printed next to its messages, and the part of it that people are shown.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of lines that people are shown.
const SHOWN_LINES: usize = 10;

/// A line that a server printed outside of its messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputLine {
    pub stream: OutputStream,
    /// Printable, at most 1 KiB, without white space at its ends.
    pub text: String,
}

/// A stream of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputStream {
    /// Standard output, where only messages belong.
    Stdout,
    Stderr,
}

/// A line that is kept for the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptLine {
    /// Later lines have greater ones.
    pub number: u64,
    /// The time it was printed, RFC 3339.
    pub at: String,
    /// The user whose process printed it; `None` if several share that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub user: Option<String>,
    #[serde(flatten)]
    pub line: OutputLine,
}

/// The last ten of these lines, oldest first. Frames of a stack go before other lines, which name the error.
pub fn last_output(lines: &[OutputLine]) -> Vec<&OutputLine> {
    let mut shown: Vec<usize> = (0..lines.len()).collect();
    // stable: frames first, each part oldest first
    shown.sort_by_key(|at| !is_frame(&lines[*at].text));
    let mut shown = shown.split_off(lines.len().saturating_sub(SHOWN_LINES));
    shown.sort_unstable();
    shown.into_iter().map(|at| &lines[at]).collect()
}

/// The last of these lines, for a log.
pub fn last_output_text(lines: &[OutputLine]) -> String {
    last_output(lines).into_iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// True for a line of a stack trace as Node, the JVM, .NET, Python, Rust and Go print it.
fn is_frame(text: &str) -> bool {
    let numbered = text
        .split_once(": ")
        .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
    let of_go = text.rsplit_once(" +0x").is_some_and(|(_, offset)| offset.bytes().all(|byte| byte.is_ascii_hexdigit()));
    text.starts_with("at ") || text.starts_with("File \"") || numbered || of_go
}

// === impl OutputLine ===

impl fmt::Display for OutputLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stream = match self.stream {
            OutputStream::Stdout => "stdout",
            OutputStream::Stderr => "stderr",
        };
        write!(f, "{stream} | {}", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let line = |text: &str| OutputLine { stream: OutputStream::Stderr, text: text.trim().to_owned() };
        let lines: Vec<OutputLine> = text.lines().map(line).collect();
        last_output(&lines).into_iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_error_is_shown_and_not_only_the_stack() {
        let frames = "    at Object.<anonymous> (/srv/index.js:3:7)\n".repeat(20);
        let node = shown(&format!(
            "/srv/index.js:3\nthrow new Error('KEY is missing')\n^\nError: KEY is missing\n{frames}Node.js v22\n"
        ));
        assert!(node.contains("\nError: KEY is missing\nat Object") && node.ends_with("\nNode.js v22"), "{node}");
        assert_eq!(node.lines().count(), SHOWN_LINES);

        let frames = "main.run(0x1)\n\t/srv/main.go:12 +0x1d\n".repeat(3);
        let go = shown(&format!("panic: no key\ngoroutine 1 [running]:\n{frames}{}", "/srv/x.go:1 +0x1\n".repeat(9)));
        assert!(go.starts_with("panic: no key\n"), "{go}");

        let frames = "  12: core::panicking::panic_fmt\n  at /rustc/core/src/panicking.rs:75\n".repeat(9);
        let rust = shown(&format!("thread 'main' panicked at src/main.rs:2:5:\nno key\nstack backtrace:\n{frames}"));
        assert!(rust.starts_with("thread 'main' panicked at src/main.rs:2:5:\nno key\n"), "{rust}");
    }

    #[test]
    fn without_a_stack_the_last_lines_are_shown() {
        let lines: Vec<String> = (0..40).map(|number| format!("line {number}")).collect();
        assert_eq!(shown(&lines.join("\n")), lines[30..].join("\n"));
        assert_eq!(shown("one\ntwo"), "one\ntwo");
        assert_eq!(shown(""), "");
    }
}
