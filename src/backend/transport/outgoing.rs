//! Messages that wait for a server that does not read: in order, bounded in number, each charged to its sender.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{Arc, Weak},
    task::{Poll, Waker},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::interface::{Exchange, TransportError};
use crate::support::{
    Account,
    memory::{Charge, Exhausted, Holding, Listed, Relief},
};

/// Maximum number of messages that wait for one connection; one sender may have half of them.
pub(super) const MAX_WAITING: usize = 1_024;

/// The sending end of a queue. The queue ends when the last clone is dropped.
pub(super) struct OutgoingSender(Arc<Mutex<OutgoingQueue>>);

/// The writing end. Dropping it drops all waiting messages.
pub(super) struct OutgoingReceiver(Arc<Mutex<OutgoingQueue>>);

#[derive(Default)]
struct OutgoingQueue {
    waiting: VecDeque<Arc<WaitingMessage>>,
    writer: Option<Waker>,
    senders: usize,
    /// True once the writing end is dropped.
    is_closed: bool,
}

/// A waiting message; empty once it was taken or dropped for its memory.
pub(super) struct WaitingMessage {
    content: Mutex<Option<MessageContent>>,
    account: Account,
    given_up: CancellationToken,
}

/// Text of a message, charged to its sender until it is dropped.
pub(super) struct MessageContent {
    pub(super) text: Bytes,
    _charge: Charge,
    _listed: Option<Listed>,
}

/// Why a message is not in the queue.
#[derive(Debug)]
pub(super) enum NotQueued {
    /// There is no memory for this text now.
    NoMemory(Bytes),
    Failed(TransportError),
}

/// A message in the queue. Dropping this removes the message, unless it was taken or detached.
pub(super) struct SentMessage {
    message: Arc<WaitingMessage>,
    /// True if it stays in the queue.
    is_detached: bool,
}

// === impl OutgoingSender ===

impl OutgoingSender {
    /// Creates an empty queue; returns both ends.
    pub(super) fn new() -> (Self, OutgoingReceiver) {
        let queue = Arc::new(Mutex::new(OutgoingQueue { senders: 1, ..OutgoingQueue::default() }));
        (Self(Arc::clone(&queue)), OutgoingReceiver(queue))
    }

    /// Adds a message of the sender with this account.
    ///
    /// # Errors
    ///
    /// If the connection is closed, the queue is full, or there is no memory now. The server does not receive the
    /// message.
    pub(super) fn send(&self, text: Bytes, account: &Account) -> Result<SentMessage, NotQueued> {
        match Charge::of(account.clone(), text.len()) {
            Ok(charge) => self.send_charged(text, charge).map_err(NotQueued::Failed),
            Err(Exhausted) => Err(NotQueued::NoMemory(text)),
        }
    }

    /// Adds a message that is already charged.
    ///
    /// # Errors
    ///
    /// If the connection is closed or the queue is full. The server does not receive the message.
    pub(super) fn send_charged(&self, text: Bytes, charge: Charge) -> Result<SentMessage, TransportError> {
        let (account, is_counted) = (charge.account().clone(), charge.is_counted());
        let message = Arc::new(WaitingMessage {
            content: Mutex::new(None),
            account: account.clone(),
            given_up: CancellationToken::new(),
        });
        let holding: Weak<WaitingMessage> = Arc::downgrade(&message);
        let listed = is_counted.then(|| account.list(holding));
        *message.content.lock() = Some(MessageContent { text, _charge: charge, _listed: listed });
        let mut queue = self.0.lock();
        if queue.is_closed {
            return Err(TransportError::Gone("the connection is closed".to_owned()));
        }
        if !queue.has_room_for(&account) {
            return Err(unavailable("it does not read, and too many messages wait for it"));
        }
        queue.add(Arc::clone(&message));
        Ok(SentMessage { message, is_detached: false })
    }

    /// Adds the rest of a message whose beginning has been written: it always has room, and is never dropped for its
    /// memory.
    pub(super) fn send_rest(&self, text: Bytes, account: &Account) {
        let charge = Charge::of(account.clone(), text.len()).unwrap_or_else(|_| Charge::nothing(account.clone()));
        let content = MessageContent { text, _charge: charge, _listed: None };
        let given_up = CancellationToken::new();
        let message = WaitingMessage { content: Mutex::new(Some(content)), account: account.clone(), given_up };
        self.0.lock().add(Arc::new(message));
    }
}

