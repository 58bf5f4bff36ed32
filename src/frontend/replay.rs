//! Replay log: the queue of messages for a client's streams, and the last messages of each stream for resumption
//! (2025-03-26 to 2025-11-25, transports, *Resumability and Redelivery*). One buffer holds the answer to one call, or
//! the messages for a session's standalone streams. A slow reader does not delay others.
//!
//! If several streams are open, only the newest gets messages (*Multiple Connections*: no message may go to two). While
//! no stream is open, messages wait. A resumed stream repeats only its own messages.

pub(crate) mod event_id;
mod log;
pub(crate) mod streams;
#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::Notify, time::Instant};

use self::log::ReplayLog;
use crate::{
    mcp::{ErrorObject, Message, Method, RequestId, json::Object},
    support::{
        Account,
        byte_queue::Bounds,
        memory::{Holder, Holding, Relief},
    },
};

/// A bounded queue of messages, and a log of messages already sent.
#[derive(Debug)]
pub(crate) struct ReplayBuffer {
    own: Weak<Self>,
    inner: Mutex<Inner>,
    changed: Notify,
    limits: Limits,
    /// The account of the user.
    account: Account,
}

/// Limits of a buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limits {
    /// The answer to one call, which has one reader. A later reader replaces it.
    Call(Bounds),
    /// The standalone streams of a session.
    Standalone {
        /// Maximum of waiting messages. Their bytes count only for unsolicited messages, and one message always fits.
        waiting: Bounds,
        /// Maximum number of open streams. One more closes the oldest.
        streams: usize,
        /// Maximum of sent messages to keep.
        replay: Bounds,
        /// What to drop when the queue is full.
        overflow: Overflow,
    },
}

/// Policy for standalone streams that are too slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// Drops the oldest dispensable message, or else the oldest notification, or as a last resort a server request.
    /// Also closes the slow stream, because the client reconnects.
    CloseStream,
    /// Drops the oldest dispensable message. If there is none, closes the stream, which ends the session.
    DropFirst,
}

/// An open stream. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct ReplayReader {
    buffer: Arc<ReplayBuffer>,
    open: OpenStream,
    /// Number of the last message that was sent, or that counts as sent.
    after: u64,
}

/// A stream and its connection. A resumed stream has another connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OpenStream {
    stream: u64,
    connection: u64,
}

#[derive(Debug, Default)]
struct Inner {
    log: ReplayLog,
    /// Oldest first.
    readers: VecDeque<OpenStream>,
    last_stream: u64,
    last_connection: u64,
    ended_at: Option<Instant>,
    /// Number of the newest sent message that was dropped to free memory. A stream cannot be resumed before it.
    given_up: u64,
}

/// State of the log for a reader.
enum ReadOutcome {
    Message(u64, Message),
    Nothing,
    End,
}

/// The limit that a queue has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shortage {
    Places,
    Bytes,
}

// === impl ReplayBuffer ===

impl ReplayBuffer {
    /// Creates an empty buffer.
    pub(crate) fn new(limits: Limits, account: Account) -> Arc<Self> {
        let (inner, changed) = (Mutex::default(), Notify::new());
        Arc::new_cyclic(|own| Self { own: Weak::clone(own), inner, changed, limits, account })
    }

    /// Adds a message, charged to the user.
    pub(crate) fn push(&self, message: Message) {
        self.push_by(message, &self.account);
    }

    /// Adds a message, charged to `payer`: for an unsolicited message, the server that wrote it. If memory is short, an
    /// answer is replaced by an error, and any other message is dropped.
    pub(crate) fn push_by(&self, message: Message, payer: &Account) {
        let mut inner = self.inner.lock();
        match self.limits {
            Limits::Call(bounds) => inner.push_to_call(message, bounds, |log, message| self.add(log, message, payer)),
            Limits::Standalone { waiting, overflow, .. } => {
                inner.make_room(&message, waiting, overflow);
                self.add(&mut inner.log, message, payer);
            }
        }
        drop(inner);
        self.changed.notify_waiters();
    }

    fn add(&self, log: &mut ReplayLog, message: Message, payer: &Account) {
        let instead = match &message {
            Message::Response { id: Some(id), .. } => Some(Message::error(id.clone(), ErrorObject::out_of_memory())),
            _ => None,
        };
        let own = || -> Weak<dyn Holding> { Weak::<Self>::clone(&self.own) };
        if log.push(message, payer, own).is_err() {
            match instead {
                Some(error) => log.push_free(error),
                None => metrics::counter!("lockkeeper_frontend_messages_dropped_total").increment(1),
            }
        }
    }

    pub(crate) fn finish(&self) {
        self.inner.lock().ended_at = Some(Instant::now());
        self.changed.notify_waiters();
    }

    /// Opens a stream, which gets all messages from now on.
    pub(crate) fn attach(self: &Arc<Self>) -> ReplayReader {
        let mut inner = self.inner.lock();
        inner.last_stream += 1;
        let (stream, after) = (inner.last_stream, inner.log.last_taken());
        self.connect(inner, stream, after)
    }

