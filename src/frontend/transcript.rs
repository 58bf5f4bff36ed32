//! What is said on the stream of one call, kept for readers that go and come back. Knows nothing of HTTP and of who says
//! it: a call is not slowed by a reader, and goes on without one.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use crate::mcp::{Message, Method};

/// The messages of one stream, numbered from 1.
#[derive(Debug)]
pub(crate) struct Transcript {
    inner: Mutex<Inner>,
    changed: Notify,
    bounds: Bounds,
}

/// How much a transcript keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Messages.
    pub(crate) messages: usize,
    /// Bytes of them.
    pub(crate) bytes: usize,
}

/// Who reads a transcript. One alone does: a later one takes its place.
#[derive(Debug)]
pub(crate) struct Reader {
    transcript: Arc<Transcript>,
    turn: u64,
    next: u64,
}

#[derive(Debug, Default)]
struct Inner {
    lines: VecDeque<Line>,
    /// The bytes of them.
    held: usize,
    last: u64,
    /// The number of the last message that was read.
    read: u64,
    turn: u64,
    over: Option<Instant>,
}

#[derive(Debug)]
struct Line {
    number: u64,
    message: Message,
    bytes: usize,
}

/// What a reader finds when it looks.
enum Look {
    Found(u64, Message),
    Nothing,
    End,
}

// === impl Transcript ===

impl Transcript {
    /// An empty transcript.
    pub(crate) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), changed: Notify::new(), bounds })
    }

    /// Adds a message. Where there is no room, what was read already is forgotten first; then progress and log messages
    /// that nobody has read, oldest first. Questions and answers are never dropped: their number is bounded elsewhere.
    pub(crate) fn push(&self, message: Message) {
        let mut inner = self.inner.lock();
        inner.last += 1;
        let (number, bytes) = (inner.last, message.payload_len());
        inner.lines.push_back(Line { number, message, bytes });
        inner.held += bytes;
        while (inner.lines.len() > self.bounds.messages || inner.held > self.bounds.bytes) && inner.make_room() {}
        drop(inner);
        self.changed.notify_waiters();
    }

    /// Nothing follows.
    pub(crate) fn finish(&self) {
        self.inner.lock().over = Some(Instant::now());
        self.changed.notify_waiters();
    }

    /// Reads what follows the message `after`; whoever read before has its end.
    pub(crate) fn read_after(self: &Arc<Self>, after: u64) -> Reader {
        let mut inner = self.inner.lock();
        inner.turn += 1;
        let turn = inner.turn;
        drop(inner);
        self.changed.notify_waiters();
        Reader { transcript: Arc::clone(self), turn, next: after.saturating_add(1) }
    }

    /// When the last message came; `None` while more may come.
    pub(crate) fn over_since(&self) -> Option<Instant> {
        self.inner.lock().over
    }

    /// How many bytes it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.inner.lock().held
    }

    fn look(&self, turn: u64, next: u64) -> Look {
        let mut inner = self.inner.lock();
        if inner.turn != turn {
            return Look::End;
        }
        let at = inner.lines.partition_point(|line| line.number < next);
        let found = inner.lines.get(at).map(|line| (line.number, line.message.clone()));
        match found {
            Some((number, message)) => {
                inner.read = inner.read.max(number);
                Look::Found(number, message)
            }
            None if inner.over.is_some() => Look::End,
            None => Look::Nothing,
        }
    }
}

// === impl Inner ===

impl Inner {
    /// Forgets one message; `false` where none may be forgotten.
    fn make_room(&mut self) -> bool {
        let read = self.lines.front().is_some_and(|line| line.number <= self.read);
        let at = if read { Some(0) } else { self.lines.iter().position(|line| may_be_dropped(&line.message)) };
        let Some(dropped) = at.and_then(|at| self.lines.remove(at)) else { return false };
        if !read {
            metrics::counter!("lockkeeper_frontend_messages_dropped_total").increment(1);
        }
        self.held -= dropped.bytes;
        true
    }
}

// === impl Reader ===

impl Reader {
    /// The number of the last message that was read, or is taken as read.
    pub(crate) const fn read(&self) -> u64 {
        self.next - 1
    }

    /// The next message and its number; `None` where nothing follows, or another reads now. Nothing is lost when the wait
    /// is dropped.
    pub(crate) async fn next(&mut self) -> Option<(u64, Message)> {
        loop {
            let changed = self.transcript.changed.notified();
            tokio::pin!(changed);
            // from here on no change goes unnoticed
            changed.as_mut().enable();
            match self.transcript.look(self.turn, self.next) {
                Look::Found(number, message) => {
                    self.next = number + 1;
                    return Some((number, message));
                }
                Look::End => return None,
                Look::Nothing => changed.await,
            }
        }
    }
}

/// Whether a client that is too slow can do without it: it tells how things are, and a later one tells it better.
pub(crate) fn may_be_dropped(message: &Message) -> bool {
    let Message::Notification { method, .. } = message else { return false };
    matches!(method, Method::Progress | Method::LoggingMessage)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::FutureExt as _;

    use super::*;
    use crate::mcp::RequestId;

    const BOUNDS: Bounds = Bounds { messages: 3, bytes: 1_000 };

    fn log(text: &'static str) -> Message {
        Message::Notification { method: Method::LoggingMessage, params: Bytes::from_static(text.as_bytes()) }
    }

    fn question() -> Message {
        Message::Request { id: RequestId::number(1), method: Method::RootsList, params: Bytes::new() }
    }

    #[tokio::test]
    async fn a_reader_that_comes_back_gets_the_rest_and_no_message_twice() {
        let transcript = Transcript::new(BOUNDS);
        let mut first = transcript.read_after(0);
        transcript.push(log("1"));
        transcript.push(log("2"));
        assert_eq!(first.next().await, Some((1, log("1"))));
        let mut second = transcript.read_after(1);
        assert_eq!(first.next().await, None, "another reads now");
        assert_eq!(second.next().await, Some((2, log("2"))));
        assert_eq!(second.next().now_or_never(), None);
        transcript.push(log("3"));
        transcript.finish();
        assert_eq!(second.next().await, Some((3, log("3"))));
        assert_eq!(second.next().await, None);
        assert_eq!(transcript.read_after(2).next().await, Some((3, log("3"))));
    }

    #[tokio::test]
    async fn without_room_what_was_read_goes_first_and_questions_stay() {
        let transcript = Transcript::new(BOUNDS);
        let mut reader = transcript.read_after(0);
        for text in ["1", "2"] {
            transcript.push(log(text));
        }
        reader.next().await;
        transcript.push(question());
        transcript.push(question());
        assert_eq!(transcript.read_after(0).next().await, Some((2, log("2"))));
        for _ in 0..3 {
            transcript.push(question());
        }
        let mut reader = transcript.read_after(2);
        for number in 3..=7 {
            assert_eq!(reader.next().await.map(|(number, _)| number), Some(number));
        }
    }

    #[tokio::test]
    async fn bytes_are_bounded_too() {
        let transcript = Transcript::new(Bounds { messages: 100, bytes: 10 });
        for _ in 0..4 {
            transcript.push(log("123456"));
        }
        assert!(transcript.bytes() <= 10);
        assert_eq!(transcript.read_after(0).next().await, Some((4, log("123456"))));
    }
}
