//! Numbered messages in order: first the sent messages of a stream, then the waiting ones.

use std::{collections::VecDeque, sync::Weak};

use crate::{
    mcp::Message,
    support::{
        Account,
        byte_queue::Bounds,
        memory::{Charge, Exhausted, Holding, Listed},
    },
};

/// Size that is charged for an entry in addition to its payload, in bytes.
const ENTRY: usize = 128;

/// Messages of a buffer, numbered from 1.
#[derive(Debug, Default)]
pub(super) struct ReplayLog {
    entries: VecDeque<LogEntry>,
    bytes: usize,
    /// Number and size of the sent entries, which come first.
    taken: usize,
    taken_bytes: usize,
    last: u64,
    payers: Vec<PayingAccount>,
}

/// An account that is charged for messages here.
#[derive(Debug)]
struct PayingAccount {
    charge: Charge,
    /// `None` before the first charged byte.
    listed: Option<Listed>,
}

#[derive(Debug)]
struct LogEntry {
    number: u64,
    /// The stream that the message was sent on; 0 while it waits.
    stream: u64,
    message: Message,
    bytes: usize,
    /// Index of the paying account; `None` if the message is free of charge.
    payer: Option<usize>,
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

    /// Number of the newest kept message; 0 if none is kept.
    pub(super) fn last_kept(&self) -> u64 {
        self.entries.back().map_or(0, |entry| entry.number)
    }

    /// True if the log exceeds `bounds`.
    pub(super) fn exceeds(&self, bounds: Bounds) -> bool {
        self.entries.len() > bounds.messages || self.bytes > bounds.bytes
    }

    /// True if the log exceeds `bounds` even without its newest message. A single large message does not make a reader
    /// slow.
    pub(super) fn is_behind(&self, bounds: Bounds) -> bool {
        let newest = self.entries.back().map_or(0, |entry| entry.bytes);
        self.entries.len() > bounds.messages || self.bytes - newest > bounds.bytes
    }

    /// Adds a message, charged to `account`.
    ///
    /// # Errors
    ///
    /// If there is no memory for it.
    pub(super) fn push(
        &mut self,
        message: Message,
        account: &Account,
        holding: impl FnOnce() -> Weak<dyn Holding>,
    ) -> Result<(), Exhausted> {
        let place = self.payers.iter().position(|payer| payer.charge.account().is(account));
        let place = place.unwrap_or_else(|| {
            self.payers.push(PayingAccount { charge: Charge::nothing(account.clone()), listed: None });
            self.payers.len() - 1
        });
        if let Some(payer) = self.payers.get_mut(place) {
            payer.charge.grow(message.payload_len() + ENTRY)?;
            if payer.listed.is_none() && payer.charge.is_counted() {
                payer.listed = Some(account.list(holding()));
            }
        }
        self.add(message, Some(place));
        Ok(())
    }

    /// Adds a small message free of charge, such as an error that replaces an answer.
    pub(super) fn push_free(&mut self, message: Message) {
        self.add(message, None);
    }

    fn add(&mut self, message: Message, payer: Option<usize>) {
        self.last += 1;
        let bytes = message.payload_len();
        self.bytes += bytes;
        self.entries.push_back(LogEntry { number: self.last, stream: 0, message, bytes, payer });
    }

    /// The number of the newest message so far.
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    /// Size of the waiting messages that are `counted`, in bytes.
    pub(super) fn waiting_bytes(&self, counted: impl Fn(&Message) -> bool) -> usize {
        let waiting = self.entries.range(self.taken..).filter(|entry| counted(&entry.message));
        waiting.map(|entry| entry.bytes).sum()
    }

    /// Drops the sent messages that `account` pays for; returns the number of the newest of them.
    pub(super) fn forget_sent(&mut self, account: &Account) -> Option<u64> {
        let mut newest = None;
        for at in (0..self.taken).rev() {
            if self.is_paid_by(at, account) {
                newest = newest.max(self.entries.get(at).map(|entry| entry.number));
                self.remove(at);
            }
        }
        newest
    }

    /// Drops the waiting messages that `account` pays for and that are not `wanted`; returns how many.
    pub(super) fn drop_paid(&mut self, account: &Account, wanted: impl Fn(&Message) -> bool) -> usize {
        let mut dropped = 0;
        for at in (self.taken..self.entries.len()).rev() {
            let is_wanted = self.entries.get(at).is_none_or(|entry| wanted(&entry.message));
            if !is_wanted && self.is_paid_by(at, account) {
                self.remove(at);
                dropped += 1;
            }
        }
        dropped
    }

    fn is_paid_by(&self, at: usize, account: &Account) -> bool {
        let payer = self.entries.get(at).and_then(|entry| self.payers.get(entry.payer?));
        payer.is_some_and(|payer| payer.charge.account().is(account))
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

    /// Removes the oldest sent messages until the remaining ones are within `bounds`.
    pub(super) fn forget_beyond(&mut self, bounds: Bounds) {
        while (self.taken > bounds.messages || self.taken_bytes > bounds.bytes) && self.forget_first() {}
    }

    /// Index of the first waiting message that is `wanted`.
    pub(super) fn find_waiting(&self, wanted: impl Fn(&Message) -> bool) -> Option<usize> {
        let at = self.entries.range(self.taken..).position(|entry| wanted(&entry.message))?;
        Some(self.taken + at)
    }

    /// The first result of `find` that is not `None`, with the index of its message.
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
        if let Some(payer) = entry.payer.and_then(|place| self.payers.get_mut(place)) {
            payer.charge.shrink(entry.bytes + ENTRY);
        }
        if self.entries.is_empty() {
            self.payers.clear();
        }
    }
}