impl Clone for OutgoingSender {
    fn clone(&self) -> Self {
        self.0.lock().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl Drop for OutgoingSender {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.senders -= 1;
        let writer = if queue.senders == 0 { queue.writer.take() } else { None };
        drop(queue);
        if let Some(writer) = writer {
            writer.wake();
        }
    }
}

// === impl OutgoingReceiver ===

impl OutgoingReceiver {
    /// Waits for the next message, which may have been dropped in the meantime; `None` at the end. Cancel safe.
    pub(super) async fn next_place(&mut self) -> Option<Arc<WaitingMessage>> {
        poll_fn(|cx| {
            let mut queue = self.0.lock();
            match queue.waiting.pop_front() {
                Some(message) => Poll::Ready(Some(message)),
                None if queue.senders == 0 => Poll::Ready(None),
                None => {
                    queue.writer = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Waits for the next message that was not dropped; `None` at the end. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<MessageContent> {
        loop {
            if let Some(content) = self.next_place().await?.take() {
                return Some(content);
            }
        }
    }
}

impl Drop for OutgoingReceiver {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.is_closed = true;
        let dropped = std::mem::take(&mut queue.waiting);
        drop(queue);
        drop(dropped);
    }
}

// === impl OutgoingQueue ===

impl OutgoingQueue {
    fn add(&mut self, message: Arc<WaitingMessage>) {
        self.waiting.push_back(message);
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }

    fn has_room_for(&self, account: &Account) -> bool {
        let waiting = self.waiting.len();
        let own = || self.waiting.iter().filter(|message| message.account.is(account)).count();
        waiting < MAX_WAITING && (waiting < MAX_WAITING / 2 || own() < MAX_WAITING / 2)
    }
}

// === impl WaitingMessage ===

impl WaitingMessage {
    /// Takes the content; `None` if it was dropped.
    pub(super) fn take(&self) -> Option<MessageContent> {
        self.content.lock().take()
    }
}

impl Holding for WaitingMessage {
    fn give_up(&self, _: &Account, relief: Relief) {
        if relief == Relief::Calls
            && let Some(mut content) = self.content.try_lock()
        {
            let dropped = content.take();
            drop(content);
            if dropped.is_some() {
                self.given_up.cancel();
            }
        }
    }
}

/// The exchange of a request that was queued, or could not be. If there was no memory, it waits a moment until some is
/// freed, then sends the request with `later`, which returns `None` if the request was written at once.
pub(super) fn exchange<Later>(sent: Result<SentMessage, NotQueued>, account: &Account, later: Later) -> Exchange
where
    Later: FnOnce(Bytes, Charge) -> Result<Option<SentMessage>, TransportError> + Send + 'static,
{
    match sent {
        Ok(message) => Exchange::after(message.given_up()),
        Err(not_queued) => {
            let account = account.clone();
            Exchange::after(async move {
                let (text, charge) = not_queued.soon(account).await?;
                match later(text, charge)? {
                    Some(message) => message.given_up().await,
                    None => Ok(()),
                }
            })
        }
    }
}

// === impl NotQueued ===

impl From<TransportError> for NotQueued {
    fn from(error: TransportError) -> Self {
        Self::Failed(error)
    }
}

impl NotQueued {
    /// Waits a moment until memory is freed; returns the text and its charge.
    ///
    /// # Errors
    ///
    /// If there is still no memory, or memory was not the problem.
    pub(super) async fn soon(self, account: Account) -> Result<(Bytes, Charge), TransportError> {
        match self {
            Self::Failed(error) => Err(error),
            Self::NoMemory(text) => {
                let mut charge = Charge::nothing(account);
                charge.grow_soon(text.len()).await.map_err(|exhausted| unavailable(&exhausted.to_string()))?;
                Ok((text, charge))
            }
        }
    }
}

// === impl SentMessage ===

impl SentMessage {
    /// Waits until the message is dropped for its memory, which may never happen. Dropping the wait removes the message
    /// too.
    ///
    /// # Errors
    ///
    /// Always: the server does not receive the message.
    pub(super) async fn given_up(self) -> Result<(), TransportError> {
        self.message.given_up.cancelled().await;
        Err(unavailable(&Exhausted.to_string()))
    }

    /// Leaves the message in the queue, even if the sender stops waiting.
    pub(super) fn detach(mut self) {
        self.is_detached = true;
    }
}

impl Drop for SentMessage {
    fn drop(&mut self) {
        if !self.is_detached {
            drop(self.message.take());
        }
    }
}

fn unavailable(reason: &str) -> TransportError {
    TransportError::Unavailable { reason: reason.to_owned(), retry_after: None }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, StreamExt as _};

    use super::*;
    use crate::support::{MemoryBudget, memory::Claim};

    fn text(length: usize) -> Bytes {
        vec![b'x'; length].into()
    }

    #[tokio::test]
    async fn a_hostile_user_leaves_room_for_others_at_a_server_that_does_not_read() {
        let budget = MemoryBudget::new(8 << 20);
        let (hostile, ann) = (budget.user("hostile"), budget.user("ann"));
        let (sender, mut receiver) = OutgoingSender::new();
        let sent: Vec<_> = std::iter::from_fn(|| sender.send(text(1), &hostile).ok()).take(MAX_WAITING).collect();
        assert_eq!(sent.len(), MAX_WAITING / 2);
        let of_ann = sender.send(text(2), &ann).unwrap();
        drop(sent);
        let mut read = Vec::new();
        while let Some(Some(message)) = receiver.next().now_or_never() {
            read.push(message.text.len());
        }
        assert_eq!(read, [2], "what is given up is not written");
        drop(receiver);
        assert!(matches!(sender.send(text(1), &ann), Err(NotQueued::Failed(TransportError::Gone(_)))));
        assert!(of_ann.given_up().now_or_never().is_none());
    }

    #[tokio::test]
    async fn what_waits_is_charged_and_given_up_for_the_sake_of_others() {
        let budget = MemoryBudget::new(8 << 20);
        let (hostile, ann) = (budget.user("hostile"), budget.user("ann"));
        let (sender, mut receiver) = OutgoingSender::new();
        let first = sender.send(text(3 << 20), &hostile).unwrap();
        let second = sender.send(text(4 << 20), &hostile).unwrap();
        assert!(matches!(sender.send(text(1 << 20), &hostile), Err(NotQueued::NoMemory(_))));
        let of_ann = sender.send(text(2 << 20), &ann).unwrap();
        assert!(matches!(first.given_up().await, Err(TransportError::Unavailable { .. })));
        assert!(second.given_up().now_or_never().is_none(), "and with the wait it is gone");
        of_ann.detach();
        let mut read = Vec::new();
        while let Some(Some(message)) = receiver.next().now_or_never() {
            read.push(message.text.len());
        }
        assert_eq!((read, budget.in_use().held), (vec![2 << 20], 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_without_memory_waits_for_what_another_user_gives_back_and_the_hostile_one_does_not() {
        let budget = MemoryBudget::new(8 << 20);
        let (hostile, ann) = (budget.user("hostile"), budget.user("ann"));
        let (sender, mut receiver) = OutgoingSender::new();
        // held by something outside the queue, which ends soon
        let mut held = Claim::of(hostile.clone(), 7 << 20).unwrap();
        let request = |account: &Account, length| {
            let queue = sender.clone();
            let sent = queue.send(text(length), account);
            match exchange(sent, account, move |text, charge| queue.send_charged(text, charge).map(Some)) {
                Exchange::Own(messages) => messages,
                Exchange::Channel => panic!("it was not sent"),
            }
        };
        let mut of_hostile = request(&hostile, 2 << 20);
        assert!(matches!(of_hostile.next().await, Some(Err(TransportError::Unavailable { .. }))));
        let mut of_ann = request(&ann, 2 << 20);
        assert!(of_ann.next().now_or_never().is_none() && receiver.next().now_or_never().is_none());
        held.clear();
        assert!(of_ann.next().now_or_never().is_none());
        assert_eq!(receiver.next().await.map(|message| message.text.len()), Some(2 << 20));
        // if nothing is freed, it fails with the reason
        let _held = Claim::of(hostile, 7 << 20).unwrap();
        let mut late = request(&ann, 2 << 20);
        let Some(Err(error)) = late.next().await else { panic!("it is neither sent nor refused") };
        assert!(error.to_string().contains("memory"), "{error}");
    }
}
