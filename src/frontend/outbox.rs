//! What waits for the standalone streams of one session: a bounded queue, and the streams that may take from it. Knows
//! nothing of HTTP.
//!
//! Of several open streams the newest alone takes messages (2025-03-26 to 2025-11-25, transports, *Multiple
//! Connections*: no message goes to two). While none is open messages wait; what would be said twice is said once.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::mcp::{Message, Method};

/// The queue of one session and its open streams.
#[derive(Debug)]
pub(crate) struct Outbox {
    inner: Mutex<Inner>,
    changed: Notify,
    most_waiting: usize,
    most_streams: usize,
}

/// One open stream. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct Attached {
    outbox: Arc<Outbox>,
    serial: u64,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<Message>,
    /// The serials of the open streams, oldest first.
    streams: VecDeque<u64>,
    last: u64,
}

/// What a stream finds when it looks.
enum Look {
    Took(Message),
    Nothing,
    Closed,
}

// === impl Outbox ===

impl Outbox {
    /// An empty outbox for at most `most_waiting` messages and `most_streams` streams.
    pub(crate) fn new(most_waiting: usize, most_streams: usize) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), changed: Notify::new(), most_waiting, most_streams })
    }

    /// Puts `message` in the queue. A `list_changed`, and an update of the same resource, takes the place of one that
    /// still waits. Where the queue is full the oldest message is dropped, and the stream that let it fill is closed.
    pub(crate) fn push(&self, message: Message) {
        let mut inner = self.inner.lock();
        if coalesces(&message) {
            inner.waiting.retain(|waiting| *waiting != message);
        }
        if inner.waiting.len() >= self.most_waiting {
            inner.waiting.pop_front();
            metrics::counter!("lockkeeper_frontend_messages_dropped_total").increment(1);
            if inner.streams.pop_back().is_some() {
                metrics::counter!("lockkeeper_frontend_slow_streams_closed_total").increment(1);
            }
        }
        inner.waiting.push_back(message);
        drop(inner);
        self.changed.notify_waiters();
    }

    /// Opens a stream, which takes the messages from now on. Where there are too many, the oldest is closed.
    pub(crate) fn attach(self: &Arc<Self>) -> Attached {
        let mut inner = self.inner.lock();
        inner.last += 1;
        let serial = inner.last;
        inner.streams.push_back(serial);
        if inner.streams.len() > self.most_streams {
            inner.streams.pop_front();
        }
        drop(inner);
        self.changed.notify_waiters();
        Attached { outbox: Arc::clone(self), serial }
    }

    /// How many streams are open.
    pub(crate) fn streams(&self) -> usize {
        self.inner.lock().streams.len()
    }

    fn look(&self, serial: u64) -> Look {
        let mut inner = self.inner.lock();
        if !inner.streams.contains(&serial) {
            return Look::Closed;
        }
        if inner.streams.back() != Some(&serial) {
            return Look::Nothing;
        }
        inner.waiting.pop_front().map_or(Look::Nothing, Look::Took)
    }
}

// === impl Attached ===

impl Attached {
    /// The next message; `None` where the stream is to be closed. Nothing is lost when the wait is dropped.
    pub(crate) async fn next(&self) -> Option<Message> {
        loop {
            let changed = self.outbox.changed.notified();
            tokio::pin!(changed);
            // from here on no change goes unnoticed
            changed.as_mut().enable();
            match self.outbox.look(self.serial) {
                Look::Took(message) => return Some(message),
                Look::Closed => return None,
                Look::Nothing => changed.await,
            }
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.outbox.inner.lock().streams.retain(|serial| *serial != self.serial);
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

    fn told(method: Method, params: &'static str) -> Message {
        Message::Notification { method, params: Bytes::from_static(params.as_bytes()) }
    }

    fn log(params: &'static str) -> Message {
        told(Method::LoggingMessage, params)
    }

    #[tokio::test]
    async fn what_would_be_said_twice_is_said_once() {
        let outbox = Outbox::new(8, 8);
        let updated = |uri| told(Method::ResourceUpdated, uri);
        for message in
            [updated("1"), told(Method::ToolsListChanged, ""), updated("2"), updated("1"), log("x"), log("x")]
        {
            outbox.push(message);
        }
        let stream = outbox.attach();
        for expected in [told(Method::ToolsListChanged, ""), updated("2"), updated("1"), log("x"), log("x")] {
            assert_eq!(stream.next().await, Some(expected));
        }
        assert_eq!(stream.next().now_or_never(), None);
    }

    #[tokio::test]
    async fn the_newest_stream_takes_the_messages_and_the_one_before_it_goes_on_when_it_closes() {
        let outbox = Outbox::new(8, 8);
        let (old, new) = (outbox.attach(), outbox.attach());
        outbox.push(log("1"));
        assert_eq!(old.next().now_or_never(), None);
        assert_eq!(new.next().await, Some(log("1")));
        drop(new);
        outbox.push(log("2"));
        assert_eq!(old.next().await, Some(log("2")));
    }

    #[tokio::test]
    async fn a_stream_whose_reader_is_too_slow_is_closed() {
        let outbox = Outbox::new(2, 8);
        let slow = outbox.attach();
        for params in ["1", "2", "3"] {
            outbox.push(log(params));
        }
        assert_eq!(slow.next().await, None);
        assert_eq!(outbox.attach().next().await, Some(log("2")));
    }

    #[tokio::test]
    async fn streams_are_bounded() {
        let outbox = Outbox::new(2, 2);
        let streams = [outbox.attach(), outbox.attach(), outbox.attach()];
        assert_eq!(streams[0].next().await, None);
        assert_eq!(outbox.streams(), 2);
    }
}
