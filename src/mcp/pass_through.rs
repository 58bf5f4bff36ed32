//! A reply that passes unchanged until a [`Takeover`] replaces the rest of it.

use std::{
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::Stream;

use super::{ErrorObject, Event, Reply};

/// Watches a reply, and replaces the rest of it from some event on, at most once.
pub(crate) trait Takeover: Send + Unpin + 'static {
    /// Checks an event before it passes. Returns true to take over with this event.
    fn takes_over_at(&mut self, event: &Event) -> bool;

    /// The reply that follows instead of `event` and `rest`.
    fn take_over(self, event: Event, rest: Reply) -> Reply;
}

/// A reply that passes until its takeover.
struct PassThrough<T> {
    reply: Reply,
    /// `None` once it has taken over.
    turn: Option<T>,
}

/// Passes a reply on until `turn` takes over.
pub(crate) fn until<T: Takeover>(reply: Reply, turn: T) -> Reply {
    Reply::new(PassThrough { reply, turn: Some(turn) })
}

impl<T: Takeover> Stream for PassThrough<T> {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        loop {
            let Some(event) = ready!(Pin::new(&mut self.reply).poll_next(cx)) else { return Poll::Ready(None) };
            if !self.turn.as_mut().is_some_and(|turn| turn.takes_over_at(&event)) {
                return Poll::Ready(Some(event));
            }
            let Some(turn) = self.turn.take() else { return Poll::Ready(Some(event)) };
            // a placeholder that is never read
            let rest = mem::replace(&mut self.reply, Reply::failed(ErrorObject::internal("the call is over")));
            self.reply = turn.take_over(event, rest);
        }
    }
}
