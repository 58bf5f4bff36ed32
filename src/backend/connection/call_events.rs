//! Event queue of one open call, from the receiver of messages to the caller.

use crate::{
    mcp::Event,
    support::{
        Account,
        byte_queue::{Bounds, QueueReceiver, QueueSender, byte_queue},
    },
};

/// The events, without the end, that wait for a slow reader; further ones are dropped.
pub(super) const QUEUE: Bounds = Bounds { messages: 255, bytes: 4 * 1024 * 1024 };

/// The sending side. Dropping it ends the stream.
pub(super) type EventSender = QueueSender<Event>;

/// The reading side.
pub(super) type EventReceiver = QueueReceiver<Event>;

/// Creates both sides; what waits is charged to this account.
pub(super) fn call_events(account: Account) -> (EventSender, EventReceiver) {
    byte_queue(QUEUE, account)
}
