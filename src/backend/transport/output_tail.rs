//! The last lines that a server printed outside of its messages, without its user's secrets.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;

use super::kept_output::KeptOutput;
use crate::{
    model::{
        MAX_USER_SECRET, UserId,
        status::{OutputLine, OutputStream},
    },
    support::{Secret, printable},
};

/// Maximum number of lines.
const MAX_LINES: usize = 100;
/// Maximum length of a line, in bytes.
pub(crate) const MAX_LINE: usize = 1024;

/// Text that replaces a secret.
const HIDDEN: &str = "[secret]";

/// The last lines of one process. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct OutputTail {
    recent: Arc<Mutex<RecentLines>>,
    /// Secrets to replace in lines.
    hidden: Arc<[Secret]>,
    /// The longer record, and the user whose lines these are there.
    kept: Option<(KeptOutput, Option<UserId>)>,
}

#[derive(Debug, Default)]
struct RecentLines {
    lines: VecDeque<OutputLine>,
    /// True if a line was on standard output.
    has_stray: bool,
    /// Number of lines so far, including dropped ones.
    count: u64,
}

// === impl OutputTail ===

impl OutputTail {
    /// Creates an empty tail, which replaces these secrets in later lines.
    pub(crate) fn hiding(hidden: &[Secret]) -> Self {
        Self { recent: Arc::default(), hidden: hidden.into(), kept: None }
    }

    /// Also keeps all lines in `kept`, as lines of this user.
    pub(crate) fn kept_in(self, kept: &KeptOutput, user: Option<&UserId>) -> Self {
        Self { kept: Some((kept.clone(), user.cloned())), ..self }
    }

    /// An empty tail for another process of the same server, with the same secrets. Its lines belong to `user`, unless
    /// the server as a whole belongs to one.
    pub(crate) fn another(&self, user: Option<&UserId>) -> Self {
        let kept = self.kept.clone().map(|(kept, owner)| (kept, owner.or_else(|| user.cloned())));
        Self { recent: Arc::default(), hidden: Arc::clone(&self.hidden), kept }
    }

    /// The lines, oldest first.
    pub(crate) fn lines(&self) -> Vec<OutputLine> {
        self.recent.lock().lines.iter().cloned().collect()
    }

    /// True if text was printed on standard output, which is for messages.
    pub(crate) fn has_stray(&self) -> bool {
        self.recent.lock().has_stray
    }

    /// Number of lines so far, including dropped ones.
    pub(crate) fn count(&self) -> u64 {
        self.recent.lock().count
    }

    /// Removes the lines of an earlier process.
    pub(crate) fn clear(&self) {
        *self.recent.lock() = RecentLines::default();
    }

    /// Keeps the first [`MAX_LINE`] bytes of a line, unless it is empty. Returns the printable text.
    pub(crate) fn push(&self, stream: OutputStream, line: &[u8]) -> String {
        let line = line.trim_ascii();
        // longer than the kept part, so that a secret at its end is seen whole
        let mut text = String::from_utf8_lossy(&line[..line.len().min(MAX_LINE + MAX_USER_SECRET)]).into_owned();
        for secret in &*self.hidden {
            text = text.replace(secret.expose(), HIDDEN);
        }
        text.truncate(text.floor_char_boundary(MAX_LINE));
        let text = printable(&text);
        if !text.is_empty() {
            let mut recent = self.recent.lock();
            recent.count += 1;
            if recent.lines.len() == MAX_LINES {
                recent.lines.pop_front();
            }
            let line = OutputLine { stream, text: text.clone() };
            recent.lines.push_back(line.clone());
            recent.has_stray |= stream == OutputStream::Stdout;
            drop(recent);
            if let Some((kept, owner)) = &self.kept {
                kept.push(owner.as_ref(), line);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_in_order_and_cut() {
        let tail = OutputTail::default();
        tail.push(OutputStream::Stdout, b"Welcome\r\n");
        tail.push(OutputStream::Stderr, b"  \n");
        assert_eq!(tail.lines().iter().map(ToString::to_string).collect::<Vec<_>>(), ["stdout | Welcome"]);
        for _ in 0..MAX_LINES {
            tail.push(OutputStream::Stderr, &[b'x'; 2 * MAX_LINE]);
        }
        let lines = tail.lines();
        assert_eq!((lines.len(), lines[0].text.len()), (MAX_LINES, MAX_LINE));
        assert!(tail.has_stray(), "it was told once");
        tail.clear();
        assert!(tail.lines().is_empty() && !tail.has_stray());
    }

    #[test]
    fn a_line_is_kept_without_the_secrets_of_the_user() {
        let tail = OutputTail::hiding(&[Secret::new("hunter2")]);
        assert_eq!(tail.push(OutputStream::Stderr, b"token hunter2, again hunter2"), "token [secret], again [secret]");
        let split = format!("{}hunter2", "x".repeat(MAX_LINE - 3));
        assert!(!tail.another(None).push(OutputStream::Stderr, split.as_bytes()).contains("hun"));
    }
}
