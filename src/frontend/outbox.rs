//! What waits for the standalone streams of one session: a bounded queue, the streams that may take from it, and what
//! they took last. Knows nothing of HTTP.
//!
//! Of several open streams the newest alone takes messages (2025-03-26 to 2025-11-25, transports, *Multiple
//! Connections*: no message goes to two). While none is open messages wait; what would be said twice is said once. A
//! client that comes back to a stream is told again what that stream took, and no other (*Resumability and Redelivery*).

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::transcript::may_be_dropped;
use crate::mcp::{Message, Method};

/// The queue of one session and its open streams.
#[derive(Debug)]
pub(crate) struct Outbox {
    inner: Mutex<Inner>,
    changed: Notify,
    bounds: Bounds,
}

/// How much an outbox holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Messages that wait.
    pub(crate) waiting: usize,
    /// Streams that are open.
    pub(crate) streams: usize,
    /// Messages that are kept for clients that come back, and their bytes.
    pub(crate) kept: (usize, usize),
    /// What happens where more would wait.
    pub(crate) overflow: Overflow,
}

/// What happens where more would wait than may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// The oldest of those that the client can do without is dropped, else the oldest notification, and a question only
    /// where nothing else waits; the stream that let them gather is closed: its client comes back.
    CloseStream,
    /// The oldest of those that the client can do without is dropped; the stream, which is the whole session, is closed
    /// where there is none.
    DropFirst,
}

/// One open stream. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct Attached {
    outbox: Arc<Outbox>,
    serial: u64,
    /// Which of the connections that carried the stream.
    turn: u64,
    /// The number of the last message that was taken.
    read: u64,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<Message>,
    /// The open streams and their connections, oldest first.
    streams: VecDeque<(u64, u64)>,
    /// What was taken last: by which stream, its number in the session, and the message.
    taken: VecDeque<(u64, u64, Message)>,
    taken_bytes: usize,
    last_stream: u64,
    last_turn: u64,
    last_number: u64,
}

/// What a stream finds when it looks.
enum Look {
    Took(u64, Message),
    Nothing,
    Closed,
}

// === impl Outbox ===

impl Outbox {
    /// An empty outbox.
    pub(crate) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), changed: Notify::new(), bounds })
    }

    /// Puts `message` in the queue. A `list_changed`, and an update of the same resource, takes the place of one that
    /// still waits.
    pub(crate) fn push(&self, message: Message) {
        let mut inner = self.inner.lock();
        if coalesces(&message) {
            inner.waiting.retain(|waiting| *waiting != message);
        }
        if inner.waiting.len() >= self.bounds.waiting {
            inner.overflow(self.bounds.overflow);
        }
        inner.waiting.push_back(message);
        drop(inner);
        self.changed.notify_waiters();
    }

    /// Opens a stream, which takes the messages from now on. Where there are too many, the oldest is closed.
    pub(crate) fn attach(self: &Arc<Self>) -> Attached {
        let mut inner = self.inner.lock();
        inner.last_stream += 1;
        let serial = inner.last_stream;
        let read = inner.last_number;
        self.connect(inner, serial, read)
    }

    /// Goes on with the stream `serial` after its message `after`, on another connection.
    pub(crate) fn resume(self: &Arc<Self>, serial: u64, after: u64) -> Option<Attached> {
        let mut inner = self.inner.lock();
        if serial == 0 || serial > inner.last_stream {
            return None;
        }
        inner.streams.retain(|(open, _)| *open != serial);
        Some(self.connect(inner, serial, after))
    }

    /// How many streams are open.
    pub(crate) fn streams(&self) -> usize {
        self.inner.lock().streams.len()
    }

    fn connect(self: &Arc<Self>, mut inner: parking_lot::MutexGuard<'_, Inner>, serial: u64, read: u64) -> Attached {
        inner.last_turn += 1;
        let turn = inner.last_turn;
        inner.streams.push_back((serial, turn));
        if inner.streams.len() > self.bounds.streams {
            inner.streams.pop_front();
        }
        drop(inner);
        self.changed.notify_waiters();
        Attached { outbox: Arc::clone(self), serial, turn, read }
    }

    fn look(&self, stream: (u64, u64), read: u64) -> Look {
        let mut inner = self.inner.lock();
        if !inner.streams.contains(&stream) {
            return Look::Closed;
        }
        let again = inner.taken.iter().find(|(serial, number, _)| *serial == stream.0 && *number > read);
        if let Some((_, number, message)) = again {
            return Look::Took(*number, message.clone());
        }
        if inner.streams.back() != Some(&stream) {
            return Look::Nothing;
        }
        let Some(message) = inner.waiting.pop_front() else { return Look::Nothing };
        let number = inner.keep(stream.0, &message, self.bounds.kept);
        Look::Took(number, message)
    }
}