    /// Resumes `stream` after its message `after`, on another connection; `None` if this stream never existed.
    pub(crate) fn resume(self: &Arc<Self>, stream: u64, after: u64) -> Option<ReplayReader> {
        let mut inner = self.inner.lock();
        let is_given_up = matches!(self.limits, Limits::Call(_)) && after < inner.given_up;
        if stream == 0 || stream > inner.last_stream || is_given_up {
            return None;
        }
        inner.readers.retain(|open| open.stream != stream);
        if let Limits::Call(_) = self.limits {
            // messages after `after` may not have arrived, so they are kept longest
            inner.log.untake(after);
        }
        Some(self.connect(inner, stream, after))
    }

    /// Number of open streams.
    pub(crate) fn open_streams(&self) -> usize {
        self.inner.lock().readers.len()
    }

    /// The time when the buffer ended; `None` before.
    pub(crate) fn ended_at(&self) -> Option<Instant> {
        self.inner.lock().ended_at
    }

    /// True if the buffer has ended and no message follows this one.
    pub(crate) fn is_over_after(&self, number: u64) -> bool {
        let inner = self.inner.lock();
        inner.ended_at.is_some() && inner.log.last_kept().max(inner.given_up) <= number
    }

    /// The messages that wait for a stream.
    pub(crate) fn waiting(&self) -> Bounds {
        self.inner.lock().log.waiting()
    }

    /// Size of all messages in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.inner.lock().log.bytes()
    }

    fn connect(self: &Arc<Self>, mut inner: MutexGuard<'_, Inner>, stream: u64, after: u64) -> ReplayReader {
        inner.last_connection += 1;
        let open = OpenStream { stream, connection: inner.last_connection };
        inner.readers.push_back(open);
        let max = match self.limits {
            Limits::Call(_) => 1,
            Limits::Standalone { streams, .. } => streams,
        };
        if inner.readers.len() > max {
            inner.readers.pop_front();
        }
        drop(inner);
        self.changed.notify_waiters();
        ReplayReader { buffer: Arc::clone(self), open, after }
    }

    fn next(&self, open: OpenStream, after: u64) -> ReadOutcome {
        let mut inner = self.inner.lock();
        if !inner.readers.contains(&open) {
            return ReadOutcome::End;
        }
        if let Some((number, message)) = inner.log.taken_by(open.stream, after) {
            return ReadOutcome::Message(number, message);
        }
        let newest = inner.readers.back() == Some(&open);
        match if newest { inner.log.take(open.stream) } else { None } {
            Some((number, message)) => {
                if let Limits::Standalone { replay, .. } = self.limits {
                    inner.log.forget_beyond(replay);
                }
                ReadOutcome::Message(number, message)
            }
            None if inner.ended_at.is_some() => ReadOutcome::End,
            None => ReadOutcome::Nothing,
        }
    }
}

impl Holding for ReplayBuffer {
    fn give_up(&self, account: &Account, relief: Relief) {
        // a stream that is in use right now is skipped
        let Some(mut inner) = self.inner.try_lock() else { return };
        match relief {
            Relief::Replay => {
                let newest = inner.log.forget_sent(account);
                inner.given_up = inner.given_up.max(newest.unwrap_or_default());
            }
            Relief::Notifications => {
                let dropped = inner.log.drop_paid(account, |message| !is_shed(message));
                metrics::counter!("lockkeeper_frontend_messages_dropped_total").increment(dropped as u64);
            }
            // a server must not cause its readers to lose their streams
            Relief::Streams if matches!(account.holder(), Holder::Server(_)) => {
                let dropped = inner.log.drop_paid(account, |_| false);
                metrics::counter!("lockkeeper_frontend_messages_dropped_total").increment(dropped as u64);
            }
            Relief::Streams => {
                if inner.log.drop_paid(account, |_| false) > 0 {
                    inner.given_up = inner.log.last();
                    metrics::counter!("lockkeeper_frontend_slow_streams_closed_total")
                        .increment(inner.readers.len() as u64);
                    inner.readers.clear();
                }
            }
            Relief::Lists | Relief::Calls => return,
        }
        drop(inner);
        self.changed.notify_waiters();
    }
}

// === impl Inner ===

impl Inner {
    /// Adds a message of a call. If the buffer is full, the first to go are sent messages, then waiting progress and
    /// log messages, the oldest first. If that is not enough, the reader is disconnected and may resume. Then other
    /// notifications go, the oldest first, and server requests together with their cancellation. Open requests and
    /// answers are never dropped, because other limits bound their number.
    fn push_to_call(&mut self, message: Message, bounds: Bounds, add: impl FnOnce(&mut ReplayLog, Message)) {
        // the last message ends the stream anyway, so it need not be disconnected
        let cuts = !matches!(message, Message::Response { .. });
        add(&mut self.log, message);
        while self.log.exceeds(bounds) && (self.log.forget_first() || self.drop_waiting(may_be_dropped)) {}
        if cuts && self.log.is_behind(bounds) {
            self.close_newest();
        }
        while self.log.is_behind(bounds) && (self.drop_waiting(is_shed) || self.drop_withdrawn()) {}
    }

