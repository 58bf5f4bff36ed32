//! A queue for one reader, bounded in messages and bytes, whose content is charged to one account. Writers never wait:
//! they get back what does not fit.
//!
//! Most queues have a single item, the last. It has its own place, so such a queue allocates nothing.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{Arc, Weak},
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;

use super::memory::{Account, Charge, Holding, Listed, Relief};

/// A number of messages and of bytes.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Number of messages.
    pub messages: usize,
    /// Number of bytes.
    pub bytes: usize,
}

/// An item of a queue.
pub trait Queued: Send + 'static {
    /// The bytes that it holds.
    fn weight(&self) -> usize;

    /// True if the reader can do without it.
    fn is_dispensable(&self) -> bool;

    /// The last item of a queue whose content was dropped to free memory; `None` if the reader need not know.
    fn exhausted() -> Option<Self>
    where
        Self: Sized;
}

/// The writing side. The queue ends when its last clone is dropped.
pub struct QueueSender<T: Queued>(Arc<Mutex<Content<T>>>);

/// The reading side. Dropping it drops everything.
pub struct QueueReceiver<T: Queued>(Arc<Mutex<Content<T>>>);

struct Content<T> {
    /// Each with its charged bytes.
    items: VecDeque<(T, usize)>,
    last: Option<(T, usize)>,
    bounds: Bounds,
    charge: Charge,
    listed: Option<Listed>,
    senders: usize,
    /// True if nothing more may be added.
    is_closed: bool,
    reader: Option<Waker>,
}

pub fn byte_queue<T: Queued>(bounds: Bounds, account: Account) -> (QueueSender<T>, QueueReceiver<T>) {
    let content = Arc::new(Mutex::new(Content {
        items: VecDeque::new(),
        last: None,
        bounds,
        charge: Charge::nothing(account),
        listed: None,
        senders: 1,
        is_closed: false,
        reader: None,
    }));
    (QueueSender(Arc::clone(&content)), QueueReceiver(content))
}

// === impl QueueSender ===

impl<T: Queued> QueueSender<T> {
    /// Adds an item. One item of any size always fits, if there is memory for it.
    ///
    /// # Errors
    ///
    /// Returns the item if there is no space or no reader.
    pub fn send(&self, item: T) -> Result<(), T> {
        let mut content = self.0.lock();
        let weight = item.weight();
        if content.is_closed || !content.has_room(weight) || !self.charge(&mut content, weight) {
            return Err(item);
        }
        content.items.push_back((item, weight));
        wake(content.reader.take());
        Ok(())
    }

    /// Adds the last item, which always has a place. If memory is short, the reader gets [`Queued::exhausted`].
    pub fn finish(self, item: T) {
        let mut content = self.0.lock();
        if content.is_closed {
            return;
        }
        content.is_closed = true;
        let weight = item.weight();
        let has_memory = self.charge(&mut content, weight);
        content.last = if has_memory { Some((item, weight)) } else { T::exhausted().map(|end| (end, 0)) };
    }

    /// True if there is no reader.
    pub fn is_closed(&self) -> bool {
        self.0.lock().is_closed
    }

    fn charge(&self, content: &mut Content<T>, weight: usize) -> bool {
        if content.charge.grow(weight).is_err() {
            return false;
        }
        if content.listed.is_none() && content.charge.is_counted() {
            let holding: Weak<Mutex<Content<T>>> = Arc::downgrade(&self.0);
            content.listed = Some(content.charge.account().list(holding));
        }
        true
    }
}

impl<T: Queued> Clone for QueueSender<T> {
    fn clone(&self) -> Self {
        self.0.lock().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T: Queued> Drop for QueueSender<T> {
    fn drop(&mut self) {
        let mut content = self.0.lock();
        content.senders -= 1;
        let reader = if content.senders == 0 { content.reader.take() } else { None };
        drop(content);
        wake(reader);
    }
}

// === impl QueueReceiver ===

impl<T: Queued> QueueReceiver<T> {
    /// Waits for the next item; `None` at the end. Cancel safe.
    pub async fn next(&mut self) -> Option<T> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The next item, if it is there.
    pub fn ready(&mut self) -> Option<T> {
        self.0.lock().take()
    }

    /// The same as [`Self::next`], for code that polls.
    pub fn poll_next(&mut self, cx: &Context<'_>) -> Poll<Option<T>> {
        let mut content = self.0.lock();
        let item = content.take();
        if item.is_some() || content.senders == 0 {
            return Poll::Ready(item);
        }
        match &mut content.reader {
            Some(reader) => reader.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl<T: Queued> QueueReceiver<T> {
    /// Drops the queued items; nothing more is added.
    pub fn close(&self) {
        let mut content = self.0.lock();
        content.is_closed = true;
        let dropped = (std::mem::take(&mut content.items), content.last.take(), content.listed.take());
        content.charge.clear();
        drop(content);
        drop(dropped);
    }
}

impl<T: Queued> Drop for QueueReceiver<T> {
    fn drop(&mut self) {
        self.close();
    }
}

// === impl Content ===

impl<T: Queued> Content<T> {
    fn has_room(&self, weight: usize) -> bool {
        let (messages, bytes) = (self.items.len(), self.charge.bytes());
        messages < self.bounds.messages && (messages == 0 || bytes + weight <= self.bounds.bytes)
    }

    fn take(&mut self) -> Option<T> {
        let (item, weight) = self.items.pop_front().or_else(|| self.last.take())?;
        self.charge.shrink(weight);
        Some(item)
    }
}

impl<T: Queued> Holding for Mutex<Content<T>> {
    fn give_up(&self, _: &Account, relief: Relief) {
        // a queue in use right now is skipped
        let Some(mut content) = self.try_lock() else { return };
        let dropped: VecDeque<(T, usize)> = match (relief, T::exhausted()) {
            (Relief::Notifications, _) => {
                let items = std::mem::take(&mut content.items).into_iter();
                let (dropped, kept) = items.partition(|(item, _)| item.is_dispensable());
                content.items = kept;
                dropped
            }
            (Relief::Calls, Some(end)) => {
                content.is_closed = true;
                let dropped = std::mem::take(&mut content.items).into_iter().chain(content.last.take()).collect();
                content.last = Some((end, 0));
                dropped
            }
            _ => VecDeque::new(),
        };
        content.charge.shrink(dropped.iter().map(|(_, weight)| weight).sum());
        let reader = if content.is_closed { content.reader.take() } else { None };
        drop(content);
        drop(dropped);
        wake(reader);
    }
}

fn wake(reader: Option<Waker>) {
    if let Some(reader) = reader {
        reader.wake();
    }
}