// === impl Inner ===

impl Inner {
    fn overflow(&mut self, overflow: Overflow) {
        let spare = self.waiting.iter().position(may_be_dropped);
        let told = || self.waiting.iter().position(|message| matches!(message, Message::Notification { .. }));
        let dropped = spare.or_else(told).unwrap_or(0);
        self.waiting.remove(dropped);
        metrics::counter!("lockkeeper_frontend_messages_dropped_total").increment(1);
        let closes = spare.is_none() || overflow == Overflow::CloseStream;
        if closes && self.streams.pop_back().is_some() {
            metrics::counter!("lockkeeper_frontend_slow_streams_closed_total").increment(1);
        }
    }

    /// Keeps what a stream takes, within `most` messages and bytes; gives its number.
    fn keep(&mut self, serial: u64, message: &Message, most: (usize, usize)) -> u64 {
        self.last_number += 1;
        if most.0 > 0 {
            self.taken_bytes += message.payload_len();
            self.taken.push_back((serial, self.last_number, message.clone()));
        }
        while self.taken.len() > most.0 || self.taken_bytes > most.1 {
            let Some((_, _, forgotten)) = self.taken.pop_front() else { break };
            self.taken_bytes -= forgotten.payload_len();
        }
        self.last_number
    }
}

// === impl Attached ===

impl Attached {
    /// Its serial in the session.
    pub(crate) const fn serial(&self) -> u64 {
        self.serial
    }

    /// The number of the last message that was taken, or is taken as such.
    pub(crate) const fn read(&self) -> u64 {
        self.read
    }