    /// Makes room for a message of the standalone streams. A `list_changed`, or an update of the same resource,
    /// replaces one that is waiting.
    fn make_room(&mut self, message: &Message, max: Bounds, overflow: Overflow) {
        if coalesces(message) {
            self.log.retain_waiting(|waiting| waiting != message);
        }
        let mut closes = false;
        while let Some(shortage) = self.shortage(message, max) {
            let is_spared = self.drop_waiting(may_be_dropped);
            closes |= !is_spared || overflow == Overflow::CloseStream;
            let has_dropped = is_spared
                || self.drop_waiting(is_notification)
                || self.drop_waiting(|waiting| shortage == Shortage::Places || is_unasked(waiting));
            if !has_dropped {
                break;
            }
        }
        if closes {
            self.close_newest();
        }
    }

    /// The limit that keeps another message out; `None` if there is room.
    fn shortage(&self, message: &Message, max: Bounds) -> Option<Shortage> {
        let waiting = self.log.waiting();
        if waiting.messages >= max.messages {
            return Some(Shortage::Places);
        }
        let length = message.payload_len();
        if !is_unasked(message) || waiting.bytes + length <= max.bytes {
            return None;
        }
        let unasked = self.log.waiting_bytes(is_unasked);
        (unasked > 0 && unasked + length > max.bytes).then_some(Shortage::Bytes)
    }

    /// Drops the oldest waiting message that is `dispensable`; `false` if there is none.
    fn drop_waiting(&mut self, dispensable: impl Fn(&Message) -> bool) -> bool {
        let Some(at) = self.log.find_waiting(dispensable) else { return false };
        self.log.remove(at);
        metrics::counter!("lockkeeper_frontend_messages_dropped_total").increment(1);
        true
    }

    /// Drops a cancelled server request together with its cancellation; `false` if there is none.
    fn drop_withdrawn(&mut self) -> bool {
        let withdrawn = self.log.find_map(|message| {
            let id = withdrawn(message)?;
            let asks = |message: &Message| matches!(message, Message::Request { id: asked, .. } if *asked == id);
            Some(self.log.find_map(|message| asks(message).then_some(()))?.0)
        });
        let Some((withdrawal, question)) = withdrawn else { return false };
        self.log.remove(withdrawal.max(question));
        self.log.remove(withdrawal.min(question));
        metrics::counter!("lockkeeper_frontend_messages_dropped_total").increment(2);
        true
    }

    fn close_newest(&mut self) {
        if self.readers.pop_back().is_some() {
            metrics::counter!("lockkeeper_frontend_slow_streams_closed_total").increment(1);
        }
    }
}

// === impl ReplayReader ===

impl ReplayReader {
    /// The account of the user.
    pub(crate) fn account(&self) -> &Account {
        &self.buffer.account
    }

    /// Number of the stream in its buffer.
    pub(crate) const fn stream(&self) -> u64 {
        self.open.stream
    }

    /// Number of the last message that was sent, or that counts as sent.
    pub(crate) const fn after(&self) -> u64 {
        self.after
    }

    /// The next message and its number; `None` at the end, or if the stream must close. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<(u64, Message)> {
        loop {
            let changed = self.buffer.changed.notified();
            tokio::pin!(changed);
            // from here on, no change is missed
            changed.as_mut().enable();
            match self.buffer.next(self.open, self.after) {
                ReadOutcome::Message(number, message) => {
                    self.after = number;
                    return Some((number, message));
                }
                ReadOutcome::End => return None,
                ReadOutcome::Nothing => changed.await,
            }
        }
    }
}

impl Drop for ReplayReader {
    fn drop(&mut self) {
        self.buffer.inner.lock().readers.retain(|open| *open != self.open);
        self.buffer.changed.notify_waiters();
    }
}

/// The server request that this message cancels.
fn withdrawn(message: &Message) -> Option<RequestId> {
    let Message::Notification { method: Method::Cancelled, params } = message else { return None };
    let id = Object::parse(params)?.get("requestId")?.as_bytes().to_vec();
    RequestId::read(&id.into())
}

/// True for a message that a slow client can miss, because a later one replaces it.
fn may_be_dropped(message: &Message) -> bool {
    matches!(message, Message::Notification { method: Method::Progress | Method::LoggingMessage, .. })
}

/// True for a message that is not an answer.
fn is_unasked(message: &Message) -> bool {
    !matches!(message, Message::Response { .. })
}

fn is_notification(message: &Message) -> bool {
    matches!(message, Message::Notification { .. })
}

/// True for a message that is dropped from the answer to a call only as a last resort.
fn is_shed(message: &Message) -> bool {
    matches!(message, Message::Notification { method, .. } if *method != Method::Cancelled)
}

/// True for a message that means nothing new if it is repeated.
fn coalesces(message: &Message) -> bool {
    let Message::Notification { method, .. } = message else { return false };
    matches!(
        method,
        Method::ToolsListChanged | Method::PromptsListChanged | Method::ResourcesListChanged | Method::ResourceUpdated
    )
}
