//! The last lines that a server printed beside its messages. Knows nothing of processes.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;

use crate::{
    model::status::{OutputLine, OutputStream},
    support::printable,
};

/// Maximum number of lines that are kept.
const MAX_LINES: usize = 100;
/// Maximum length of each, in bytes.
pub(crate) const MAX_LINE: usize = 1024;

/// The last lines that a server printed beside its messages. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutputTail(Arc<Mutex<RecentLines>>);

#[derive(Debug, Default)]
struct RecentLines {
    lines: VecDeque<OutputLine>,
    /// True if any was on standard output.
    has_stray: bool,
}

// === impl OutputTail ===

impl OutputTail {
    /// The lines, oldest first.
    pub(crate) fn lines(&self) -> Vec<OutputLine> {
        self.0.lock().lines.iter().cloned().collect()
    }

    /// True if text was printed on standard output, where only messages belong.
    pub(crate) fn has_stray(&self) -> bool {
        self.0.lock().has_stray
    }

    /// Forgets the lines of an earlier process.
    pub(crate) fn clear(&self) {
        *self.0.lock() = RecentLines::default();
    }

    /// Keeps the first part of a line; nothing of an empty one. Returns the printable text.
    pub(crate) fn push(&self, stream: OutputStream, line: &[u8]) -> String {
        let line = line.trim_ascii();
        let text = printable(&String::from_utf8_lossy(&line[..line.len().min(MAX_LINE)]));
        if !text.is_empty() {
            let mut recent = self.0.lock();
            if recent.lines.len() == MAX_LINES {
                recent.lines.pop_front();
            }
            recent.lines.push_back(OutputLine { stream, text: text.clone() });
            recent.has_stray |= stream == OutputStream::Stdout;
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
}