    /// The next message and its number; `None` where the stream is to be closed. Nothing is lost when the wait is dropped.
    pub(crate) async fn next(&mut self) -> Option<(u64, Message)> {
        loop {
            let changed = self.outbox.changed.notified();
            tokio::pin!(changed);
            // from here on no change goes unnoticed
            changed.as_mut().enable();
            match self.outbox.look((self.serial, self.turn), self.read) {
                Look::Took(number, message) => {
                    self.read = number;
                    return Some((number, message));
                }
                Look::Closed => return None,
                Look::Nothing => changed.await,
            }
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.outbox.inner.lock().streams.retain(|(_, turn)| *turn != self.turn);
        self.outbox.changed.notify_waiters();
    }
}

/// Whether saying the same twice tells nothing more than saying it once.
fn coalesces(message: &Message) -> bool {
    let Message::Notification { method, .. } = message else { return false };
    matches!(
        method,
        Method::ToolsListChanged | Method::PromptsListChanged | Method::ResourcesListChanged | Method::ResourceUpdated
    )
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::FutureExt as _;

    use super::*;

    fn outbox(waiting: usize, streams: usize) -> Arc<Outbox> {
        Outbox::new(Bounds { waiting, streams, kept: (2, 1_000), overflow: Overflow::CloseStream })
    }

    fn message(taken: Option<(u64, Message)>) -> Option<Message> {
        taken.map(|(_, message)| message)
    }

    fn told(method: Method, params: &'static str) -> Message {
        Message::Notification { method, params: Bytes::from_static(params.as_bytes()) }
    }

    fn log(params: &'static str) -> Message {
        told(Method::LoggingMessage, params)
    }

    #[tokio::test]
    async fn what_would_be_said_twice_is_said_once() {
        let outbox = outbox(8, 8);
        let updated = |uri| told(Method::ResourceUpdated, uri);
        for message in
            [updated("1"), told(Method::ToolsListChanged, ""), updated("2"), updated("1"), log("x"), log("x")]
        {
            outbox.push(message);
        }
        let mut stream = outbox.attach();
        for expected in [told(Method::ToolsListChanged, ""), updated("2"), updated("1"), log("x"), log("x")] {
            assert_eq!(message(stream.next().await), Some(expected));
        }
        assert_eq!(stream.next().now_or_never(), None);
    }

    #[tokio::test]
    async fn the_newest_stream_takes_the_messages_and_the_one_before_it_goes_on_when_it_closes() {
        let outbox = outbox(8, 8);
        let (mut old, mut new) = (outbox.attach(), outbox.attach());
        outbox.push(log("1"));
        assert_eq!(old.next().now_or_never(), None);
        assert_eq!(message(new.next().await), Some(log("1")));
        drop(new);
        outbox.push(log("2"));
        assert_eq!(message(old.next().await), Some(log("2")));
    }

    #[tokio::test]
    async fn a_stream_whose_reader_is_too_slow_is_closed() {
        let outbox = outbox(2, 8);
        let mut slow = outbox.attach();
        for params in ["1", "2", "3"] {
            outbox.push(log(params));
        }
        assert_eq!(slow.next().await, None);
        assert_eq!(message(outbox.attach().next().await), Some(log("2")));
    }

    #[tokio::test]
    async fn streams_are_bounded() {
        let outbox = outbox(2, 2);
        let mut streams = [outbox.attach(), outbox.attach(), outbox.attach()];
        assert_eq!(streams[0].next().await, None);
        assert_eq!(outbox.streams(), 2);
    }

    #[tokio::test]
    async fn a_client_that_comes_back_is_told_again_what_that_stream_took() {
        let outbox = outbox(8, 8);
        let mut one = outbox.attach();
        outbox.push(log("1"));
        let (first, _) = one.next().await.unwrap();
        outbox.push(log("2"));
        one.next().await;
        let mut two = outbox.attach();
        outbox.push(log("3"));
        assert_eq!(message(two.next().await), Some(log("3")));
        let mut again = outbox.resume(one.serial(), first).unwrap();
        assert_eq!(one.next().await, None, "the connection before is closed");
        assert_eq!(message(again.next().await), Some(log("2")));
        assert_eq!(again.next().now_or_never(), None, "the other stream took the rest");
        outbox.push(log("4"));
        assert_eq!(message(again.next().await), Some(log("4")));
        let mut two_again = outbox.resume(two.serial(), 0).unwrap();
        assert_eq!(message(two_again.next().await), Some(log("3")));
        assert!(outbox.resume(9, 0).is_none() && outbox.resume(0, 0).is_none());
    }

    #[tokio::test]
    async fn the_one_stream_of_a_session_is_closed_only_where_nothing_can_be_dropped() {
        let bounds = Bounds { waiting: 2, streams: 1, kept: (0, 0), overflow: Overflow::DropFirst };
        let outbox = Outbox::new(bounds);
        let mut stream = outbox.attach();
        let question =
            Message::Request { id: crate::mcp::RequestId::number(1), method: Method::RootsList, params: Bytes::new() };
        for message in [question.clone(), log("1"), log("2")] {
            outbox.push(message);
        }
        assert_eq!(message(stream.next().await), Some(question.clone()));
        assert_eq!(message(stream.next().await), Some(log("2")));
        for _ in 0..3 {
            outbox.push(question.clone());
        }
        assert_eq!(stream.next().await, None);
    }

    #[tokio::test]
    async fn what_a_slow_client_can_do_without_goes_before_a_question() {
        let outbox = outbox(2, 8);
        let question =
            Message::Request { id: crate::mcp::RequestId::number(1), method: Method::RootsList, params: Bytes::new() };
        for message in [question.clone(), log("1"), log("2")] {
            outbox.push(message);
        }
        let mut stream = outbox.attach();
        assert_eq!(message(stream.next().await), Some(question));
        assert_eq!(message(stream.next().await), Some(log("2")));
    }
}
