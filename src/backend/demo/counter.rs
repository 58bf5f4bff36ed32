//! The changing resource of the demonstration backend, and its subscribers. Nothing runs without subscribers.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::json;
use tokio::{sync::broadcast, time::interval};

use super::results::REVISION;
use crate::{
    mcp::{Event, Method, Notification, Payload, Reply},
    model::Requester,
};

pub(super) const URI: &str = "demo://counter";
/// Interval at which the counter moves by itself while a client is subscribed.
const EVERY: Duration = Duration::from_secs(5);
/// Number of changes that a listen may lag behind; older ones are skipped.
const BEHIND: usize = 16;

/// A counter, and the clients that are subscribed to it.
#[derive(Debug)]
pub(super) struct Counter {
    value: AtomicU64,
    subscribed: Mutex<HashSet<Requester>>,
    /// Signals a change of the counter or of its subscribers.
    changed: broadcast::Sender<()>,
}

impl Counter {
    pub(super) fn new() -> Arc<Self> {
        let changed = broadcast::Sender::new(BEHIND);
        Arc::new(Self { value: AtomicU64::new(0), subscribed: Mutex::default(), changed })
    }

    pub(super) fn value(&self) -> u64 {
        self.value.load(Ordering::Acquire)
    }

    /// Increments the counter and notifies all subscribers; returns the new value.
    pub(super) fn advance(&self) -> u64 {
        let value = self.value.fetch_add(1, Ordering::AcqRel) + 1;
        let _ = self.changed.send(());
        value
    }

    /// Subscribes a client session.
    pub(super) fn subscribe(&self, holder: Requester) {
        self.subscribed.lock().insert(holder);
        let _ = self.changed.send(());
    }

    /// Unsubscribes a client session.
    pub(super) fn unsubscribe(&self, holder: &Requester) {
        self.subscribed.lock().remove(holder);
    }

    /// Notifications for this client session: each change while it is subscribed. Each subscribed session moves the
    /// counter once in [`EVERY`].
    pub(super) fn listen(self: &Arc<Self>, holder: Requester) -> Reply {
        let (counter, mut changes) = (Arc::clone(self), self.changed.subscribe());
        // also report changes between this call and the first poll
        let mut seen = self.value();
        Reply::new(async_stream::stream! {
            let mut ticks = interval(EVERY);
            ticks.reset();
            loop {
                let subscribed = counter.subscribed.lock().contains(&holder);
                tokio::select! {
                    _ = changes.recv() => {}
                    _ = ticks.tick(), if subscribed => { counter.advance(); }
                }
                let value = counter.value();
                if value != std::mem::replace(&mut seen, value) && counter.subscribed.lock().contains(&holder) {
                    let params = Payload::of(REVISION, &json!({ "uri": URI }));
                    yield Event::Notified(Notification { method: Method::ResourceUpdated, params });
                }
            }
        })
    }
}
