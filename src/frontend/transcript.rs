//! What is said on the stream of one call, kept for readers that go and come back. Knows nothing of HTTP and of who says
//! it: a call is not slowed by a reader, and goes on without one.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use crate::mcp::{Message, Method, RequestId, json::Object};

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
    /// Whether the last reader was cut off.
    cut: bool,
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
    /// that nobody has read, oldest first. Where these are not enough the reader is cut off, and may come back; then other
    /// notifications go, oldest first, and questions together with their withdrawal. Open questions and answers are never
    /// dropped: their number is bounded elsewhere.
    pub(crate) fn push(&self, message: Message) {
        let mut inner = self.inner.lock();
        inner.last += 1;
        let (number, bytes) = (inner.last, message.payload_len());
        // the last message ends the stream: it cuts nobody off
        let cuts = !matches!(message, Message::Response { .. });
        inner.lines.push_back(Line { number, message, bytes });
        inner.held += bytes;
        while inner.is_over(self.bounds) && inner.make_room() {}
        if cuts && inner.is_behind(self.bounds) {
            inner.cut_off();
        }
        while inner.is_behind(self.bounds) && inner.shed() {}
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
        inner.cut = false;
        // what was given to the reader before did not all arrive
        inner.read = after.min(inner.last);
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
    fn is_over(&self, bounds: Bounds) -> bool {
        self.lines.len() > bounds.messages || self.held > bounds.bytes
    }

    /// Whether what nobody read is too much. One large message makes no slow reader: the newest is not weighed.
    fn is_behind(&self, bounds: Bounds) -> bool {
        let newest = self.lines.back().map_or(0, |line| line.bytes);
        self.lines.len() > bounds.messages || self.held - newest > bounds.bytes
    }

    fn cut_off(&mut self) {
        if !self.cut {
            metrics::counter!("lockkeeper_frontend_slow_streams_closed_total").increment(1);
            self.turn += 1;
            self.cut = true;
        }
    }

    /// Drops what a client can do without only where it has to: another notification, else a question that was withdrawn;
    /// `false` where there is neither.
    fn shed(&mut self) -> bool {
        let told = |line: &Line| match &line.message {
            Message::Notification { method, .. } => *method != Method::Cancelled,
            Message::Request { .. } | Message::Response { .. } => false,
        };
        if let Some(at) = self.lines.iter().position(told) {
            self.drop_line(at);
            return true;
        }
        let pair = self.lines.iter().enumerate().find_map(|(at, line)| {
            let id = withdrawn(&line.message)?;
            let asked = |line: &Line| matches!(&line.message, Message::Request { id: asked, .. } if *asked == id);
            Some((at, self.lines.iter().position(asked)?))
        });
        let Some((withdrawal, question)) = pair else { return false };
        self.drop_line(withdrawal.max(question));
        self.drop_line(withdrawal.min(question));
        true
    }

    fn drop_line(&mut self, at: usize) {
        if let Some(dropped) = self.lines.remove(at) {
            metrics::counter!("lockkeeper_frontend_messages_dropped_total").increment(1);
            self.held -= dropped.bytes;
        }
    }

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

/// The question that this message withdraws.
fn withdrawn(message: &Message) -> Option<RequestId> {
    let Message::Notification { method: Method::Cancelled, params } = message else { return None };
    let id = Object::parse(params)?.get("requestId")?.as_bytes().to_vec();
    RequestId::read(&id.into())
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

    #[tokio::test]
    async fn what_did_not_arrive_before_the_reader_came_back_is_not_taken_as_read() {
        let transcript = Transcript::new(BOUNDS);
        let mut reader = transcript.read_after(0);
        transcript.push(question());
        for text in ["2", "3"] {
            transcript.push(log(text));
        }
        while reader.next().now_or_never().flatten().is_some() {}
        let mut again = transcript.read_after(0);
        transcript.push(log("4"));
        assert_eq!(again.next().await, Some((1, question())), "it was written, and the connection broke");
        assert_eq!(again.next().await, Some((3, log("3"))));
    }

    #[tokio::test]
    async fn a_reader_that_leaves_too_much_is_cut_off_and_may_come_back() {
        let transcript = Transcript::new(BOUNDS);
        let mut slow = transcript.read_after(0);
        let told =
            |number| Message::Notification { method: Method::ToolsListChanged, params: Bytes::from(vec![number]) };
        transcript.push(question());
        for number in 0..50 {
            transcript.push(told(number));
        }
        assert_eq!(slow.next().await, None);
        let mut again = transcript.read_after(0);
        assert_eq!(again.next().await, Some((1, question())));
        assert_eq!(again.next().await, Some((50, told(48))));
        assert_eq!(again.next().await, Some((51, told(49))));
        transcript.push(log("x"));
        assert_eq!(again.next().await, Some((52, log("x"))), "who came back is served");
    }

    #[tokio::test]
    async fn questions_that_were_withdrawn_do_not_gather() {
        let transcript = Transcript::new(BOUNDS);
        for number in 0..50 {
            let id = RequestId::number(number);
            transcript.push(Message::Request { id, method: Method::RootsList, params: Bytes::new() });
            if number > 0 {
                let params = Bytes::from(format!(r#"{{"requestId":{number}}}"#));
                transcript.push(Message::Notification { method: Method::Cancelled, params });
            }
        }
        transcript.push(Message::result(RequestId::number(99), Bytes::from_static(b"{}")));
        transcript.finish();
        let (mut reader, mut said) = (transcript.read_after(0), Vec::new());
        while let Some((_, message)) = reader.next().await {
            said.push(message);
        }
        assert!(said.len() <= BOUNDS.messages, "{said:?}");
        let open = Message::Request { id: RequestId::number(0), method: Method::RootsList, params: Bytes::new() };
        assert_eq!(said.first(), Some(&open), "an open question stays");
        assert!(matches!(said.last(), Some(Message::Response { .. })), "and so does the answer");
    }

    #[tokio::test]
    async fn one_large_message_cuts_nobody_off() {
        let transcript = Transcript::new(Bounds { messages: 9, bytes: 10 });
        let mut reader = transcript.read_after(0);
        let large = Message::Notification { method: Method::ToolsListChanged, params: Bytes::from(vec![b' '; 99]) };
        transcript.push(large.clone());
        assert_eq!(reader.next().await, Some((1, large)));
        transcript.push(question());
        assert_eq!(reader.next().await, Some((2, question())));
    }
}
