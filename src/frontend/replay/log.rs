//! Numbered messages in order: those that were sent on a stream, then those that wait. Knows nothing of readers and of
//! the messages' content.

use std::collections::VecDeque;

use super::bounds::Bounds;
use crate::mcp::Message;

/// Messages of a buffer, numbered from 1.
#[derive(Debug, Default)]
pub(super) struct ReplayLog {
    entries: VecDeque<LogEntry>,
    bytes: usize,
    /// Number of sent entries, at the front, and their bytes.
    taken: usize,
    taken_bytes: usize,
    last: u64,
}

#[derive(Debug)]
struct LogEntry {
    number: u64,
    /// The stream that it was sent on; 0 while it waits.
    stream: u64,
    message: Message,
    bytes: usize,
}

impl ReplayLog {
    /// Size of all messages in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number and size of the waiting messages.
    pub(super) fn waiting(&self) -> Bounds {
        Bounds { messages: self.entries.len() - self.taken, bytes: self.bytes - self.taken_bytes }
    }

    /// Number of the message before the first waiting one.
    pub(super) fn last_taken(&self) -> u64 {
        self.entries.get(self.taken).map_or(self.last, |entry| entry.number - 1)
    }

    /// Number of the newest message that is kept; 0 if there is none.
    pub(super) fn last_kept(&self) -> u64 {
        self.entries.back().map_or(0, |entry| entry.number)
    }

    /// True if the log exceeds `bounds`.
    pub(super) fn exceeds(&self, bounds: Bounds) -> bool {
        self.entries.len() > bounds.messages || self.bytes > bounds.bytes
    }

    /// True if the log without its newest message exceeds `bounds`: a single large message does not make a reader slow.
    pub(super) fn is_behind(&self, bounds: Bounds) -> bool {
        let newest = self.entries.back().map_or(0, |entry| entry.bytes);
        self.entries.len() > bounds.messages || self.bytes - newest > bounds.bytes
    }

    /// Adds a message.
    pub(super) fn push(&mut self, message: Message) {
        self.last += 1;
        let bytes = message.payload_len();
        self.bytes += bytes;
        self.entries.push_back(LogEntry { number: self.last, stream: 0, message, bytes });
    }

    /// The first message after `after` that was sent on `stream`.
    pub(super) fn taken_by(&self, stream: u64, after: u64) -> Option<(u64, Message)> {
        let start = self.entries.partition_point(|entry| entry.number <= after);
        let entry = self
            .entries
            .range(start.min(self.taken)..self.taken)
            .find(|entry| entry.stream == stream && entry.number > after)?;
        Some((entry.number, entry.message.clone()))
    }

    /// Sends the first waiting message on `stream`.
    pub(super) fn take(&mut self, stream: u64) -> Option<(u64, Message)> {
        let entry = self.entries.get_mut(self.taken)?;
        entry.stream = stream;
        self.taken += 1;
        self.taken_bytes += entry.bytes;
        Some((entry.number, entry.message.clone()))
    }

    /// Marks the messages after `after` as waiting again.
    pub(super) fn untake(&mut self, after: u64) {
        self.taken = self.entries.partition_point(|entry| entry.number <= after);
        self.taken_bytes = self.entries.range(..self.taken).map(|entry| entry.bytes).sum();
    }

    /// Removes the oldest sent message; `false` if there is none.
    pub(super) fn forget_first(&mut self) -> bool {
        if self.taken > 0 {
            self.remove(0);
            return true;
        }
        false
    }

    /// Removes the oldest sent messages until the rest of them is within `bounds`.
    pub(super) fn forget_beyond(&mut self, bounds: Bounds) {
        while (self.taken > bounds.messages || self.taken_bytes > bounds.bytes) && self.forget_first() {}
    }

    /// Index of the first waiting message that is `wanted`.
    pub(super) fn find_waiting(&self, wanted: impl Fn(&Message) -> bool) -> Option<usize> {
        let at = self.entries.range(self.taken..).position(|entry| wanted(&entry.message))?;
        Some(self.taken + at)
    }

    /// The first result of `find`, with the index of its message.
    pub(super) fn find_map<T>(&self, find: impl Fn(&Message) -> Option<T>) -> Option<(usize, T)> {
        self.entries.iter().enumerate().find_map(|(at, entry)| Some((at, find(&entry.message)?)))
    }

    /// Drops waiting messages that are not `wanted`.
    pub(super) fn retain_waiting(&mut self, wanted: impl Fn(&Message) -> bool) {
        while let Some(at) = self.find_waiting(|message| !wanted(message)) {
            self.remove(at);
        }
    }

    /// Removes the message at this index.
    pub(super) fn remove(&mut self, at: usize) {
        let Some(entry) = self.entries.remove(at) else { return };
        self.bytes -= entry.bytes;
        if at < self.taken {
            self.taken -= 1;
            self.taken_bytes -= entry.bytes;
        }
    }
}
