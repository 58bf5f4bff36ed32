//! Numbered messages in their order: those that a stream took, then those that wait. Knows nothing of readers and of what
//! the messages say.

use std::collections::VecDeque;

use super::bounds::Bounds;
use crate::mcp::Message;

/// The messages of a buffer, numbered from 1.
#[derive(Debug, Default)]
pub(super) struct ReplayLog {
    entries: VecDeque<LogEntry>,
    bytes: usize,
    /// The entries from the front that were taken, and their bytes.
    taken: usize,
    taken_bytes: usize,
    last: u64,
}

#[derive(Debug)]
struct LogEntry {
    number: u64,
    /// The stream that took it; 0 while it waits.
    stream: u64,
    message: Message,
    bytes: usize,
}

impl ReplayLog {
    /// The bytes of all messages.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of messages that wait.
    pub(super) fn waiting(&self) -> usize {
        self.entries.len() - self.taken
    }

    /// The number of the message before the first that waits.
    pub(super) fn last_taken(&self) -> u64 {
        self.entries.get(self.taken).map_or(self.last, |entry| entry.number - 1)
    }

    /// Returns `true` if there is more than `bounds`.
    pub(super) fn exceeds(&self, bounds: Bounds) -> bool {
        self.entries.len() > bounds.messages || self.bytes > bounds.bytes
    }

    /// Returns `true` if there is more than `bounds`, the newest message not counted: one large message makes no slow reader.
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

    /// The first message after `after` that `stream` took.
    pub(super) fn taken_by(&self, stream: u64, after: u64) -> Option<(u64, Message)> {
        let start = self.entries.partition_point(|entry| entry.number <= after);
        let entry = self
            .entries
            .range(start.min(self.taken)..self.taken)
            .find(|entry| entry.stream == stream && entry.number > after)?;
        Some((entry.number, entry.message.clone()))
    }

    /// The first message that waits; `stream` takes it.
    pub(super) fn take(&mut self, stream: u64) -> Option<(u64, Message)> {
        let entry = self.entries.get_mut(self.taken)?;
        entry.stream = stream;
        self.taken += 1;
        self.taken_bytes += entry.bytes;
        Some((entry.number, entry.message.clone()))
    }

    /// Lets the messages after `after` wait again.
    pub(super) fn untake(&mut self, after: u64) {
        self.taken = self.entries.partition_point(|entry| entry.number <= after);
        self.taken_bytes = self.entries.range(..self.taken).map(|entry| entry.bytes).sum();
    }

    /// Forgets the oldest message that was taken; `false` if there is none.
    pub(super) fn forget_first(&mut self) -> bool {
        if self.taken > 0 {
            self.remove(0);
            return true;
        }
        false
    }

    /// Forgets the oldest messages that were taken until no more than `bounds` of those are left.
    pub(super) fn forget_beyond(&mut self, bounds: Bounds) {
        while (self.taken > bounds.messages || self.taken_bytes > bounds.bytes) && self.forget_first() {}
    }

    /// The place of the first message that waits and is `wanted`.
    pub(super) fn find_waiting(&self, wanted: impl Fn(&Message) -> bool) -> Option<usize> {
        let at = self.entries.range(self.taken..).position(|entry| wanted(&entry.message))?;
        Some(self.taken + at)
    }

    /// The first message of which `find` makes something, its place first.
    pub(super) fn find_map<T>(&self, find: impl Fn(&Message) -> Option<T>) -> Option<(usize, T)> {
        self.entries.iter().enumerate().find_map(|(at, entry)| Some((at, find(&entry.message)?)))
    }

    /// Drops the messages that wait and are not `wanted`.
    pub(super) fn retain_waiting(&mut self, wanted: impl Fn(&Message) -> bool) {
        while let Some(at) = self.find_waiting(|message| !wanted(message)) {
            self.remove(at);
        }
    }

    /// Removes the message at this place.
    pub(super) fn remove(&mut self, at: usize) {
        let Some(entry) = self.entries.remove(at) else { return };
        self.bytes -= entry.bytes;
        if at < self.taken {
            self.taken -= 1;
            self.taken_bytes -= entry.bytes;
        }
    }
}
