//! Event queue of one open call, from the receiver of messages to the caller.

use crate::{
    mcp::Event,
    support::{
        Account,
        byte_queue::{Bounds, QueueReceiver, QueueSender, byte_queue},
    },
};

/// Bounds of the events that wait for a slow reader; more are dropped, except the last one.
pub(super) const QUEUE: Bounds = Bounds { messages: 255, bytes: 4 * 1024 * 1024 };

/// The sending side. Dropping it ends the stream.
pub(super) type EventSender = QueueSender<Event>;

pub(super) type EventReceiver = QueueReceiver<Event>;

/// Creates both ends. Waiting events are charged to `account`.
pub(super) fn call_events(account: Account) -> (EventSender, EventReceiver) {
    byte_queue(QUEUE, account)
}
