//! A reply that passes as it is up to the event that needs a decorator. Knows nothing of decorators.

use std::{
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::Stream;

use crate::mcp::{ErrorObject, Event, Reply};

/// The event from which on a reply does not pass as it is, and what follows then.
pub(super) trait Turn: Send + Unpin + 'static {
    /// Looks at an event before it passes. Returns whether the reply turns with it.
    fn turns_with(&mut self, event: &Event) -> bool;

    /// The reply from that event on.
    fn turned(self, event: Event, rest: Reply) -> Reply;
}

/// A reply that has a turn at most.
struct PassThrough<T> {
    reply: Reply,
    turn: Option<T>,
}

/// The same reply up to its turn, and the turned one from there on.
pub(super) fn until<T: Turn>(reply: Reply, turn: T) -> Reply {
    Reply::new(PassThrough { reply, turn: Some(turn) })
}

impl<T: Turn> Stream for PassThrough<T> {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        loop {
            let Some(event) = ready!(Pin::new(&mut self.reply).poll_next(cx)) else { return Poll::Ready(None) };
            if !self.turn.as_mut().is_some_and(|turn| turn.turns_with(&event)) {
                return Poll::Ready(Some(event));
            }
            let Some(turn) = self.turn.take() else { return Poll::Ready(Some(event)) };
            // read by nobody
            let rest = mem::replace(&mut self.reply, Reply::failed(ErrorObject::internal("the call is over")));
            self.reply = turn.turned(event, rest);
        }
    }
}
