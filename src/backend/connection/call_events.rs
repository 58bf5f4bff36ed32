//! Event queue of one open call, from the receiver of messages to the caller. Knows nothing of the events' content.
//!
//! Most calls have a single event, the end. It has its own place, so nothing is allocated for others.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;

use crate::mcp::Event;

/// Maximum number of events, with the end, that wait for a slow reader.
pub(super) const QUEUE: usize = 256;

/// The sending side. Dropping it ends the stream.
pub(super) struct EventSender(Arc<Mutex<EventQueue>>);

/// The reading side.
pub(super) struct EventReceiver(Arc<Mutex<EventQueue>>);

#[derive(Default)]
struct EventQueue {
    on_the_way: VecDeque<Event>,
    end: Option<Event>,
    is_over: bool,
    reader: Option<Waker>,
}

/// Creates both sides.
pub(super) fn call_events() -> (EventSender, EventReceiver) {
    let events = Arc::default();
    (EventSender(Arc::clone(&events)), EventReceiver(events))
}

// === impl EventSender ===

impl EventSender {
    /// Sends an event. Returns `false` if the queue is full.
    pub(super) fn send(&self, event: Event) -> bool {
        let mut events = self.0.lock();
        if events.on_the_way.len() + 1 >= QUEUE {
            return false;
        }
        events.on_the_way.push_back(event);
        let reader = events.reader.take();
        drop(events);
        reader.into_iter().for_each(Waker::wake);
        true
    }

    /// Sends the end, for which there is always space.
    pub(super) fn end(self, event: Event) {
        self.0.lock().end = Some(event);
    }
}

impl Drop for EventSender {
    fn drop(&mut self) {
        let mut events = self.0.lock();
        events.is_over = true;
        let reader = events.reader.take();
        drop(events);
        reader.into_iter().for_each(Waker::wake);
    }
}

// === impl EventReceiver ===

impl EventReceiver {
    /// Waits for the next event; `None` at the end. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Event> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The next event, if it has come.
    pub(super) fn ready(&mut self) -> Option<Event> {
        self.0.lock().take()
    }

    fn poll_next(&mut self, cx: &Context<'_>) -> Poll<Option<Event>> {
        let mut events = self.0.lock();
        let event = events.take();
        if event.is_some() || events.is_over {
            return Poll::Ready(event);
        }
        match &mut events.reader {
            Some(reader) => reader.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

// === impl EventQueue ===

impl EventQueue {
    fn take(&mut self) -> Option<Event> {
        self.on_the_way.pop_front().or_else(|| self.end.take())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::mcp::{Outcome, Payload, Revision};

    #[tokio::test]
    async fn the_reader_gets_each_event_and_the_end() {
        let done = || Event::Done(Outcome::Complete(Payload::empty(Revision::NEWEST_LEGACY)));
        let (sender, mut receiver) = call_events();
        assert!(receiver.next().now_or_never().is_none());
        let ((), heard) = tokio::join!(async { assert!(sender.send(done())) }, receiver.next());
        assert!(matches!(heard, Some(Event::Done(_))));
        let ((), heard) = tokio::join!(async { drop(sender) }, receiver.next());
        assert!(heard.is_none());
    }
}
